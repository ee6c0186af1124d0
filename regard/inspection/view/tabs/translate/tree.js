/** The tree of a beam search as a drawing: who went on, who was dropped and why; walked with the arrow keys. */

import { make, svg, fill, digits } from "../../core/dom.js";
import { ideaColour, paint } from "../../core/colour.js";
import { tokenText } from "../../parts/share_table.js";
import { bestPath, explain, isDropped, isFinished, layOut, neighbour, pathTo } from "./branches.js";

const COLUMN = 118;
const LINE = 40;
const BOX = { width: 88, height: 30 };
const MARGIN = 14;
const KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

/** A tree in root; show(nodes) as often as needed. */
export class Tree {
  constructor(root) {
    this.most = 3;
    this.selected = 0;
    this.drawing = svg("svg", {
      class: "tree",
      role: "tree",
      "aria-label": "Beam tree; arrows go to parents, children and neighbours",
      onkeydown: (event) => this.press(event),
    });
    this.told = make("p", { class: "told", role: "status" });
    root.append(make("div", { class: "tree-room" }, this.drawing), this.told);
    paint(this.drawing, () => this.nodes && this.draw());
  }

  /** Show another tree; at most so many dropped ones stand in each column. */
  show(nodes, most = this.most) {
    const isOther = nodes !== this.nodes;
    // A space before letters belongs to a piece; before a mark alone, as in " ?", it is only French.
    const isSpaced = nodes.some(({ text }) => /^ \p{L}/u.test(text));
    this.nodes = nodes;
    this.most = most;
    this.isSpaced = isSpaced;
    this.layout = layOut(nodes, most);
    this.best = bestPath(nodes);
    if (isOther || !this.placeOf(this.selected)) this.selected = nodes.find((node) => node.place === 0)?.number ?? 0;
    this.draw();
    this.tell();
  }

  /** All hypotheses as a table. */
  table() {
    const columns = [
      "number",
      "text so far",
      "step",
      "token",
      "log-probability",
      "score",
      "rank score",
      "what became of it",
    ];
    const rows = this.nodes.map((node) => [
      node.number,
      this.textOf(node),
      node.step,
      node.text,
      node.log_probability,
      node.score,
      node.rank_score,
      explain(node, this.nodes),
    ]);
    return { columns, rows };
  }

  /** A copy for a file. */
  svg() {
    const copy = this.drawing.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    for (const element of copy.querySelectorAll("[tabindex]")) element.removeAttribute("tabindex");
    copy.prepend(svg("rect", { width: "100%", height: "100%", fill: ideaColour("card") }));
    return copy;
  }

  draw() {
    const { rows, columns, places } = this.layout;
    const [width, height] = [
      2 * MARGIN + columns * COLUMN - (COLUMN - BOX.width),
      2 * MARGIN + 18 + rows * LINE,
    ];
    const settings = {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "font-family": "system-ui, sans-serif",
      "font-size": 13,
    };
    for (const [name, value] of Object.entries(settings)) this.drawing.setAttribute(name, value);
    const path = new Set(pathTo(this.nodes, this.selected).map((node) => node.number));
    const edges = svg(
      "g",
      { fill: "none", "aria-hidden": "true" },
      places.map((place) => this.edge(place, path)),
    );
    const hadFocus = this.drawing.contains(document.activeElement);
    fill(this.drawing, edges, this.steps(), places.map((place) => this.box(place, path)));
    if (hadFocus) this.drawing.querySelector('[tabindex="0"]').focus();
  }

  steps() {
    const labels = this.layout.hidden.map((count, column) => {
      const text = column === 0 ? "start" : `step ${column - 1}${count ? `, ${count} more` : ""}`;
      return svg(
        "text",
        { x: MARGIN + column * COLUMN, y: MARGIN + 4, "font-size": 11, fill: ideaColour("soft"), text },
      );
    });
    return svg("g", { "aria-hidden": "true" }, labels);
  }

