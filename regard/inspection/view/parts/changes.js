/** One line above every tab that names what is changed in the model, with a button that undoes all of it. */

import { make, adjust } from "../core/dom.js";
import { button } from "./controls.js";

const UNDONE = { ablate: [], interventions: [], snapshot: null, target: null };

/** What is changed, in a few words: "6 heads off, 1 intervention"; "" where nothing is. */
function changesText(state) {
  const [ablate, interventions] = [state.get("ablate"), state.get("interventions")];
  const [snapshot, target] = [state.get("snapshot"), state.get("target")];
  const heads = ablate.filter(Array.isArray).length;
  const parts = ablate.filter((part) => !Array.isArray(part));
  const counted = (count, name) => count > 0 && `${count} ${name}${count > 1 ? "s" : ""}`;
  const told = [
    heads > 0 && `${counted(heads, "head")} off`,
    parts.length > 0 && `${parts.join(", ")} off`,
    counted(interventions.length, "intervention"),
    snapshot !== null && `snapshot of step ${snapshot.toLocaleString("en")}`,
    target !== null && "output forced",
  ];
  return told.filter(Boolean).join(", ");
}

/** The line; `undone` is called after a reset. */
export function changesLine(state, { undone }) {
  const text = make("span", { class: "changes-text", "aria-live": "polite" });
  const reset = () => {
    state.set(UNDONE, { push: true });
    undone();
  };
  const line = make("div", { class: "changes", role: "group", "aria-label": "Active changes", hidden: true });
  line.append(text, button("Reset", reset, { class: "quiet" }));
  const draw = () => {
    const told = changesText(state);
    text.textContent = told ? `The model is changed: ${told}.` : "";
    adjust(line, { hidden: !told });
  };
  state.on(Object.keys(UNDONE), draw);
  draw();
  return line;
}
