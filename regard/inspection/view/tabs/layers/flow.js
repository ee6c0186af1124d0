/** Where the information of some words comes from, layer by layer: attention, value-weighted attention, rollout. */

import { make, fill, digits, quoted } from "../../core/dom.js";
import { PanelRequests } from "../../core/requests.js";
import { kindOf, partsOf } from "../../core/tracing.js";
import { rowName, rowTexts } from "../../core/rows.js";
import { Chips } from "../../parts/chips.js";
import { choose, panel, segments } from "../../parts/panel.js";
import { foldedTable } from "../../parts/table.js";
import { Matrix } from "../../pictures/matrix.js";
import { offerSaves } from "../../saving/save.js";
import { listOf } from "../../saving/npz.js";

const MEASURES = [["attention", "Attention"], ["values", "Value-weighted"], ["rollout", "Rollout"]];
const KINDS = { encoder: "Encoder", decoder: "Decoder, self", cross: "Decoder, cross" };
const SAYINGS = {
  attention: "The mean attention of the layer’s heads. Each row sums to 1.",
  values: "The length of what each word adds to the vector, ‖Σ a v Wᴼ‖ over the heads, as a share of its row: a large weight on a short value adds little.",
  rollout: "Attention multiplied through all layers up to this one, half of it kept by the residual connections. Each row sums to 1.",
};

/** The panel; refresh() for the present trace and choice. */
export class FlowPanel {
  constructor(context) {
    this.context = context;
    this.state = context.state;
    this.card = panel({ title: "Where the information comes from", class: "flow" });
    this.element = this.card.element;
    this.requests = new PanelRequests(context, { name: "flow", cards: [this.card] });
    this.measures = segments({ label: "Measure", choices: MEASURES, chosen: "attention", onchoose: (measure) => this.state.set({ measure }) });
    this.kinds = make("div", {});
    this.chips = new Chips("Words that ask; choose several");
    this.saying = make("p", { class: "hint" });
    this.reading = make("p", { class: "reading" });
    const room = make("div", { class: "flow-picture" });
    this.matrix = new Matrix(room, {
      label: "Layer by layer: a row for each layer of each chosen word, a column for each word looked at",
      describe: ({ row, column }) => this.cellSentence(row, column),
    });
    this.matrix.onhover = (cell) => this.read(cell);
    this.card.body.append(make("div", { class: "toolbar" }, this.measures, this.kinds), this.chips.element, this.saying, room, this.reading);
    this.offer(context);
    this.state.on(["measure", "flow", "queries"], () => this.refresh());
  }

  offer(context) {
    this.folded = foldedTable({ caption: "The numbers of the chosen words", give: () => this.table() });
    this.card.foot.append(this.folded);
    offerSaves(this.card.foot, context, {
      name: "layer by layer",
      isThere: () => !!this.sheet,
      canvas: () => this.matrix.canvas(),
      svg: () => this.matrix.svg(),
      table: () => this.table(),
      arrays: () => ({ ...this.sheet.arrays, queries: listOf(this.rows), keys: listOf(this.columns) }),
    });
  }

  get measure() {
    return MEASURES.some(([name]) => name === this.state.get("measure")) ? this.state.get("measure") : "attention";
  }

  refresh() {
    const trace = this.context.trace.current;
    if (!trace || !this.element.offsetParent) return;
    const kind = kindOf(trace, this.state.get("flow")) ?? kindOf(trace, trace.pinned.kind);
    const isWords = this.state.get("words") ?? true;
    const { measure } = this;
    this.requests.run(
      (ask) => ask.flow(trace.trace, measure, kind.name, isWords),
      (sheet) => this.draw({ trace, kind, isWords, measure, sheet }),
    );
  }