  edge({ node, column, row }, path) {
    const parent = node.parent === null ? null : this.placeOf(node.parent);
    if (!parent) return null;
    const from = corner(parent);
    const to = corner({ column, row });
    const [x, y, u, v] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
    const bend = (u - x) / 2;
    const d = `M${x} ${y}C${x + bend} ${y} ${u - bend} ${v} ${u} ${v}`;
    const isBest = this.best.has(node.number);
    const plain = node.fate === "outranked" ? "line" : "soft";
    const stroke = ideaColour(isBest ? "output" : path.has(node.number) ? "pin" : plain);
    return svg("path", {
      d,
      stroke,
      "stroke-width": isBest || path.has(node.number) ? 2.5 : 1,
      "stroke-dasharray": node.fate === "outranked" ? "3 3" : null,
    });
  }

  box({ node, column, row }, path) {
    const { x, y } = corner({ column, row });
    const isBest = this.best.has(node.number);
    const isSelected = node.number === this.selected;
    const isWeak = isDropped(node);
    const ring = isSelected ? "pin" : isBest ? "output" : path.has(node.number) ? "pin" : "line";
    const settings = {
      role: "treeitem", class: `node ${node.fate}${isBest ? " best" : ""}`, tabindex: isSelected ? "0" : "-1",
      "aria-level": node.step + 1, "aria-selected": String(isSelected), "aria-label": this.sentence(node),
      "data-number": node.number, "data-value": node.score, onclick: () => this.select(node.number, true), onfocus: () => this.select(node.number),
    };
    return svg("g", settings,
      svg("rect", {
        x,
        y,
        width: BOX.width,
        height: BOX.height,
        rx: 6,
        fill: ideaColour("card"),
        stroke: ideaColour(ring),
        "stroke-width": isSelected ? 3 : isBest ? 2 : 1,
        "stroke-dasharray": isWeak ? "4 3" : null,
      }),
      svg("text", {
        x: x + 8,
        y: y + 13,
        fill: ideaColour(isWeak ? "soft" : "ink"),
        "font-weight": isBest ? 600 : 400,
        text: clip(nameOf(node)),
      }),
      svg("text", {
        x: x + 8,
        y: y + 25,
        "font-size": 10,
        fill: ideaColour("soft"),
        text: scoreOf(node),
      }),
    );
  }

  press(event) {
    const direction = KEYS[event.key];
    if (!direction) return;
    event.preventDefault();
    const next = neighbour(this.layout, this.selected, direction);
    if (next !== null) this.select(next, true);
  }

  select(number, focus = false) {
    if (number !== this.selected) {
      this.selected = number;
      this.draw();
      this.tell();
    }
    const element = this.drawing.querySelector(`[data-number="${number}"]`);
    if (focus && document.activeElement !== element) element?.focus();
  }

  tell() {
    const node = this.nodes[this.selected];
    this.told.textContent = this.sentence(node);
  }

  sentence(node) {
    if (node.parent === null) return explain(node, this.nodes);
    const share = Math.exp(node.log_probability);
    return (
      `“${this.textOf(node)}”: the last word has probability ${share.toFixed(3)}, all of it log-probability ` +
      `${digits(node.score, 2)}, rank score ${digits(node.rank_score, 2)}. ${explain(node, this.nodes)}`
    );
  }

  textOf(node) {
    const words = pathTo(this.nodes, node.number).slice(1).map(({ text }) => text);
    return (this.isSpaced ? words.join("") : words.map((word) => word.trim()).join(" ").replace(/(['’]) /g, "$1")).trim();
  }

  placeOf(number) {
    return this.layout.places.find((place) => place.node.number === number);
  }
}

function corner({ column, row }) {
  return { x: MARGIN + column * COLUMN, y: MARGIN + 14 + row * LINE };
}

function nameOf(node) {
  return node.parent === null ? "start" : tokenText(node.text.trim() || node.text);
}

function scoreOf(node) {
  if (node.parent === null) return "";
  return isFinished(node) ? `rank ${digits(node.rank_score, 2)}` : digits(node.score, 2);
}

function clip(text) {
  return text.length > 10 ? `${text.slice(0, 9)}…` : text;
}
