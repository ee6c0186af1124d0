/** The table that stands for a picture: folded away, and made when it is opened. */

import { make, fill, digits } from "../core/dom.js";

const MOST_ROWS = 200;
const MOST_COLUMNS = 66;

/** A folded table: `give` returns {columns, rows}; `refresh` of the element fills an open one anew. */
export function foldedTable({ caption, give }) {
  const body = make("div", { class: "table-room", tabindex: "0", role: "group", "aria-label": caption });
  const fold = make(
    "details",
    { class: "as-table" },
    make("summary", { text: "As a table", "aria-label": `As a table: ${caption}` }),
    body,
  );
  fold.refresh = () => fill(body, fold.open && !fold.closest(".is-new") ? tableOf(caption, give()) : null);
  fold.addEventListener("toggle", fold.refresh);
  return fold;
}

/** A table element; where it is too long to read, it says how much is left out. */
export function tableOf(caption, { columns, rows }) {
  const [wide, long] = [columns.length > MOST_COLUMNS, rows.length > MOST_ROWS];
  const some = Math.min(rows.length, MOST_ROWS);
  const left = wide || long ? ` The first ${some} of ${rows.length} rows; the CSV holds all.` : "";
  const head = make("tr", {}, columns.slice(0, MOST_COLUMNS).map((name) => make("th", { scope: "col", text: name })));
  const body = rows.slice(0, MOST_ROWS).map((row) => make("tr", {}, row.slice(0, MOST_COLUMNS).map(cellOf)));
  return make(
    "table",
    { class: "numbers" },
    make("caption", { text: caption + left }),
    make("thead", {}, head),
    make("tbody", {}, body),
  );
}

function cellOf(value, place) {
  if (place === 0) return make("th", { scope: "row", text: value });
  const isNumber = typeof value === "number";
  return make("td", { text: isNumber ? written(value) : value, "data-value": isNumber ? value : null });
}

function written(number) {
  return Number.isInteger(number) && Math.abs(number) < 1e6 ? String(number).replace("-", "−") : digits(number);
}
