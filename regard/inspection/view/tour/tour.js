/** A guided tour: the lectures' story in about ten cards, each of which opens the place it speaks of. */

import { make, fill, uniqueId } from "../core/dom.js";
import { button } from "../parts/controls.js";
import { stopsFor } from "./stops.js";

/** The button in the header and the card; `context` is what every tab is given. */
export class Tour {
  constructor(root, context) {
    this.state = context.state;
    this.source = context.source;
    this.model = context.model;
    this.root = root;
    this.number = null;
    this.opener = button("Tour", () => this.begin(), { class: "quiet" });
    this.title = make("h2", { id: uniqueId("tour"), tabindex: "-1" });
    this.text = make("div", { class: "tour-text" });
    this.counter = make("span", { class: "counter" });
    this.back = button("Back", () => this.go(this.number - 1));
    this.next = button("Next", () => this.go(this.number + 1), { class: "primary" });
    const leave = button("Leave", () => this.leave(), { class: "quiet" });
    this.card = make(
      "section",
      { class: "tour-card", "aria-labelledby": this.title.id, hidden: true },
      this.title,
      this.text,
      make("div", { class: "buttons" }, this.back, this.next, this.counter, leave),
    );
    root.append(this.card);
    root.ownerDocument.addEventListener("keydown", (event) => this.press(event));
  }

  begin() {
    this.stops = stopsFor(this.model());
    this.go(0);
  }

  /** Leave the card; the page stays as it is. */
  leave() {
    this.number = null;
    this.card.hidden = true;
    this.root.classList.remove("on-tour");
    this.opener.focus();
  }

  async go(number) {
    if (number < 0) return;
    if (number >= this.stops.length) {
      this.leave();
      return;
    }
    this.number = number;
    const stop = this.stops[number];
    this.show(stop, number);
    this.state.set(stop.state(this.model()), { push: true });
    const more = await stop.prepare?.(this.source, this.model()).catch(() => null);
    if (more && this.number === number) this.state.set(more);
  }

  show(stop, number) {
    this.card.hidden = false;
    this.root.classList.add("on-tour");
    this.title.textContent = stop.title;
    fill(
      this.text,
      stop.words.map((words) => make("p", { text: words })),
      stop.note && make("p", { class: "note", text: stop.note }),
    );
    this.counter.textContent = `${number + 1} of ${this.stops.length}`;
    this.back.disabled = number === 0;
    this.next.textContent = number === this.stops.length - 1 ? "Finish" : "Next";
    this.title.focus({ preventScroll: true });
    globalThis.scrollTo?.({ top: 0 });
    if (stop.show) setTimeout(
      () => this.root.querySelector(stop.show)?.scrollIntoView({ block: "center" }),
      500,
    );
  }

  press(event) {
    if (this.number === null || event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    this.leave();
  }
}
