/** What a person changed of an example: cells and rules, as the address writes them and as numbers. */

import { nameOf, readNumber } from "./arithmetic.js";

/** Changed cells as one line, "x.0.2:5,wq.1.1:-1". */
export function writeCells(cells) {
  const written = Object.entries(cells).map(([place, typed]) => `${place}:${typed.trim()}`);
  return written.length ? written.join(",") : null;
}

/** The same the other way round; what cannot be a cell of these matrices is left out. */
export function readCells(line, given) {
  const cells = {};
  for (const part of (line ?? "").split(",")) {
    const [, name, row, column, typed] = /^([a-z]+)\.(\d+)\.(\d+):(.*)$/.exec(part) ?? [];
    if (given[name]?.[row]?.[column] !== undefined) cells[`${name}.${row}.${column}`] = typed;
  }
  return cells;
}

/** The matrices with the typed cells in them, and a sentence for each cell that is no number. */
export function withCells(given, cells) {
  const changed = structuredClone(given);
  const faults = {};
  for (const [place, typed] of Object.entries(cells)) {
    const [name, row, column] = place.split(".");
    try {
      changed[name][row][column] = readNumber(typed, `${nameOf(name)}, row ${row}, column ${column}`);
    } catch (error) {
      faults[place] = error.message;
    }
  }
  return { given: changed, faults };
}

/** Rules as one line, "scale causal turned T0.5 round1 dk64 row2". */
export function writeRules({ scale, causal, turned, temperature, decimals, keyWidth, row }) {
  const words = [
    scale && "scale",
    causal && "causal",
    turned && "turned",
    `T${temperature}`,
    decimals !== null && `round${decimals}`,
    keyWidth !== null && `dk${keyWidth}`,
    row > 0 && `row${row}`,
  ];
  return words.filter(Boolean).join(" ");
}

/** The same the other way round; what is not written is off. */
export function readRules(line) {
  const words = line.split(/\s+/);
  const number = (start, otherwise, least, most) => {
    const word = words.find((each) => each.startsWith(start) && /^[\d.e-]+$/.test(each.slice(start.length)));
    const found = word === undefined ? NaN : Number(word.slice(start.length));
    return found >= least && found <= most ? found : otherwise;
  };
  return {
    scale: words.includes("scale"),
    causal: words.includes("causal"),
    turned: words.includes("turned"),
    temperature: number("T", 1, 1e-6, 1e6),
    decimals: number("round", null, 0, 6),
    keyWidth: number("dk", null, 1, 1e6),
    row: Math.floor(number("row", 0, 0, 63)),
  };
}
