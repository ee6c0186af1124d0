/** Words as vectors: the embedding, what its place adds, and their sum; for all words a heat map. */

import { make, fill, quoted, digits } from "../../core/dom.js";
import { Matrix } from "../../pictures/matrix.js";
import { strips, magnitude } from "../../parts/strip.js";
import { signedLegend } from "../../parts/legend.js";
import { offerMatrix } from "../../saving/save.js";
import { listOf } from "../../saving/npz.js";
import { panel, segments, choose } from "../../parts/panel.js";
import { PanelRequests } from "../../core/requests.js";

const SAYING = {
  embeddings: "A row for each token: the numbers that its embedding looks up.",
  positions: "A row for each position: what is added so that the model can tell first from last.",
  sum: "Both together: what enters the first block.",
};
const NAMES = { embeddings: "Embeddings", positions: "Positions", sum: "Sum" };

/** The panel; show(trace, side, position) draws the vectors of one side and one of its tokens. */
export class Vectors {
  constructor(context) {
    this.shown = "positions";
    this.card = panel({ title: "Words as vectors", class: "vectors" });
    this.requests = new PanelRequests(context, { name: "vectors", cards: [this.card] });
    this.element = this.card.element;
    this.strips = make("div", {});
    this.tabs = segments({
      label: "Heat map",
      choices: Object.entries(NAMES),
      chosen: this.shown,
      onchoose: (name) => this.pick(name),
    });
    this.room = make("div", {});
    this.saying = make("p", { class: "reading" });
    this.legend = make("div", {});
    this.card.body.append(this.strips, this.tabs, this.room, this.saying, this.legend);
    this.matrix = new Matrix(this.room, {
      label: "Vectors: a row for each token, a column for each number",
      height: 260,
      rowIdea: "ink",
      columnIdea: "soft",
    });
    this.matrix.onhover = (cell) => this.read(cell);
    this.table = offerMatrix(this.card.foot, context, {
      name: "vectors",
      isThere: () => !!this.arrays,
      matrix: this.matrix,
      caption: "The vectors of this sentence",
      arrays: () => ({ tokens: listOf(this.tokens), ...this.arrays }),
    });
  }

  show(trace, side, position) {
    return this.requests.run(
      (ask) => ask.vectors(trace.trace, side),
      ({ arrays }) => this.draw(trace.sides[side], arrays, position),
    );
  }

  draw({ tokens }, arrays, position) {
    this.tokens = tokens.map(({ text }) => text);
    this.arrays = withSum(arrays);
    this.position = Math.min(position, this.tokens.length - 1);
    const word = this.tokens[this.position];
    this.card.heading.textContent = `${quoted(word)} as ${this.arrays.embeddings.shape[1]} numbers, before the first block`;
    const vectors = Object.entries(this.arrays).map(([name, array]) => ({
      name: NAMES[name].toLowerCase().replace(/s$/, ""),
      idea: "ink",
      values: row(array, this.position),
    }));
    fill(this.strips, strips({ label: `The vector of ${word}`, vectors }));
    for (const button of this.tabs.children) button.hidden = !(button.dataset.value in this.arrays);
    this.pick(this.shown in this.arrays ? this.shown : "embeddings");
  }

  pick(name) {
    this.shown = name;
    choose(this.tabs, name);
    if (!this.arrays) return; // picked before the numbers are here
    const { shape, data } = this.arrays[name];
    const columns = Array.from({ length: shape[1] }, (_, number) => String(number));
    const largest = magnitude(data);
    this.matrix.show({
      rows: this.tokens,
      columns,
      weights: data,
      signed: true,
      largest,
      numbers: "none",
      isStretched: true,
      pinned: { row: this.position, column: 0 },
    });
    fill(this.legend, signedLegend(largest));
    this.table.refresh();
    this.read(null);
  }

  read(cell) {
    const isCell = cell && cell.row !== null && cell.column !== null;
    const said = isCell && `Number ${cell.column} of ${quoted(cell.rowLabel)}: ${digits(cell.value)}`;
    this.saying.textContent = said || SAYING[this.shown];
  }
}

function withSum({ embeddings, positions }) {
  if (!positions) return { embeddings };
  const sum = embeddings.data.map((value, i) => value + positions.data[i % positions.data.length]);
  return { embeddings, positions, sum: { shape: embeddings.shape, data: sum } };
}

function row({ shape, data }, at) {
  return data.subarray(at * shape[1], (at + 1) * shape[1]);
}
