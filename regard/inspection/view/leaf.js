/** A picture as a page of its own: heading, sentence, drawing and numbers, and no script. */

import { make } from "./dom.js";
import { tableOf } from "./table.js";

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
const STYLE = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.25rem; }
svg { display: block; max-width: 100%; height: auto; margin: 1rem 0; }
.table-room { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: start; padding-bottom: 0.5rem; }
th, td { padding: 0.15rem 0.6rem; text-align: end; white-space: nowrap; }
th:first-child { text-align: start; }
`;

/** The page as text: leafOf({title, said, drawing, table}); all but the title may be missing. */
export function leafOf({ title, said, drawing, table }) {
  if (drawing) {
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", title);
  }
  const room = { class: "table-room", tabindex: "0", role: "region", "aria-label": `${title}: the numbers` };
  const numbers = table && make("div", room, tableOf(title, table));
  const main = make("main", {}, make("h1", { text: title }), said && make("p", { text: said }), drawing, numbers);
  const head = [
    '<meta charset="utf-8">',
    make("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }).outerHTML,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    make("title", { text: `${title} · Regard` }).outerHTML,
    '<link rel="icon" href="data:,">',
    `<style>${STYLE}</style>`,
  ];
  return `<!doctype html>\n<html lang="en">\n<head>\n${head.join("\n")}\n</head>\n<body>\n${main.outerHTML}\n</body>\n</html>\n`;
}