  draw({ trace, kind, isWords, measure, sheet }) {
    this.trace = trace;
    this.kind = kind;
    this.isWords = isWords;
    this.sheet = sheet;
    this.drawn = measure;
    this.rows = rowTexts(trace, kind, isWords);
    this.columns = partsOf(trace, kind.keys, isWords).map(({ text }) => text);
    this.chosen = this.chosenRows();
    choose(this.measures, measure);
    this.drawControls();
    this.saying.textContent = SAYINGS[measure];
    const [layers, , keys] = sheet.arrays.values.shape;
    const weights = this.chosen.flatMap((row) => Array.from({ length: layers }, (_, layer) => Array.from(this.shares(layer, row))));
    const visible = this.chosen.flatMap((row) => Array.from(
      { length: layers },
      () => Array.from(sheet.arrays.visible.data.subarray(row * keys, (row + 1) * keys)),
    ));
    const name = (row, layer) => (this.chosen.length > 1 ? `${this.rows[row]}, ${layer}` : `layer ${layer}`);
    this.matrix.show({
      rows: this.chosen.flatMap((row) => Array.from({ length: layers }, (_, layer) => name(row, layer))),
      columns: this.columns,
      weights,
      visible,
      numbers: this.columns.length > 24 ? "telling" : "all",
      largest: 1,
    });
    this.folded.refresh();
    this.read(null);
  }

  drawControls() {
    const several = this.trace.kinds.length > 1;
    fill(
      this.kinds,
      several && segments({
        label: "Attention",
        choices: this.trace.kinds.map(({ name }) => [name, KINDS[name]]),
        chosen: this.kind.name,
        onchoose: (flow) => this.state.set({ flow, queries: null }),
      }),
    );
    const parts = partsOf(this.trace, this.kind.queries, this.isWords);
    this.chips.show(this.rows.map((text, row) => ({
      text,
      kind: parts[row].special ? "special" : "",
      isDown: this.chosen.includes(row),
      onclick: () => this.flip(row),
    })));
  }

  /** The rows that are shown: those chosen, or the one that the trace proposes. */
  chosenRows() {
    const chosen = (this.state.get("queries") ?? []).filter((row) => row < this.rows.length);
    if (chosen.length) return chosen;
    const { pinned } = this.trace;
    const parts = partsOf(this.trace, this.kind.queries, this.isWords);
    const position = pinned.kind === this.kind.name ? pinned.query : 0;
    const row = this.isWords ? parts.findIndex(({ positions }) => positions.includes(position)) : position;
    return [Math.max(0, row)];
  }

  flip(row) {
    const others = this.chosen.filter((each) => each !== row);
    const rows = others.length === this.chosen.length ? [...others, row].sort((one, other) => one - other) : others;
    this.state.set({ queries: rows.length ? rows : null });
  }

  /** A row of one layer; lengths as shares of their sum. */
  shares(layer, row) {
    const numbers = this.numbers(layer, row);
    if (this.drawn !== "values") return numbers;
    const total = numbers.reduce((sum, number) => sum + number, 0) || 1;
    return numbers.map((number) => number / total);
  }

  numbers(layer, row) {
    const { shape: [, queries, keys], data } = this.sheet.arrays.values;
    const start = (layer * queries + row) * keys;
    return data.subarray(start, start + keys);
  }

  get layers() {
    return this.sheet.arrays.values.shape[0];
  }

  read(cell) {
    if (!this.sheet) return;
    const isCell = cell && cell.row !== null && cell.column !== null;
    this.reading.textContent = isCell ? this.cellSentence(cell.row, cell.column) : this.sentence();
  }

  /** What the last layer says of the first chosen word. */
  sentence() {
    const [row] = this.chosen;
    const shares = this.shares(this.layers - 1, row);
    const best = shares.indexOf(Math.max(...shares));
    return this.cellSentence(this.layers - 1, best);
  }

  cellSentence(place, column) {
    const row = this.chosen[Math.floor(place / this.layers)];
    const layer = place % this.layers;
    const [name, word] = [rowName(this.trace, this.kind, this.isWords, row), quoted(this.columns[column])];
    const share = digits(this.shares(layer, row)[column], 2);
    if (this.drawn === "rollout") return `After layer ${layer}, ${share} of ${name} goes back to ${word}.`;
    const length = this.drawn === "values" ? `, a vector of length ${digits(this.numbers(layer, row)[column], 2)}` : "";
    return `In layer ${layer}, ${name} takes ${share} from ${word}${length}.`;
  }

  /** The numbers of the chosen words as they came: lengths are not divided. */
  table() {
    const rows = this.chosen.flatMap((row) => Array.from(
      { length: this.layers },
      (_, layer) => [`${this.rows[row]}, layer ${layer}`, ...this.numbers(layer, row)],
    ));
    return { columns: ["word and layer", ...this.columns], rows };
  }
}
