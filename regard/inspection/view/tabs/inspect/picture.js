/** The large picture of one head: as a matrix, as lines between the words, or beside the other heads. */

import { make, fill, adjust } from "../../core/dom.js";
import { Matrix } from "../../pictures/matrix.js";
import { Lines } from "../../pictures/lines.js";
import { Columns } from "../../pictures/columns.js";
import { attentionLegend, linesLegend } from "../../parts/legend.js";
import { foldedTable } from "../../parts/table.js";
import { offerSaves } from "../../saving/save.js";
import { panel, segments, choose } from "../../parts/panel.js";
import { attentionTitle, isOff } from "../../parts/heads.js";
import { rowName, rowsWrite } from "../../core/rows.js";
import { fileOf, headOf, rowSentence, cellSentence } from "./scene.js";

const KINDS = [["matrix", "Matrix"], ["lines", "Lines"], ["heads", "Heads side by side"]];
const TITLES = {
  matrix: "each row is a word that asks, each column a word that answers",
  lines: "a line runs from each word that asks to what it looks at",
  heads: "beside the other heads of its layer, for one word",
};
const WRITING = {
  matrix: "each row is a step that reads one word and writes the next, each column a word that answers",
  lines: "a line runs from each step, which reads one word and writes the next, to what it looks at",
  heads: "beside the other heads of its layer, for one step",
};
const LATER =
  "The hatched cells are words that come later. This decoder writes one word after another, so a word can look only " +
  "at itself and at what stands before it: the rest was not there yet. That is its mask, not a fault.";

/** The panel in the middle of the page. */
export class Picture {
  constructor(context, { onhover, onpin, onisolate, onrelease, onhead, onswitch }) {
    const { state, source } = context;
    this.state = state;
    this.source = source;
    this.onhover = onhover;
    this.onhead = onhead;
    this.card = panel({ title: "Attention", class: "picture" });
    this.element = this.card.element;
    this.kinds = segments({
      label: "Picture",
      choices: KINDS,
      chosen: "matrix",
      onchoose: (picture) => state.set({ picture }),
    });
    this.switchButton = make("button", { type: "button", class: "switch-head", onclick: onswitch });
    this.chips = make("div", { class: "chips", role: "group", "aria-label": "Heads to show" });
    this.rooms = Object.fromEntries(KINDS.map(([name]) => [name, make("div", { class: `picture-${name}` })]));
    this.reading = make("p", { class: "reading" });
    this.why = make("p", { class: "why" });
    this.legend = make("div", {});
    this.card.body.append(
      make("div", { class: "toolbar" }, this.kinds, this.switchButton),
      this.chips,
      ...Object.values(this.rooms),
      this.reading,
      this.legend,
      this.why,
    );
    this.build({ onpin, onisolate, onrelease });
    this.offer(context);
    state.on(["picture", "heads"], () => this.scene && this.show(this.scene, this.isolated));
  }

  build({ onpin, onisolate, onrelease }) {
    this.matrix = new Matrix(this.rooms.matrix, {
      label: "Attention: rows ask, columns answer",
      height: (width) => Math.max(280, Math.min(580, width * 0.86)),
      describe: ({ row, column }) => cellSentence(this.scene, row, column),
    });
    this.matrix.onhover = (cell) => this.onhover(cell?.row ?? null, cell?.column ?? null, "matrix");
    this.matrix.onpin = ({ row, column }) => onpin(row, column);
    this.matrix.onisolate = ({ row }) => onisolate(row);
    this.matrix.onrelease = onrelease;
    const onrow = (row) => this.onhover(row, null, "lines");
    this.lines = new Lines(
      this.rooms.lines,
      { onhover: onrow, onpin: (row) => onpin(row, null), onisolate, onrelease },
    );
    this.columns = new Columns(this.rooms.heads, { onhead: this.onhead });
  }

  offer(context) {
    const shown = () => ({ matrix: this.matrix, lines: this.lines, heads: this.columns })[this.shape];
    const table = () => (this.shape === "heads" ? this.columns : this.matrix).table();
    this.table = foldedTable({ caption: "The weights of this head", give: () => this.matrix.table() });
    this.card.foot.append(this.table);
    offerSaves(this.card.foot, context, {
      name: "attention",
      isThere: () => !!this.scene,
      canvas: () => shown().canvas?.() ?? null,
      svg: () => shown().svg(),
      table,
      address: (ending) => fileOf(this.source, this.scene, ending),
    });
  }

  get shape() {
    return this.rooms[this.state.get("picture")] ? this.state.get("picture") : "matrix";
  }

