/** A card with a heading, a sentence that stands for its picture, and room below. */

import { adjust, make, uniqueId } from "../core/dom.js";

/**
 * A card: a group named by its heading, since a landmark for each would be too many.
 *
 * fail(error) shows an error in the card's own line, null clears it. blank(true) hides the picture and restores
 * the first title, until blank(false).
 */
export function panel({ title, class: name = "" }) {
  const id = uniqueId("panel");
  const heading = make("h2", { id, text: title });
  const body = make("div", { class: "panel-body" });
  const foot = make("div", { class: "panel-foot" });
  const element = make("div", { class: `panel ${name}`, role: "group", "aria-labelledby": id }, heading, body, foot);
  const { fail, blank } = errorLine(element, heading);
  return {
    element,
    heading,
    body,
    foot,
    fail,
    blank: (isBlank) => {
      if (isBlank) heading.textContent = title;
      blank(isBlank);
    },
  };
}

/** An error line for an element, placed after one of its children or first: {element, fail, blank} as of a card. */
export function errorLine(element, after = null) {
  const line = make("p", { class: "panel-error", role: "alert", hidden: true });
  if (after) after.after(line);
  else element.prepend(line);
  return {
    element,
    fail: (error) => adjust(line, { text: error?.message ?? "", hidden: !error }),
    blank: (isBlank) => element.classList.toggle("is-blank", isBlank),
  };
}

/** Something that stands outside a card and is drawn with it: {fail, blank} as of a card. */
export function beside(element) {
  return { fail: () => {}, blank: (isBlank) => element.classList.toggle("is-hidden", isBlank) };
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
