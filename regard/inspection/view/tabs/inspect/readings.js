/** Both sides of a sentence as words: what the model reads and what it writes, shaded by what is looked at. */

import { make, fill } from "../../core/dom.js";
import { Words, unknownSentence } from "../../parts/words.js";
import { rowOf, positionOf } from "./scene.js";
import { partsOf } from "../../core/tracing.js";
import { rowsWrite } from "../../core/rows.js";

const SIDES = {
  source: { label: "The sentence, shaded by what is looked at", short: "It reads" },
  target: { label: "What the model writes", short: "It writes" },
};

/** The lists of words; `onhover(row, column)`, `onpin(part)` as a choice takes it, `onisolate(row)`. */
export class Readings {
  constructor({ onhover, onpin, onisolate }) {
    this.onhover = onhover;
    this.onpin = onpin;
    this.onisolate = onisolate;
    this.element = make("div", { class: "readings" });
    this.notes = make("p", { class: "notes" });
    this.words = {};
  }

  /** Show the words of a scene's trace, shaded by its row. */
  show(scene) {
    this.scene = scene;
    const { sides } = scene.trace;
    if (Object.keys(sides).join() !== Object.keys(this.words).join()) this.build(sides);
    for (const [side, words] of Object.entries(this.words)) {
      words.show(partsOf(scene.trace, side, scene.isWords), scene.isWords);
    }
    const said = Object.values(sides).map(({ words }) => unknownSentence(words));
    this.notes.textContent = said.filter(Boolean).join(" ");
    this.shade(scene.row, null);
  }

  /** Shade by another row, or mark another cell of the row. */
  shade(row, column) {
    const { scene } = this;
    const { queries, keys } = scene.kindInfo;
    const looked = column ?? (row === scene.row ? scene.column : null);
    for (const [side, words] of Object.entries(this.words)) {
      const [asks, answers] = [side === queries, side === keys];
      const marks = {
        asking: asks ? row + this.shift : null,
        pinned: asks ? scene.row + this.shift : null,
        answering: answers ? looked : null,
      };
      words.shade(answers ? rowOf(scene, row) : null, marks);
    }
  }

  build(sides) {
    this.words = {};
    fill(this.element);
    for (const side of Object.keys(sides)) this.words[side] = this.wordsOf(side, sides.source ? SIDES[side] : SIDES.source);
  }

  wordsOf(side, names) {
    const words = new Words(this.element, {
      ...names,
      onhover: (place) => this.hover(side, place),
      onpin: (place) => this.pin(side, place),
      onisolate: (place) => side === this.scene.kindInfo.queries && this.onisolate(this.rowAt(place)),
    });
    words.list.classList.add(side);
    return words;
  }

  // A word that is written is the step before it; the word that is marked is the one that the step writes.
  get shift() {
    return rowsWrite(this.scene.trace, this.scene.kindInfo) ? 1 : 0;
  }

  rowAt(place) {
    return Math.max(0, place - this.shift);
  }

  hover(side, place) {
    const { queries, keys } = this.scene.kindInfo;
    if (place === null) this.onhover(null, null);
    else if (side === queries) this.onhover(this.rowAt(place), null);
    else if (side === keys) this.onhover(this.scene.row, place);
  }

  // A word of the other side asks in another kind of attention.
  pin(side, place) {
    const { trace, kindInfo, isWords, layer, head } = this.scene;
    const other = trace.kinds.findLast(({ queries }) => queries === side);
    const kind = kindInfo.queries === side ? kindInfo : other;
    if (!kind) return;
    const row = rowsWrite(trace, kind) ? Math.max(0, place - 1) : place;
    const query = positionOf(partsOf(trace, side, isWords)[row], row);
    if (kind === kindInfo) this.onpin({ query });
    else this.onpin({ kind: other.name, layer: Math.min(layer, other.layers - 1), head, query });
  }
}
