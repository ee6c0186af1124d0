/** Several heads side by side for one word: a row for each word looked at, a column for each head. */

import { make, fill, digits, unseen } from "../core/dom.js";
import { paint, attentionShade, inkOn } from "../core/colour.js";
import { matrixSvg } from "./matrix_svg.js";

const MOST = 100;

/** The table; show({word, columns, heads: [{head, weights}], current}) where weights are one word's row. */
export class Columns {
  constructor(root, { onhead }) {
    this.onhead = onhead;
    this.element = make("div", { class: "columns", tabindex: "0", role: "group", "aria-label": "Heads side by side" });
    root.append(this.element);
  }

  show({ word, columns, heads, visible, current }) {
    this.cells = [];
    this.words = columns;
    this.heads = heads;
    this.visible = visible;
    const places = this.places(columns, heads);
    const left = columns.length - places.length;
    const note = left > 0 ? ` The ${places.length} words with the most weight; ${left} are left out.` : "";
    const caption = make("caption", { text: `What each head looks at for ${word}.${note}` });
    const head = make(
      "tr",
      {},
      make("th", { scope: "col", text: "looks at" }),
      heads.map((each) => this.title(each.head, each.head === current)),
    );
    const body = places.map((key) => make(
      "tr",
      {},
      make("th", { scope: "row", dir: "auto", text: columns[key] }),
      heads.map(({ weights, head: number }) => this.cell(
        weights[key],
        !visible || visible[key] > 0,
        number === current,
      )),
    ));
    const sums = make(
      "tr",
      {},
      make("th", { scope: "row", text: "sum" }),
      heads.map(({ weights }) => make("td", { text: digits(weights.reduce((sum, weight) => sum + weight, 0), 2) })),
    );
    const table = make("table", {}, caption, make("thead", {}, head), make("tbody", {}, body), make("tfoot", {}, sums));
    fill(this.element, table);
    paint(table, () => this.dye());
  }

  /** The same as a drawing. */
  svg() {
    const across = this.heads.map(({ head }) => `head ${head}`);
    const spread = (pick) => Float64Array.from(this.words.flatMap((_, key) => this.heads.map((each) => pick(each, key))));
    const weights = spread(({ weights: row }, key) => row[key]);
    const visible = this.visible && spread((_, key) => this.visible[key]);
    return matrixSvg({
      rows: this.words,
      columns: across,
      weights,
      visible,
      decimals: 2,
      rowIdea: "key",
      columnIdea: "ink",
    });
  }

  /** The same as a table. */
  table() {
    const rows = this.words.map((word, key) => [word, ...this.heads.map(({ weights }) => weights[key])]);
    return { columns: ["word", ...this.heads.map(({ head }) => `head ${head}`)], rows };
  }

  title(head, isCurrent) {
    const open = {
      type: "button",
      class: "quiet",
      "aria-pressed": String(isCurrent),
      onclick: () => this.onhead(head),
    };
    return make(
      "th",
      { scope: "col" },
      make("button", open, make("span", { class: `hue hue-${head % 8}`, "aria-hidden": "true" }), `head ${head}`),
    );
  }

  cell(weight, isSeen, isCurrent) {
    const element = make("td", {
      class: isCurrent ? "is-current" : null,
      "data-value": isSeen ? weight : null,
      text: isSeen ? digits(weight, 2) : "",
    });
    if (isSeen) this.cells.push({ element, weight });
    else fill(element, unseen("masked")).classList.add("is-masked");
    return element;
  }

  dye() {
    for (const { element, weight } of this.cells) {
      const shade = attentionShade(weight);
      element.style.setProperty("background-color", `rgb(${shade.join(", ")})`);
      element.style.setProperty("color", inkOn(shade));
    }
  }

  places(columns, heads) {
    const all = columns.map((_, key) => key);
    if (all.length <= MOST) return all;
    const most = (key) => Math.max(...heads.map(({ weights }) => weights[key]));
    return all.toSorted((one, other) => most(other) - most(one)).slice(0, MOST).sort((one, other) => one - other);
  }
}
