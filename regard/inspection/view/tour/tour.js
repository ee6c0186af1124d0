/** A guided tour: the lectures' story in about ten cards, each of which opens the place it speaks of. */

import { make, fill, uniqueId } from "../core/dom.js";
import { PanelRequests } from "../core/requests.js";
import { button } from "../parts/controls.js";
import { settled } from "../core/work.js";
import { stopsFor } from "./stops.js";

const NARROW = 760; // pixels, as in the style sheets

/** The button in the header and the card; `context` is what every tab is given. */
export class Tour {
  constructor(root, context) {
    this.state = context.state;
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
    this.requests = new PanelRequests(context, { name: "tour", cards: [this], subject: () => this.number });
    this.state.on(["model"], () => this.changeModel());
    root.ownerDocument.addEventListener("keydown", (event) => this.press(event));
  }

  begin() {
    this.stops = stopsFor(this.model());
    this.go(0);
  }

  /** Leave the card; the page stays as it is. */
  leave() {
    this.number = null;
    this.requests.stop();
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
    await this.tell(stop);
    await settled(this.root.querySelector(".main"));
    if (this.number === number) this.reveal(stop);
  }

  /** The stop again with another model, or the first one that this model has. */
  changeModel() {
    if (this.number === null) return;
    const { title } = this.stops[this.number];
    this.stops = stopsFor(this.model());
    this.go(Math.max(0, this.stops.findIndex((stop) => stop.title === title)));
  }

  /** Say what was measured, and show the place that belongs to it. */
  async tell(stop) {
    this.requests.stop();
    if (!stop.measure) return;
    await this.requests.run((ask) => stop.measure(ask, this.model()), ({ words, state }) => {
      if (state) this.state.set(state);
      this.say(words);
    });
  }

  say(sentences) {
    fill(this.measured, sentences.map((text) => make("p", { text })));
  }

  /** The error line of the requests. */
  fail(error) {
    if (error) this.say([`This could not be measured: ${error.message}`]);
  }

  /** The words of another model are never kept: `show` empties the card at every stop. */
  blank() {}

  /** Bring what a stop speaks of into view, on a narrow page above the card. */
  reveal(stop) {
    const part = stop.show && [...this.root.querySelectorAll(stop.show)].find((element) => element.offsetParent);
    if (!part) return;
    const isNarrow = this.root.clientWidth < NARROW;
    part.scrollIntoView({ block: isNarrow || part.offsetHeight > globalThis.innerHeight / 2 ? "start" : "center" });
  }

  show(stop, number) {
    this.card.hidden = false;
    this.root.classList.add("on-tour");
    this.title.textContent = stop.title;
    this.measured = make("div", { class: "tour-measured", "aria-live": "polite" }, stop.measure && make("p", { class: "soft", text: "Measuring in this model …" }));
    fill(
      this.text,
      stop.words.map((words) => make("p", { text: words })),
      this.measured,
      stop.note && make("p", { class: "note", text: stop.note }),
    );
    this.counter.textContent = `${number + 1} of ${this.stops.length}`;
    this.back.disabled = number === 0;
    this.next.textContent = number === this.stops.length - 1 ? "Finish" : "Next";
    this.title.focus({ preventScroll: true });
    globalThis.scrollTo?.({ top: 0 });
  }

  press(event) {
    if (this.number === null || event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    this.leave();
  }
}
