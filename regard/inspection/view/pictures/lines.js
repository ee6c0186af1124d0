/** The words twice, left and right, and a curve from each word to what it looks at; its opacity is the weight. */

import { make, svg, fill } from "../core/dom.js";
import { paint, headColour, ideaColour } from "../core/colour.js";
import { rove, stopAt } from "../core/roving.js";

const ROW = 26; // pixels from word to word
export const LEAST = 0.02; // weights below are left out of the drawing; the table has them
export const FAINT = 0.25; // of the opacity for words beside a chosen one; set in inspect.css
const MOST = 1500;
const WIDTH = 300;

/** How a weight is drawn: its opacity is the weight, and a larger one is wider. */
export function strokeOf(weight, colour) {
  return { fill: "none", stroke: colour, "stroke-width": 0.5 + 5.5 * weight, "stroke-opacity": weight };
}

/**
 * The drawing; show({rows, columns, heads: [{head, weights}], pinned, isolated}).
 *
 * A single head is drawn in the ink of attention, several in their hues.
 */
export class Lines {
  constructor(root, { onhover, onpin, onisolate, onrelease }) {
    this.onhover = onhover;
    this.onpin = onpin;
    this.onisolate = onisolate;
    this.asking = make("ul", { class: "lines-words asking", "aria-label": "Words that ask" });
    this.answering = make("ul", { class: "lines-words answering", "aria-label": "Words that answer" });
    this.room = make("div", { class: "lines-curves" });
    rove(this.asking, "button");
    this.asking.addEventListener("pointerleave", () => this.onhover(null));
    this.asking.addEventListener("keydown", (event) => event.key === "Escape" && onrelease());
    root.append(make("div", { class: "lines" }, this.asking, this.room, this.answering));
  }

  show({ rows, columns, heads, pinned, isolated }) {
    this.rows = rows;
    this.columns = columns;
    this.heads = heads;
    this.pinned = pinned;
    this.isolated = isolated;
    this.buttons = rows.map((text, row) => this.word(text, row));
    fill(this.asking, this.buttons.map((button) => make("li", {}, button)));
    fill(this.answering, columns.map((text) => make("li", {}, make("span", { dir: "auto", text }))));
    stopAt(this.asking, "button", this.buttons[pinned ?? 0]);
    paint(this.room, () => this.draw());
    this.point(null);
  }

  /** Bring one word's lines forward; null returns to the pinned word. */
  point(row) {
    const strong = row ?? this.pinned;
    for (const group of this.room.querySelectorAll("g")) group.classList.toggle(
      "is-strong",
      group.dataset.row === String(strong),
    );
    this.room.classList.toggle("is-pointed", (strong ?? null) !== null);
    this.room.classList.toggle("is-isolated", this.isolated !== null && this.isolated !== undefined);
    this.buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === strong)));
    const best = strong === null || strong === undefined ? [] : this.shares(strong);
    [...this.answering.children].forEach((item, column) => {
      item.dataset.value = best[column] ?? "";
      item.classList.toggle("is-strong", best[column] >= 0.1);
    });
  }

  /** The drawing with its words, for a file. */
  svg() {
    const height = this.height();
    const words = (list, x, anchor, idea) => list.map((text, place) => svg("text", {
      x,
      y: place * ROW + ROW / 2,
      "text-anchor": anchor,
      "dominant-baseline": "central",
      fill: ideaColour(idea),
      text,
    }));
    const size = {
      viewBox: `-160 0 ${WIDTH + 320} ${height}`,
      width: WIDTH + 320,
      height,
      "font-family": "system-ui, sans-serif",
      "font-size": 14,
    };
    const ground = svg("rect", { x: -160, width: WIDTH + 320, height, fill: ideaColour("card") });
    return svg(
      "svg",
      { xmlns: "http://www.w3.org/2000/svg", ...size },
      ground,
      this.curves(),
      words(this.rows, -8, "end", "query"),
      words(this.columns, WIDTH + 8, "start", "key"),
    );
  }

  draw() {
    const size = {
      viewBox: `0 0 ${WIDTH} ${this.height()}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      height: this.height(),
    };
    fill(this.room, svg("svg", size, this.curves()));
  }

  curves() {
    const found = [];
    for (const { head, weights } of this.heads) {
      weights.forEach((weight, at) => weight >= LEAST && found.push({
        head,
        weight,
        row: Math.floor(at / this.columns.length),
        column: at % this.columns.length,
      }));
    }
    const kept = found.length > MOST ? found.toSorted((one, other) => other.weight - one.weight).slice(0, MOST) : found;
    const groups = this.rows.map((_, row) => svg("g", { "data-row": row }));
    const middle = (this.heads.length - 1) / 2;
    for (const { head, weight, row, column } of kept) {
      const place = this.heads.findIndex((each) => each.head === head);
      groups[row].append(this.curve(row, column, weight, this.colour(head), (place - middle) * 2));
    }
    return groups;
  }

  curve(row, column, weight, colour, shift) {
    const [from, to] = [row * ROW + ROW / 2 + shift, column * ROW + ROW / 2 + shift];
    const d = `M0 ${from} C${WIDTH * 0.45} ${from} ${WIDTH * 0.55} ${to} ${WIDTH} ${to}`;
    return svg("path", { d, ...strokeOf(weight, colour), "data-value": weight });
  }

  colour(head) {
    return this.heads.length > 1 ? headColour(head) : ideaColour("query");
  }

  height() {
    return ROW * Math.max(this.rows.length, this.columns.length, 1);
  }

  shares(row) {
    const start = row * this.columns.length;
    return this.columns.map((_, column) => Math.max(...this.heads.map(({ weights }) => weights[start + column])));
  }

  word(text, row) {
    return make("button", {
      type: "button", dir: "auto", text,
      onclick: () => this.onpin(row), ondblclick: () => this.onisolate(row),
      onpointerenter: () => this.onhover(row), onfocus: () => this.onhover(row), onblur: () => this.onhover(null),
    });
  }
}
