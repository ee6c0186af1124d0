/** The row that is changed, word by word: the model's own weight, the one it has now, and a field to type another. */

import { make, fill, adjust, digits } from "../../core/dom.js";
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
    this.before = before;
    this.now = now;
    const isSame = JSON.stringify(words) === JSON.stringify(this.words);
    this.words = words;
    if (!isSame) this.build();
    for (const line of this.lines) line.show();
  }

  build() {
    const heads = ["word", "the model's own", "now", "bar"].map((text) => make("th", { scope: "col", text }));
    this.lines = this.words.flatMap((word, number) => (word.hidden ? [] : [this.line(word, number)]));
    fill(this.element, make(
      "table",
      { class: "intervention-table" },
      make("caption", { class: "unseen", text: "The row, word by word" }),
      make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, this.lines.map(({ root }) => root)),
    ));
  }

  /** The row for a file. */
  table() {
    const rows = this.words.map(({ text }, number) => [text, this.before[number], this.now[number]]);
    return { columns: ["word", "the model's own", "now"], rows };
  }

  // The fields stay where they are while numbers change: the keyboard moves on from them, and what is being
  // typed outlives a late answer.
  line({ text }, number) {
    let isTyped = false;
    const input = make("input", {
      type: "number", min: 0, max: 1, step: "any", "aria-label": `Weight of ${text}`, "data-intervention-word": number,
      oninput: () => (isTyped = true),
      onblur: () => (isTyped = false),
      onchange: () => {
        isTyped = false;
        this.ontype(number, input.value);
      },
    });
    const own = make("td", { class: "figure" });
    const root = make("tr", {}, make("th", { scope: "row", class: "key", dir: "auto", text }), own, make("td", {}, input));
    let bar = null;
    const show = () => {
      const [before, now] = [this.before[number], this.now[number]];
      adjust(root, { class: Math.abs(now - before) > LEAST ? "changed" : null });
      adjust(own, { text: digits(before) });
      if (!isTyped) adjust(input, { value: digits(now, 4) });
      bar?.remove();
      bar = track(now, before);
      root.append(bar);
    };
    return { root, show };
  }
}
