/** Vectors as strips of cells: one number each, read by pointing or with the arrow keys, a table behind them. */

import { make, digits } from "../core/dom.js";
import { paint, signedShade, coloursAreForced, ideaColour } from "../core/colour.js";
import { foldedTable } from "./table.js";

const ROOMY = 64; // up to so many numbers, cells stand apart

/**
 * Strips of equal length, read together: strips({label, vectors: [{name, idea, values}]}).
 *
 * One scale for all, from the largest magnitude among them.
 */
export function strips({ label, vectors }) {
  const most = Math.max(...vectors.map(({ values }) => magnitude(values)));
  const count = vectors[0].values.length;
  const reading = make("p", { class: "strip-reading", text: summary(vectors, most) });
  const rows = vectors.map((vector) => row(vector, most));
  const settings = {
    class: "strips",
    role: "slider",
    tabindex: "0",
    "aria-label": label,
    "aria-valuemin": "0",
    "aria-valuemax": count - 1,
  };
  const group = make("div", settings, rows.map(({ element }) => element));
  const point = (index) => {
    group.setAttribute("aria-valuenow", index ?? 0);
    group.setAttribute("aria-valuetext", index === null ? summary(vectors, most) : said(vectors, index));
    for (const { mark } of rows) mark.hidden = index === null;
    group.style.setProperty("--at", index === null ? 0 : (index + 0.5) / count);
    reading.textContent = index === null ? summary(vectors, most) : said(vectors, index);
  };
  point(null);
  listen(group, rows[0].canvas, count, point);
  const give = () => ({
    columns: ["number", ...vectors.map(({ name }) => name)],
    rows: Array.from({ length: count }, (_, i) => [i, ...vectors.map(({ values }) => values[i])]),
  });
  return make("div", { class: "strip-group" }, group, reading, foldedTable({ caption: label, give }));
}

/** The largest magnitude of a vector. */
export function magnitude(values) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value) && Math.abs(value) > most) most = Math.abs(value);
  return most;
}

function row({ name, idea, values }, most) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const mark = make("span", { class: "strip-mark", hidden: true });
  const settings = { class: "strip-canvas" };
  paint(canvas, () => draw(canvas, values, most));
  const title = make("span", { class: `strip-name ${idea ?? "ink"}`, text: name });
  return { element: make("div", { class: "strip" }, title, make("div", settings, canvas, mark)), canvas, mark };
}

function draw(canvas, values, most) {
  const unit = values.length <= ROOMY ? 8 : 1;
  const gap = unit > 1 ? 1 : 0;
  canvas.width = values.length * unit;
  canvas.height = coloursAreForced() ? 24 : 1;
  const pen = canvas.getContext("2d");
  values.forEach((value, i) => {
    if (coloursAreForced()) return drawForced(pen, value / (most || 1), i * unit, unit - gap);
    pen.fillStyle = `rgb(${signedShade(value, most).join(", ")})`;
    return pen.fillRect(i * unit, 0, unit - gap, 1);
  });
}

// In forced colours the height of a bar above or below the middle stands for the number.
function drawForced(pen, share, x, width) {
  pen.fillStyle = ideaColour("ink");
  pen.fillRect(x, Math.min(12, 12 - 12 * share), width, Math.max(1, Math.abs(12 * share)));
}

function listen(group, canvas, count, point) {
  let index = null;
  const go = (to) => {
    index = to === null ? null : Math.max(0, Math.min(count - 1, to));
    point(index);
  };
  group.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    go(share >= 0 && share < 1 ? Math.floor(share * count) : null);
  });
  group.addEventListener("pointerleave", () => go(null));
  group.addEventListener("blur", () => go(null));
  group.addEventListener("keydown", (event) => {
    const moves = {
      ArrowRight: (index ?? -1) + 1,
      ArrowUp: (index ?? -1) + 1,
      ArrowLeft: (index ?? 1) - 1,
      ArrowDown: (index ?? 1) - 1,
      Home: 0,
      End: count - 1,
    };
    if (event.key === "Escape") go(null);
    else if (event.key in moves) go(moves[event.key]);
    else return;
    event.preventDefault();
  });
}

function said(vectors, index) {
  return `number ${index}: ${vectors.map(({ name, values }) => `${name} ${digits(values[index])}`).join(", ")}`;
}

function summary(vectors, most) {
  const count = vectors[0].values.length;
  return `${count} numbers${vectors.length > 1 ? " each" : ""}, the largest ${digits(most)} in size`;
}
