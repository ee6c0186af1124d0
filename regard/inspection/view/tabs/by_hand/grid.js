/** Small matrices as tables between brackets, and the equations that they stand in. */

import { make, unseen } from "../../core/dom.js";
import { nameOf, writeNumbers } from "./arithmetic.js";
import { shadeWeight } from "../../parts/shading.js";

/** A name such as W^Q with its exponent raised; turned, it gets a T. */
export function symbol(name, turned = false) {
  const [letter, exponent] = name.split("^");
  const bare = make("span", { class: "symbol" }, letter, exponent && make("sup", { text: exponent }));
  if (!turned) return bare;
  return make("span", { class: "symbol" }, name.length > 1 ? ["(", bare, ")"] : bare, make("sup", { text: "T" }));
}

/**
 * A matrix to read.
 *
 * settings: name, idea ("query", "key", "value", "output"), rows and columns (labels), hidden(i, j), shaded,
 * sums, signed, turned, before (what was written there last, to mark what changed).
 */
export function grid(values, settings) {
  const written = writeNumbers(values, settings.signed);
  const table = frame(values, settings, (i, j) => numberCell(values, written, settings, i, j));
  table.written = written;
  return table;
}

/** The same with an input in each cell; onedit(i, j, typed text). */
export function editableGrid(values, settings) {
  return frame(values, { ...settings, editable: true }, (i, j) => {
    const label = `${nameOf(settings.name)}, row ${i}, column ${j}`;
    const input = make("input", {
      type: "text",
      inputmode: "decimal",
      autocomplete: "off",
      size: 4,
      value: String(values[i][j]),
      "aria-label": label,
      "data-place": `${settings.name}.${i}.${j}`,
      oninput: () => settings.onedit(i, j, input.value, input),
      onkeydown: (event) => walk(event, input),
    });
    return make("td", {}, input);
  });
}

/** Grids and the signs between them; turned, a product is the turned factors in reverse. */
export function equation(parts, turned) {
  const sides = [[]];
  for (const part of parts) {
    if (part === "=") sides.push([]);
    else sides.at(-1).push(part);
  }
  const ordered = sides.flatMap((side, number) => [
    ...(number ? ["="] : []),
    ...(turned ? side.reverse() : side),
  ]);
  const sign = (text) => make("span", { class: "sign", text });
  return make("div", { class: "equation" }, ordered.map((part) => (typeof part === "string" ? sign(part) : part)));
}

function frame(values, settings, cellAt) {
  const { turned = false, idea = "" } = settings;
  const [height, width] = turned ? [values[0].length, values.length] : [values.length, values[0].length];
  const labels = turned ? [settings.columns, settings.rows] : [settings.rows, settings.columns];
  const ideas = turned ? ["key", "query"] : ["query", "key"];
  const table = make(
    "table",
    { class: `grid ${idea}${settings.editable ? " editable" : ""}`, "data-matrix": settings.name },
  );
  table.append(make("caption", { class: idea }, symbol(nameOf(settings.name), turned)));
  table.append(headRow(labels[1], ideas[1], width));
  const body = make("tbody");
  for (let down = 0; down < height; down++) {
    const cells = Array.from(
      { length: width },
      (_, across) => (turned ? cellAt(across, down) : cellAt(down, across)),
    );
    cells[0].classList.add("first");
    cells.at(-1).classList.add("last");
    const sum = settings.sums && !turned && make("td", { class: "sum", text: `Σ ${settings.sums[down]}` });
    body.append(make("tr", {}, headCell(labels[0], ideas[0], down, "row"), cells, sum));
  }
  table.append(body);
  if (settings.sums && turned) table.append(footRow(settings.sums));
  return table;
}

function headRow(labels, idea, width) {
  const cells = Array.from({ length: width }, (_, column) => headCell(labels, idea, column, "col"));
  return make("thead", { class: labels ? "" : "bare" }, make("tr", {}, make("td"), cells));
}

function headCell(labels, idea, number, scope) {
  if (labels) return make("th", { scope, class: idea, text: labels[number] });
  return make("th", { scope, class: "bare" }, unseen(`${scope === "row" ? "row" : "column"} ${number}`));
}

function footRow(sums) {
  const cells = sums.map((sum) => make("td", { class: "sum", text: sum }));
  return make("tfoot", {}, make("tr", {}, make("th", { scope: "row", class: "sum", text: "Σ" }), cells));
}

function numberCell(values, written, settings, i, j) {
  const isHidden = settings.hidden?.(i, j) ?? false;
  const text = isHidden ? (settings.hiddenSign ?? "−∞") : written[i][j];
  const changed = settings.before && settings.before[i]?.[j] !== written[i][j];
  const cell = make("td", {
    class: [isHidden && "masked", changed && "changed"].filter(Boolean).join(" "),
    text,
    "data-value": isHidden ? null : values[i][j],
  });
  if (isHidden) cell.append(unseen(" masked"));
  return settings.shaded && !isHidden ? shadeWeight(cell, values[i][j]) : cell;
}

// Up, down and Enter go through a column; left and right belong to the text in the cell.
function walk(event, input) {
  const step = { ArrowUp: -1, ArrowDown: 1, Enter: 1 }[event.key];
  if (!step) return;
  const cell = input.parentElement;
  const row = step > 0 ? cell.parentElement.nextElementSibling : cell.parentElement.previousElementSibling;
  const next = row?.children[cell.cellIndex]?.querySelector("input");
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.select();
}
