/** The logit lens: the word that each layer would write at each position, and how the likeliest words come up. */

import { make, fill, digits, svg, quoted } from "../../core/dom.js";
import { attentionShade, ideaColour, inkOn, paint } from "../../core/colour.js";
import { rowTexts } from "../../core/rows.js";
import { writeShare } from "../../core/chances.js";
import { panel } from "../../parts/panel.js";
import { tokenText } from "../../parts/share_table.js";
import { foldedTable } from "../../parts/table.js";
import { Matrix } from "../../pictures/matrix.js";
import { offerSaves } from "../../saving/save.js";

const NONE = "This model gives a class and no words, so its layers have no words to show. The panels beside this one work.";
const CELL = { width: 150, height: 24, left: 170, top: 30 };

/** The panel; show({trace, lens, place}) as often as needed, onpick(place) when a position is chosen. */
export class LensPanel {
  constructor(context, { onpick }) {
    this.onpick = onpick;
    this.card = panel({ title: "What each layer would write", class: "lens" });
    this.element = this.card.element;
    this.saying = make("p", { class: "sentence-of" });
    this.room = make("div", { class: "lens-room", tabindex: "0", role: "region", "aria-label": "Logit lens" });
    this.courseTitle = make("h3", {});
    const course = make("div", { class: "lens-course" });
    this.matrix = new Matrix(course, {
      label: "Probability: a row for each of the likeliest words, a column for each layer",
      rowIdea: "output",
      columnIdea: "ink",
      describe: ({ rowLabel, columnLabel, value }) => `${rowLabel} after ${columnLabel}: ${writeShare(value)}`,
    });
    this.course = make("div", {}, this.courseTitle, course);
    this.card.body.append(this.saying, this.room, this.course);
    this.folded = foldedTable({ caption: "The likeliest word of every layer", give: () => this.table() });
    this.card.foot.append(this.folded);
    offerSaves(this.card.foot, context, {
      name: "logit lens",
      isThere: () => !!this.lens,
      svg: () => this.svg(),
      table: () => this.table(),
      arrays: () => this.lens.arrays,
    });
  }

  show({ trace, lens, place }) {
    this.lens = lens;
    for (const part of [this.room, this.course, this.card.foot]) part.hidden = !lens;
    if (!lens) {
      this.saying.textContent = NONE;
      return;
    }
    const kind = trace.kinds.findLast(({ queries }) => queries === trace.written);
    this.rows = rowTexts(trace, kind, false);
    this.place = place;
    const [layers, positions, top] = lens.arrays.ids.shape;
    this.layers = layers;
    this.positions = positions;
    this.top = top;
    this.saying.textContent = this.sentence();
    this.draw();
    this.drawCourse();
    this.folded.refresh();
  }

  /** The likeliest words of a layer at a position: [{id, text, probability}]. */
  at(layer, position) {
    const { arrays, meta } = this.lens;
    return Array.from({ length: this.top }, (_, rank) => {
      const at = (layer * this.positions + position) * this.top + rank;
      const id = arrays.ids.data[at];
      return { id, text: tokenText(meta.texts[id]), probability: arrays.probabilities.data[at] };
    });
  }

  /** From which layer on the likeliest word is the last layer's. */
  settledAt(position) {
    const final = this.at(this.layers - 1, position)[0].id;
    let layer = this.layers - 1;
    while (layer > 0 && this.at(layer - 1, position)[0].id === final) layer--;
    return layer;
  }

  sentence() {
    const word = quoted(this.at(this.layers - 1, this.place)[0].text);
    if (this.layers === 1) return `There is one layer, so each word is that of the whole model. Here it is ${word}.`;
    const settled = Array.from({ length: this.positions }, (_, position) => this.settledAt(position));
    const early = settled.filter((layer) => layer < this.layers - 1).length;
    const here = this.settledAt(this.place);
    const when = here === 0 ? "already after layer 0" : here === this.layers - 1 ? "only after the last layer" : `from layer ${here} on`;
    return `${early} of ${this.positions} positions have their final word before the last layer. Here ${word} leads ${when}.`;
  }

  draw() {
    const titles = Array.from({ length: this.layers }, (_, layer) => layerTitle(layer, this.layers));
    const head = make("tr", {}, make("th", { scope: "col", text: "position" }), titles.map((text) => make("th", { scope: "col", text })));
    this.cells = [];
    const body = this.rows.map((text, position) => this.row(text, position));
    const table = make(
      "table",
      { class: "lens-table" },
      make("caption", { class: "unseen", text: "The likeliest word of each layer at each position" }),
      make("thead", {}, head),
      make("tbody", {}, body),
    );
    const scrolled = this.room.scrollTop;
    fill(this.room, table);
    paint(table, () => this.dye());
    this.room.scrollTop = scrolled;
    this.reveal(table.querySelector("[aria-pressed=true]"));
  }