  /** Draw a scene. */
  show(scene, isolated) {
    this.scene = scene;
    this.isolated = isolated;
    const { kind, layer, head, trace } = scene;
    const out = isOff(trace.ablated, kind, layer, head) ? " (switched off)" : "";
    const title = rowsWrite(trace, scene.kindInfo) ? WRITING[this.shape] : TITLES[this.shape];
    this.card.heading.textContent = `${attentionTitle(kind, layer)}, head ${head}: ${title}${out}`;
    choose(this.kinds, this.shape);
    for (const [name, room] of Object.entries(this.rooms)) room.hidden = name !== this.shape;
    this.showSwitch(trace.ablated, scene);
    this.showChips();
    this.draw();
    this.read(null, null);
    const masked = scene.visible.some((seen) => !seen);
    const isScaled = !trace.ablated.includes("scaling");
    fill(this.legend, this.shape === "lines" ? linesLegend() : attentionLegend({ masked, isScaled }));
    adjust(this.why, { text: masked && scene.kindInfo.causal ? LATER : "", hidden: !masked });
  }

  /** Draw the same numbers again, a row of them now exact. */
  redraw() {
    this.matrix.redraw();
    this.table.refresh();
    this.read(...this.pointed);
  }

  /** Bring a row or a cell forward without drawing all anew; `from` is where the pointer is. */
  point(row, column, from) {
    if (from !== "matrix") this.matrix.point(row === null ? null : { row, column });
    if (from !== "lines" && this.shape === "lines") this.lines.point(row);
    this.read(row, column);
  }

  read(row, column) {
    const { scene } = this;
    this.pointed = [row, column];
    const at = row ?? scene.row;
    this.reading.textContent = row !== null && column !== null ? cellSentence(scene, row, column) : rowSentence(scene, at);
  }

  draw() {
    const { scene, isolated } = this;
    const [rows, columns] = [scene.rowTexts, scene.columns.map(({ text }) => text)];
    this.drawMatrix(rows, columns);
    this.table.refresh();
    const heads = this.chosenHeads().map((head) => ({ head, weights: headOf(scene.sheet, head) }));
    if (this.shape === "lines") this.lines.show({ rows, columns, heads, pinned: scene.row, isolated });
    if (this.shape !== "heads") return;
    const [start, end] = [scene.row * columns.length, (scene.row + 1) * columns.length];
    const cut = heads.map(({ head, weights }) => ({ head, weights: weights.subarray(start, end) }));
    this.columns.show({
      word: rowName(scene.trace, scene.kindInfo, scene.isWords, scene.row),
      columns,
      heads: cut,
      visible: scene.visible.subarray(start, end),
      current: scene.head,
    });
  }

  drawMatrix(rows, columns) {
    const { weights, visible, row, column } = this.scene;
    this.matrix.show({ rows, columns, weights, visible, pinned: { row, column }, isolated: this.isolated });
  }

  showSwitch(ablate, { kind, layer, head }) {
    const out = isOff(ablate, kind, layer, head);
    adjust(this.switchButton, {
      text: `Switch head ${head} ${out ? "on" : "off"} (X)`,
      hidden: !this.source.can("trace"),
      "aria-pressed": String(out),
    });
  }

  chosenHeads() {
    const all = Array.from({ length: this.scene.trace.heads }, (_, head) => head);
    const chosen = (this.state.get("heads") ?? []).filter((head) => head < all.length);
    if (chosen.length) return chosen;
    return this.shape === "heads" ? all.slice(0, 16) : [this.scene.head];
  }

  showChips() {
    this.chips.hidden = this.shape === "matrix";
    if (this.chips.hidden) return;
    const chosen = new Set(this.chosenHeads());
    const flip = (head) => {
      const others = [...chosen].filter((each) => each !== head);
      const heads = chosen.has(head) ? others : [...others, head].sort((one, other) => one - other);
      this.state.set({ heads });
    };
    const chip = (head) => make("button", {
      type: "button", class: "chip", "aria-pressed": String(chosen.has(head)), onclick: () => flip(head),
      ondblclick: () => this.state.set({ heads: [head] }),
    }, make("span", { class: `hue hue-${head % 8}`, "aria-hidden": "true" }), `head ${head}`);
    const focused = [...this.chips.children].indexOf(this.chips.ownerDocument.activeElement);
    fill(this.chips, Array.from({ length: this.scene.trace.heads }, (_, head) => chip(head)));
    this.chips.children[focused]?.focus();
  }
}
