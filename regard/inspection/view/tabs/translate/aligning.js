/** The alignment of a translation: which source words each output word looked at while it was written. */

import { make, fill } from "../../core/dom.js";
import { beside, panel, segments, choose } from "../../parts/panel.js";
import { choice } from "../../parts/controls.js";
import { Matrix } from "../../pictures/matrix.js";
import { Lines } from "../../pictures/lines.js";
import { attentionLegend, linesLegend } from "../../parts/legend.js";
import { foldedTable } from "../../parts/table.js";
import { offerSaves } from "../../saving/save.js";
import { PanelRequests } from "../../core/requests.js";
import { average, bestHead, rowsOf, wordRows } from "../../core/alignment.js";

/** The panel; show(trace) as often as needed. `output` is the line of the page that is drawn with it. */
export class AlignmentPanel {
  constructor(context, output) {
    const { state, source } = context;
    this.state = state;
    this.output = output;
    this.source = source;
    const card = panel({ title: "Which word came from which", class: "alignment" });
    const { element, body, foot } = card;
    this.element = element;
    this.requests = new PanelRequests(context, { name: "alignment", cards: [card, beside(output)] });
    this.saying = make("p", { class: "sentence-of" });
    this.looks = segments({
      label: "Picture",
      choices: [["lines", "Lines"], ["matrix", "Matrix"]],
      chosen: "lines",
      onchoose: (look) => state.set({ alignment: look }),
    });
    this.head = choice({
      label: "Cross-attention of",
      options: [["best", "the head that aligns best"]],
      value: "best",
      onchange: (head) => state.set({ crosshead: head === "best" ? null : head }),
    });
    this.linesRoom = make("div", { class: "lines-room" });
    this.matrixRoom = make("div", {});
    this.legend = make("div", {});
    body.append(
      make("div", { class: "controls" }, this.looks, this.head.root),
      this.saying,
      this.linesRoom,
      this.matrixRoom,
      this.legend,
    );
    const label = "Cross-attention: a row for each output word, a column for each source word";
    this.matrix = new Matrix(this.matrixRoom, { label, rowIdea: "query", columnIdea: "key" });
    const pin = (row) => {
      this.pinned = row === this.pinned ? null : row;
      this.draw();
    };
    this.pinned = null;
    this.lines = new Lines(this.linesRoom, {
      onhover: (row) => this.lines.point(row),
      onpin: pin,
      onisolate: pin,
      onrelease: () => pin(this.pinned),
    });
    this.folded = foldedTable({ caption: label, give: () => this.matrix.table() });
    foot.append(this.folded);
    offerSaves(foot, context, {
      name: "alignment",
      isThere: () => !!this.trace,
      svg: () => (this.linesRoom.hidden ? this.matrix : this.lines).svg(),
      table: () => this.matrix.table(),
      address: (ending) => this.fileOf(ending),
    });
    state.on(["alignment", "crosshead"], () => this.trace && this.draw());
  }

  /** Read the cross-attention of all layers of a trace; whether it was drawn. */
  show(trace) {
    const count = trace.kinds.find(({ name }) => name === "cross").layers;
    const numbers = Array.from({ length: count }, (_, layer) => layer);
    return this.requests.run(
      (ask) => Promise.all(numbers.map((layer) => ask.layer(trace.trace, "cross", layer))),
      (sheets) => this.take(trace, sheets),
    );
  }

  take(trace, sheets) {
    fill(
      this.output,
      make("span", { class: "soft", text: "It writes: " }),
      make("b", { class: "output", text: trace.translation ?? trace.sides.target.text }),
    );
    this.layers = sheets.map(({ arrays }) => Array.from(
      { length: trace.heads },
      (_, head) => rowsOf(arrays.weights, head),
    ));
    this.trace = trace;
    this.best = bestHead(this.layers);
    this.draw();
  }

  /** Rows over tokens of the head that is chosen, or the average that is. */
  chosen() {
    const [layer, head] = (this.state.get("crosshead") ?? "").split(".");
    const heads = this.layers[Number(layer)];
    if (!layer || !heads) return {
      rows: this.layers[this.best.layer][this.best.head],
      place: [this.best.layer, this.best.head],
      value: "best",
      name: `layer ${this.best.layer}, head ${this.best.head}`,
    };
    if (head === "all") return {
      rows: average(heads),
      place: [Number(layer), null],
      value: `${layer}.all`,
      name: `the average of all heads of layer ${layer}`,
    };
    const number = Math.min(Number(head) || 0, heads.length - 1);
    return {
      rows: heads[number],
      place: [Number(layer), number],
      value: `${layer}.${number}`,
      name: `layer ${layer}, head ${number}`,
    };
  }

  // The cross-attention of every layer and head, or the page of this translation.
  fileOf(ending) {
    const [layer, head] = this.trace ? this.chosen().place : [];
    const page = ending === "html" ? { layer, head, tab: "translate" } : {};
    return this.source.saveAddress(this.trace?.trace ?? "none", ending, { kind: "cross", ...page });
  }

  draw() {
    const { source, target } = this.trace.sides;
    const { rows, value, name } = this.chosen();
    const look = this.state.get("alignment") ?? "lines";
    this.head.offer(this.options(), value);
    choose(this.looks, look);
    this.linesRoom.hidden = look !== "lines";
    this.matrixRoom.hidden = look !== "matrix";
    fill(this.legend, look === "lines" ? linesLegend() : attentionLegend());
    const weights = wordRows(rows, target.words, source.words);
    const output = [...target.words.filter((word) => word.positions[0] > 0), { text: "<end>", special: "end" }];
    fill(this.saying, this.sentence(name, value));
    const [labels, columns] = [output, source.words].map((words) => words.map(({ text }) => text));
    if (this.pinned >= labels.length) this.pinned = null;
    this.matrix.show({ rows: labels, columns, weights });
    this.lines.show({
      rows: labels,
      columns,
      heads: [{ head: 0, weights: weights.flat() }],
      pinned: this.pinned,
      isolated: this.pinned,
    });
    this.folded.refresh();
  }

  options() {
    const heads = this.layers.flatMap((all, layer) => [
      ...all.map((_, head) => [`${layer}.${head}`, `layer ${layer}, head ${head}`]),
      [`${layer}.all`, `layer ${layer}, all heads averaged`],
    ]);
    return [["best", `the head that aligns best (layer ${this.best.layer}, head ${this.best.head})`], ...heads];
  }

  sentence(name, value) {
    const why = value === "best" ? ", whose attention tells most about which word is being written" : "";
    return `Each output word asks, the source words answer; seen is ${name}${why}. An output word's row is that of the step which wrote it.`;
  }
}
