/** A card with a heading, a sentence that stands for its picture, and room below. */

import { make, uniqueId } from "../core/dom.js";

/** {element, heading, body, foot}: a group named by its heading; a landmark each would be too many. */
export function panel({ title, class: name = "", level = 2 }) {
  const id = uniqueId("panel");
  const heading = make(`h${level}`, { id, text: title });
  const body = make("div", { class: "panel-body" });
  const foot = make("div", { class: "panel-foot" });
  const element = make("div", { class: `panel ${name}`, role: "group", "aria-labelledby": id }, heading, body, foot);
  return { element, heading, body, foot };
}

/** Buttons of which one is chosen: segments({label, choices: [[value, text], ...], chosen, onchoose}). */
export function segments({ label, choices, chosen, onchoose }) {
  const buttons = choices.map(([value, text]) => {
    const pressed = { "aria-pressed": String(value === chosen), onclick: () => onchoose(value) };
    return make("button", { type: "button", text, "data-value": value, ...pressed });
  });
  return make("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

/** Mark the chosen one of such buttons. */
export function choose(group, chosen) {
  for (const button of group.children) button.setAttribute(
    "aria-pressed",
    String(button.dataset.value === String(chosen)),
  );
}
