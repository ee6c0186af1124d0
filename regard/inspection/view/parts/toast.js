/** Short messages that everybody sees and a screen reader hears: what was done, and what failed. */

import { make, fill } from "../core/dom.js";
import { button } from "./controls.js";

const SHOWN = 6000; // milliseconds that a confirmation stays; a failure stays until it is closed or replaced

/** The place of the messages, at the edge of the page. */
export class Toast {
  constructor() {
    this.done = make("div", { class: "toast", role: "status" });
    this.failed = make("div", { class: "toast is-failure", role: "alert" });
    this.elements = [this.failed, this.done];
  }

  /** Say that something was done. */
  confirm(sentence) {
    this.clear();
    this.show(this.done, sentence);
    this.timer = setTimeout(() => fill(this.done), SHOWN);
  }

  /** Say that something failed. */
  fail(error) {
    this.clear();
    this.show(this.failed, error.message);
  }

  clear() {
    clearTimeout(this.timer);
    fill(this.done);
    fill(this.failed);
  }

  show(room, sentence) {
    const close = button("×", () => this.clear(), { class: "quiet", "aria-label": "Close this message" });
    fill(room, make("p", { text: sentence }), close);
  }
}
