/** What each step of one cell shows: a line of digits when folded, the numbers themselves when open. */

import { make, digits, quoted } from "../../core/dom.js";
import { strips } from "../../parts/strip.js";
import { bars } from "../../parts/bars.js";

/** One cell of a sheet of steps: numbers by name, of the row and of this key. */
export class Cell {
  constructor({ meta, arrays }, key) {
    this.meta = meta;
    this.arrays = arrays;
    this.key = key;
    this.word = meta.word;
    this.other = meta.keys[key];
  }

  /** The numbers of a step; of keys and values those of this key. */
  vector(name) {
    const { shape, data } = this.arrays[name];
    if (shape.length < 2) return data;
    const width = shape[1];
    return data.subarray(this.key * width, (this.key + 1) * width);
  }

  /** The number of this key in a step that has one for each key. */
  number(name) {
    return this.arrays[name].data[this.key];
  }

  has(name) {
    return name in this.arrays;
  }
}

/** The digits of this cell in a step, in one line. */
export function lineOf(name, cell) {
  return LINES[name] ? LINES[name](cell) : firstOf(cell.vector(name));
}

/** The step's numbers in full. */
export function pictureOf(name, cell) {
  return PICTURES[name] ? PICTURES[name](cell) : oneStrip(name, cell);
}

const LINES = {
  keys: (cell) => firstOf(cell.vector("keys")),
  products: (cell) => `${first(cell, "query")} × ${first(cell, "keys")} = ${first(cell, "products")}, …`,
  scores: (cell) => `q · k = ${of(cell, "scores")}`,
  scaled: (cell) => `${of(cell, "scores")} / ${digits(cell.meta.divisor)} = ${of(cell, "scaled")}`,
  masked: (cell) => (cell.number("masked") === -Infinity ? "−∞: may not look" : `${of(cell, "masked")}: may look`),
  exponentials: (cell) => `e^(${of(cell, "masked")} − ${taken(largest(cell))}) = ${of(cell, "exponentials")}`,
  sum: (cell) => `Σ = ${digits(cell.arrays.sum.data[0])}`,
  weights: (cell) => `${of(cell, "exponentials")} / ${digits(cell.arrays.sum.data[0])} = ${of(cell, "weights")}`,
  values: (cell) => firstOf(cell.vector("values")),
  weighted: (cell) => `${of(cell, "weights")} × ${first(cell, "values")} = ${first(cell, "weighted")}, …`,
  contributions: (cell) => `${cell.arrays.contributions.shape[0]} heads`,
  residual: (cell) => `${first(cell, "input")} + ${first(cell, "output")} = ${first(cell, "residual")}, …`.replace("+ −", "− "),
};

const PICTURES = {
  query: (cell) => strips({ label: `The query of ${cell.word}`, vectors: [named("q", "query", cell.vector("query"))] }),
  keys: (cell) => strips({ label: `The key of ${cell.other}`, vectors: [named("k", "key", cell.vector("keys"))] }),
  products: (cell) => [
    terms(cell),
    strips({
      label: `Query of ${cell.word}, key of ${cell.other}, number by number`,
      vectors: [
        named("q", "query", cell.vector("query")),
        named("k", "key", cell.vector("keys")),
        named("q k", "ink", cell.vector("products")),
      ],
    }),
  ],
  scores: (cell) => [terms(cell), rowBars(cell, "scores", `The score of each word for ${cell.word}`)],
  scaled: (cell) => rowBars(cell, "scaled", `The divided score of each word for ${cell.word}`),
  masked: (cell) => rowBars(cell, "masked", `What ${cell.word} may look at`),
  exponentials: (cell) => rowBars(cell, "exponentials", `The exponential of each score for ${cell.word}`, false),
  sum: (cell) => [
    said(`All ${cell.meta.keys.length} exponentials add up to ${digits(cell.arrays.sum.data[0])}.`),
    rowBars(cell, "exponentials", "What is added up", false),
  ],
  weights: (cell) => [
    rowBars(cell, "weights", `How much ${cell.word} looks at each word`, false, 1),
    said(`The row adds up to ${digits(total(cell.arrays.weights.data))}.`),
  ],
  values: (cell) => strips({
    label: `The value of ${cell.other}`,
    vectors: [named("v", "value", cell.vector("values"))],
  }),
  weighted: (cell) => [
    said(`${digits(cell.number("weights"))} of each number of the value of ${quoted(cell.other)}.`),
    strips({
      label: `The value of ${cell.other}, and weighted`,
      vectors: [named("v", "value", cell.vector("values")), named("a v", "output", cell.vector("weighted"))],
    }),
  ],
  head: (cell) => strips({
    label: `What this head found for ${cell.word}`,
    vectors: [named("z", "output", cell.vector("head"))],
  }),
  contributions: (cell) => everyHead(cell),
  residual: (cell) => strips({
    label: `What came in, what is added, and their sum, for ${cell.word}`,
    vectors: [
      named("x", "ink", cell.vector("input")),
      named("output", "output", cell.vector("output")),
      named("sum", "ink", cell.vector("residual")),
    ],
  }),
};

function named(name, idea, values) {
  return { name, idea, values };
}

function oneStrip(name, cell) {
  const idea = { contribution: "output", output: "output" }[name] ?? "ink";
  const short = { input: "x", normed: "x'", contribution: "z Wᴼ", bias: "bᴼ" }[name] ?? name;
  return strips({ label: `${name} of ${cell.word}`, vectors: [named(short, idea, cell.vector(name))] });
}

function everyHead(cell) {
  const [heads, width] = cell.arrays.contributions.shape;
  const row = (head) => cell.arrays.contributions.data.subarray(head * width, (head + 1) * width);
  const vectors = Array.from(
    { length: heads },
    (_, head) => named(`head ${head}`, head === cell.meta.head ? "output" : "ink", row(head)),
  );
  return strips({ label: `What every head writes for ${cell.word}`, vectors });
}

function rowBars(cell, name, label, signed = true, largestValue = null) {
  const items = cell.meta.keys.map((text, key) => {
    const value = cell.arrays[name].data[key];
    return { text, value, strong: key === cell.key, masked: value === -Infinity };
  });
  const isSigned = signed && items.some(({ value }) => value < 0 && Number.isFinite(value));
  return bars({ label, items, signed: isSigned, largest: largestValue });
}

// The first terms of the sum as a person would write them down.
function terms(cell) {
  const [q, k] = [cell.vector("query"), cell.vector("keys")];
  if (!cell.has("products")) return null;
  const shown = Array.from(
    { length: Math.min(3, q.length) },
    (_, i) => [i ? " + " : "", part("query", q[i]), " · ", part("key", k[i])],
  );
  const score = make("b", { text: digits(cell.number("scores")) });
  return make("p", { class: "digits" }, shown, q.length > 3 ? ` + … (${q.length} products) = ` : " = ", score);
}

function part(idea, number) {
  const text = digits(number, 3);
  return make("span", { class: idea, text: number < 0 ? `(${text})` : text });
}

function of(cell, name) {
  return digits(cell.number(name));
}

// A negative number that is taken away stands in brackets.
function taken(number) {
  return number < 0 ? `(${digits(number)})` : digits(number);
}

function first(cell, name) {
  return digits(cell.vector(name)[0], 3);
}

function firstOf(values) {
  return `${Array.from(values.slice(0, 3), (value) => digits(value, 3)).join(", ")}${values.length > 3 ? ", …" : ""}`;
}

function largest(cell) {
  return Math.max(...cell.arrays.masked.data.filter(Number.isFinite));
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

function said(text) {
  return make("p", { class: "digits", text });
}