  row(text, position) {
    const isChosen = position === this.place;
    const opening = { type: "button", class: "quiet", dir: "auto", text, "aria-pressed": String(isChosen), onclick: () => this.onpick(position) };
    const final = this.at(this.layers - 1, position)[0].id;
    const cells = Array.from({ length: this.layers }, (_, layer) => {
      const best = this.at(layer, position)[0];
      const cell = make(
        "td",
        { "data-value": best.probability, class: best.id === final ? "is-final" : null, onclick: () => this.onpick(position) },
        make(
          "span",
          { class: "lens-cell" },
          make("span", { class: "lens-word", dir: "auto", text: best.text }),
          make("span", { class: "figure", text: digits(best.probability, 2) }),
        ),
      );
      this.cells.push({ cell, best });
      return cell;
    });
    return make("tr", { class: isChosen ? "is-chosen" : null }, make("th", { scope: "row" }, make("button", opening)), cells);
  }

  dye() {
    for (const { cell, best } of this.cells) {
      const shade = attentionShade(best.probability);
      cell.style.setProperty("background-color", `rgb(${shade.join(", ")})`);
      cell.style.setProperty("color", inkOn(shade));
    }
  }

  // Only the list scrolls, never the page.
  reveal(button) {
    const row = button?.closest("tr");
    if (!row || this.revealed === this.place) return;
    this.revealed = this.place;
    const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
    if (top < this.room.scrollTop || bottom > this.room.scrollTop + this.room.clientHeight) this.room.scrollTop = top - 90;
  }

  drawCourse() {
    const { course } = this.lens.arrays;
    const words = this.at(this.layers - 1, this.place).map(({ text }) => text);
    const weights = words.map((_, rank) => Array.from(
      { length: this.layers },
      (_, layer) => course.data[(layer * this.positions + this.place) * this.top + rank],
    ));
    this.courseTitle.textContent = `${this.rows[this.place]}: how the likeliest words come up`;
    const columns = Array.from({ length: this.layers }, (_, layer) => `layer ${layer}`);
    this.matrix.show({ rows: words, columns, weights, numbers: "all", largest: 1 });
  }

  /** Every word with its probability, a line for each position. */
  table() {
    const layers = Array.from({ length: this.layers }, (_, layer) => layer);
    const columns = ["position", ...layers.flatMap((layer) => [`layer ${layer} word`, `layer ${layer} probability`])];
    const rows = this.rows.map((text, position) => [
      text,
      ...layers.flatMap((layer) => {
        const best = this.at(layer, position)[0];
        return [best.text, best.probability];
      }),
    ]);
    return { columns, rows };
  }

  /** The table as a drawing. */
  svg() {
    const [width, height] = [CELL.left + CELL.width * this.layers, CELL.top + CELL.height * this.rows.length + 8];
    const label = (x, y, anchor, idea, text) => svg("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central", fill: ideaColour(idea), text });
    const parts = this.rows.flatMap((text, position) => {
      const y = CELL.top + CELL.height * position;
      const cells = Array.from({ length: this.layers }, (_, layer) => {
        const best = this.at(layer, position)[0];
        const shade = attentionShade(best.probability);
        const x = CELL.left + CELL.width * layer;
        return [
          svg("rect", { x: x + 1, y: y + 1, width: CELL.width - 2, height: CELL.height - 2, rx: 3, fill: `rgb(${shade.join(", ")})` }),
          svg("text", { x: x + 10, y: y + CELL.height / 2, "dominant-baseline": "central", fill: inkOn(shade), text: best.text }),
          svg("text", { x: x + CELL.width - 10, y: y + CELL.height / 2, "text-anchor": "end", "dominant-baseline": "central", fill: inkOn(shade), text: digits(best.probability, 2) }),
        ];
      });
      return [label(CELL.left - 10, y + CELL.height / 2, "end", "query", text), ...cells.flat()];
    });
    const heads = Array.from({ length: this.layers }, (_, layer) => label(CELL.left + CELL.width * (layer + 0.5), 16, "middle", "soft", layerTitle(layer, this.layers)));
    const look = { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif", "font-size": 13 };
    return svg("svg", look, svg("rect", { width, height, fill: ideaColour("card") }), heads, parts);
  }
}

function layerTitle(layer, layers) {
  return layer === layers - 1 ? `layer ${layer}, output` : `layer ${layer}`;
}
