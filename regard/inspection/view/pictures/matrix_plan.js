/** Where labels and cells of a matrix stand on its canvas, in the page's pixels. */

export const READABLE = 15; // pixels of a cell below which labels would run into each other
const ENLARGED = 24;
const LARGEST = { width: 56, height: 40 }; // of a cell
const ROOMY = 1.6; // times as large where the height is reserved anyway
export const SANS =
  "-apple-system, BlinkMacSystemFont, 'Segoe UI', Inter, Roboto, 'Noto Sans', 'Liberation Sans', Arial, system-ui, sans-serif";
export const MONO = "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/** A plan for a picture in a box; `enlarged` keeps cells readable and lets them scroll. */
export function planOf(picture, width, height, enlarged = false) {
  const pen = measuringPen();
  const rows = Math.max(1, picture.rows.length);
  const columns = Math.max(1, picture.columns.length);
  const left = Math.round(Math.min(widest(pen, picture.rows) + 14, Math.max(64, width * 0.28)));
  const longest = widest(pen, picture.columns);
  const across = (width - left - 2) / columns;
  const largest = height ? { width: LARGEST.width * ROOMY, height: LARGEST.height * ROOMY } : LARGEST;
  const isFlat = longest + 8 <= Math.min(across, LARGEST.width * 1.6);
  const top = isFlat ? 24 : Math.min(longest + 12, 110);
  const down = height ? (height - top - 2) / rows : largest.height;
  const fits = across >= READABLE && down >= READABLE;
  const least = enlarged && !fits ? ENLARGED : 0;
  const cellWidth = Math.max(least, Math.min(across, isFlat ? Math.max(largest.width, longest + 8) : largest.width));
  const cellHeight = Math.max(
    least,
    Math.min(down, largest.height, picture.isStretched ? down : Math.max(cellWidth, READABLE)),
  );
  const full = { width: left + cellWidth * columns + 2, height: top + cellHeight * rows + 2 };
  const box = { width: Math.min(width, full.width), height: height ? Math.min(height, full.height) : full.height };
  return { left, top, cellWidth, cellHeight, rows, columns, isFlat, fits, full, ...box, scrollX: 0, scrollY: 0 };
}

/** The cell under a point of the canvas: {row, column}, with null for a label's other half; null outside. */
export function cellAt(plan, x, y) {
  const column = Math.floor((x - plan.left + plan.scrollX) / plan.cellWidth);
  const row = Math.floor((y - plan.top + plan.scrollY) / plan.cellHeight);
  const inColumns = x >= plan.left && column < plan.columns;
  const inRows = y >= plan.top && row < plan.rows;
  if (inColumns && inRows) return { row, column };
  if (inRows && x >= 0 && x < plan.left) return { row, column: null };
  return inColumns && y >= 0 && y < plan.top ? { row: null, column } : null;
}

/** The rectangle of a cell on the canvas, in whole pixels: sizes differ by one, but no edge is half drawn. */
export function rectangleOf(plan, row, column) {
  const [x, y] = cornerOf(plan, row, column);
  const [right, bottom] = cornerOf(plan, row + 1, column + 1);
  return { x, y, width: right - x, height: bottom - y };
}

function cornerOf(plan, row, column) {
  const x = plan.left + column * plan.cellWidth - plan.scrollX;
  const y = plan.top + row * plan.cellHeight - plan.scrollY;
  return [Math.round(x), Math.round(y)];
}

/** The rows and columns that can be seen: [first row, last row, first column, last column]. */
export function windowOf(plan) {
  const firstRow = Math.max(0, Math.floor(plan.scrollY / plan.cellHeight));
  const firstColumn = Math.max(0, Math.floor(plan.scrollX / plan.cellWidth));
  const lastRow = Math.min(plan.rows, Math.ceil((plan.scrollY + plan.height - plan.top) / plan.cellHeight));
  const lastColumn = Math.min(plan.columns, Math.ceil((plan.scrollX + plan.width - plan.left) / plan.cellWidth));
  return [firstRow, lastRow, firstColumn, lastColumn];
}

function widest(pen, labels) {
  let most = 0;
  for (const label of labels) if (label.length * 9 > most) most = Math.max(most, pen.measureText(label).width);
  return Math.ceil(most);
}

let measuring = null;
function measuringPen() {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `650 13px ${SANS}`;
  return measuring;
}
