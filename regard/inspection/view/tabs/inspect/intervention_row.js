/** The row that is changed, word by word: the model's own weight, the one it has now, and a field to type another. */

import { make, fill, digits } from "../../core/dom.js";
import { track } from "../../parts/share_table.js";
import { sharesOf } from "./interventions.js";

const LEAST = 5e-5; // a smaller change does not show in four digits

/** The table; show({words, original, row}) as often as needed, ontype(word, text) when somebody types a weight. */
export class InterventionRow {
  constructor({ ontype }) {
    this.ontype = ontype;
    this.element = make("div", { class: "intervention-row" });
  }

  show({ words, original, row }) {
    const [before, now] = [original, row].map((weights) => sharesOf(weights, words));
    this.words = words;
    this.before = before;
    this.now = now;
    const heads = ["word", "the model's own", "now", "bar"].map((text) => make("th", { scope: "col", text }));
    const active = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.interventionWord;
    const table = make(
      "table",
      { class: "intervention-table" },
      make("caption", { class: "unseen", text: "The row, word by word" }),
      make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, words.map((word, number) => !word.hidden && this.line(word, number))),
    );
    fill(this.element, table);
    if (active !== undefined) this.element.querySelector(`[data-intervention-word="${active}"]`)?.focus();
  }

  /** The row for a file. */
  table() {
    const rows = this.words.map(({ text }, number) => [text, this.before[number], this.now[number]]);
    return { columns: ["word", "the model's own", "now"], rows };
  }

  line({ text }, number) {
    const [before, now] = [this.before[number], this.now[number]];
    const input = make("input", {
      type: "number", min: 0, max: 1, step: "any", value: digits(now, 4), "aria-label": `Weight of ${text}`,
      "data-intervention-word": number, onchange: () => this.ontype(number, input.value),
    });
    return make(
      "tr",
      { class: Math.abs(now - before) > LEAST ? "changed" : null },
      make("th", { scope: "row", class: "key", dir: "auto", text }),
      make("td", { class: "figure", text: digits(before) }),
      make("td", {}, input),
      track(now, before),
    );
  }
}
