/** Words as a row of buttons with one tab stop, of which some are down. */

import { make, fill } from "../core/dom.js";
import { rove, stopAt } from "../core/roving.js";

/** new Chips(label); show([{text, name, kind, isDown, onclick}]) as often as needed, the focus stays where it is. */
export class Chips {
  constructor(label) {
    this.element = make("div", { class: "chips", role: "group", "aria-label": label });
    rove(this.element, "button");
  }

  show(chips) {
    const buttons = chips.map(({ text, name = null, kind = "", isDown, onclick }) => make("button", {
      type: "button",
      class: `chip ${kind}`.trim(),
      text,
      dir: "auto",
      onclick,
      "aria-pressed": String(isDown),
      "aria-label": name,
    }));
    const focused = [...this.element.children].indexOf(document.activeElement);
    fill(this.element, buttons);
    const stop = focused >= 0 ? Math.min(focused, buttons.length - 1) : chips.findLastIndex(({ isDown }) => isDown);
    if (focused >= 0) buttons[stop]?.focus();
    stopAt(this.element, "button", buttons[Math.max(0, stop)]);
  }
}
