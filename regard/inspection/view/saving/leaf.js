/** A picture as a page of its own: heading, sentences, drawing and numbers, and no script. */

import { make } from "../core/dom.js";
import { tableOf } from "../parts/table.js";

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
const STYLE = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.25rem; }
blockquote { margin: 0.5rem 0; padding-inline-start: 0.75rem; border-inline-start: 3px solid; }
svg { display: block; max-width: 100%; height: auto; margin: 1rem 0; }
.table-room { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
caption { text-align: start; padding-bottom: 0.5rem; }
th, td { padding: 0.15rem 0.6rem; text-align: end; white-space: nowrap; }
th:first-child { text-align: start; }
`;

/** The page as text: `read` are the sentences that the picture is of, `said` is what it says; both may be missing. */
export function leafOf({ title, read = [], said, drawing, table }) {
  if (drawing) {
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", title);
  }
  const room = { class: "table-room", tabindex: "0", role: "region", "aria-label": `${title}: the numbers` };
  const main = make(
    "main",
    {},
    make("h1", { text: title }),
    read.map((text) => make("blockquote", { dir: "auto", text })),
    said && make("p", { text: said }),
    drawing,
    make("div", room, tableOf("The numbers.", table)),
  );
  const head = [
    '<meta charset="utf-8">',
    make("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }).outerHTML,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    make("title", { text: `${title} · Regard` }).outerHTML,
    '<link rel="icon" href="data:,">',
    `<style>${STYLE}</style>`,
  ];
  const page = ["<!doctype html>", '<html lang="en">', "<head>", ...head, "</head>", "<body>", main.outerHTML];
  return [...page, "</body>", "</html>", ""].join("\n");
}
