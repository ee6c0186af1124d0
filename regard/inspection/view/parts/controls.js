/** Labelled inputs: every one has a name that is seen and heard, and a range shows its value. */

import { make, uniqueId } from "../core/dom.js";

/**
 * A number by sliding or typing: {root, set(number)}; onchange(number) hears what a person chose.
 *
 * least and most bound the range; typing may go up to `limit`. A typed number that is none is left alone.
 */
export function slider({ label, least, most, step, value, limit = most, onchange }) {
  const id = uniqueId("slider");
  const range = make("input", { type: "range", id, min: least, max: most, step, value });
  const typed = make("input", {
    type: "number",
    class: "typed",
    min: least,
    max: limit,
    step: "any",
    value,
    "aria-label": `${label}, typed`,
  });
  const hear = (from, other) => {
    const number = Number(from.value);
    if (from.value === "" || !Number.isFinite(number)) return;
    const inside = Math.min(limit, Math.max(least, number));
    other.value = inside;
    onchange(inside);
  };
  range.addEventListener("input", () => hear(range, typed));
  typed.addEventListener("input", () => hear(typed, range));
  const set = (number) => {
    range.value = number;
    if (document.activeElement !== typed) typed.value = tidy(number);
  };
  set(value);
  const root = make(
    "div",
    { class: "slider" },
    make("label", { for: id, text: label }),
    range,
    typed,
  );
  return { root, range, typed, set };
}

/** A box to tick, with its words: {root, set(flag)}. */
export function tick({ label, value, onchange }) {
  const box = make("input", { type: "checkbox", checked: value, onchange: () => onchange(box.checked) });
  const set = (flag) => {
    box.checked = flag;
  };
  return { root: make("label", { class: "tick-box" }, box, label), box, set };
}

/** A choice from a list of [value, words]: {root, set(value), offer(list)}. */
export function choice({ label, options = [], value = undefined, onchange }) {
  const id = uniqueId("choice");
  const select = make("select", { id, onchange: () => onchange(select.value) });
  const offer = (list, chosen = select.value) => {
    select.replaceChildren(...list.map(([of, words]) => make("option", { value: of, text: words })));
    select.value = String(chosen);
    if (select.selectedIndex < 0) select.selectedIndex = 0;
  };
  offer(options, value);
  const set = (chosen) => {
    select.value = String(chosen);
  };
  return { root: make("div", { class: "choice" }, make("label", { for: id, text: label }), select), select, offer, set };
}

/** A plain button. */
export function button(text, onclick, settings = {}) {
  return make("button", { type: "button", text, onclick, ...settings });
}

function tidy(number) {
  return String(Math.round(number * 1e6) / 1e6);
}
