/** The matrices of a case as grids, with their names, colours and words; `it` is a case of steps.js. */

import { turn, writeNumbers } from "./arithmetic.js";
import { equation, grid, symbol } from "./grid.js";

/** A matrix whose changed cells are marked. */
export function matrix(it, name, values, settings) {
  const table = grid(values, { ...settings, name, turned: it.turned, before: it.before?.[name] });
  it.written[name] = table.written;
  return table;
}

/** A number for each pair of a query and a key. */
export function pairs(it, name, values, settings = {}) {
  return matrix(it, name, values, { ...settings, rows: it.queryWords, columns: it.words, signed: true });
}

/** Weights with their sums beside them. */
export function weightGrid(it, name, values) {
  const sums = writeNumbers(values.map((row) => [row.reduce((a, b) => a + b, 0)])).map((row) => row[0]);
  return matrix(it, name, values, { ...weightLook(it), sums });
}

/** Q × Kᵀ = S. */
export function scoring(it) {
  const { query, key, scores } = it.worked;
  const asking = matrix(it, "Q", query, { idea: "query", rows: it.queryWords });
  return equation([asking, "×", turnedKey(it, key), "=", pairs(it, "S", scores)], it.turned);
}

/** A × V = Z. */
export function mixed(it, prefix, weights, value, output) {
  const factors = [
    matrix(it, `${prefix}A`, weights, weightLook(it)),
    "×",
    matrix(it, "V", value, { idea: "value" }),
    "=",
    matrix(it, `${prefix}Z`, output, { idea: "output", rows: it.queryWords }),
  ];
  return equation(factors, it.turned);
}

/** Whether a pair is hidden by the mask. */
export function isMasked(it) {
  return (i, j) => it.worked.masked[i][j] === -Infinity;
}

function weightLook(it) {
  return { rows: it.queryWords, columns: it.words, hidden: isMasked(it), hiddenSign: "·", shaded: true };
}

// Kᵀ in an equation: the keys' words stand above it.
function turnedKey(it, key) {
  if (it.turned) return grid(key, { name: "K", idea: "key", rows: it.words, before: it.before?.K });
  const table = grid(turn(key), { name: "K", idea: "key", columns: it.words });
  table.querySelector("caption").replaceChildren(symbol("K", true));
  return table;
}
