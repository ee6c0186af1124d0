/** All heads on one sheet, for a file: a line for each attention of each layer, a small map for each head. */

import { svg } from "../../core/dom.js";
import { ideaColour } from "../../core/colour.js";
import { SANS } from "../../pictures/matrix_plan.js";
import { attentionTitle } from "../../parts/heads.js";

const [SIZE, GAP, LINE, EDGE] = [72, 8, 96, 16];

/** The sheet of `Heads` as pixels. */
export function sheetCanvas(heads) {
  const { width, height, lines } = planOf(heads);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.fillStyle = ideaColour("card");
  pen.fillRect(0, 0, width, height);
  pen.imageSmoothingEnabled = false;
  pen.font = `12px ${SANS}`;
  pen.fillStyle = ideaColour("ink");
  for (const { title, y, maps } of lines) {
    pen.fillText(title, EDGE, y);
    for (const { canvas: map, x } of maps) pen.drawImage(map, x, y + 6, SIZE, SIZE - 8);
  }
  return canvas;
}

/** The same as a drawing; a map is a small picture in it. */
export function sheetSvg(heads) {
  const { width, height, lines } = planOf(heads);
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const drawing = svg("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, "font-family": SANS, "font-size": 12 });
  drawing.append(svg("rect", { width: "100%", height: "100%", fill: ideaColour("card") }));
  for (const { title, y, maps } of lines) {
    drawing.append(svg("text", { x: EDGE, y, fill: ideaColour("ink"), text: title }));
    for (const { canvas, x } of maps) drawing.append(mapImage(canvas, x, y + 6));
  }
  return drawing;
}

function mapImage(canvas, x, y) {
  const look = { preserveAspectRatio: "none", "image-rendering": "pixelated" };
  return svg("image", { x, y, width: SIZE, height: SIZE - 8, href: canvas.toDataURL(), ...look });
}

function planOf({ rows, thumbs }) {
  const lines = rows.map(({ kind, layer, heads }, row) => {
    const own = thumbs.filter((thumb) => thumb.kind === kind && thumb.layer === layer);
    const maps = own.map(({ canvas, head }) => ({ canvas, x: EDGE + head * (SIZE + GAP) }));
    return { title: `${attentionTitle(kind, layer)}, heads 0 to ${heads.length - 1}`, y: row * LINE + 20, maps };
  });
  return { width: rows[0].heads.length * (SIZE + GAP) + 24, height: rows.length * LINE + 16, lines };
}
