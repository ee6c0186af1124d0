/**
 * Taking a picture away: PNG, SVG, CSV, npz, HTML and the link.
 *
 * The server gives the npz and the page of a whole sentence; without one, and for pictures of something else, both
 * are made here, of the picture alone.
 */

import { make } from "../core/dom.js";
import { leafOf } from "./leaf.js";
import { arraysOf, npzOf } from "./npz.js";
import { settled } from "../core/work.js";
import { foldedTable } from "../parts/table.js";

const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const SENTENCES = ".sentence-of, .reading, .story";
const WAITING = "This is still on its way; it is saved when it is here.";
const NOTHING = "There is nothing to save here yet.";

/**
 * Buttons for what there is; of all these, only a name and a table must be. `context` is what every tab is given.
 *
 * name                 what the buttons and files are called
 * title                what stands above the picture on a page of its own, where it is not the card's heading
 * canvas, svg, table   functions that give a canvas (or null: then the svg is drawn on one), an svg, {columns, rows}
 * arrays               a function that gives what an npz holds, where it is not what the table says
 * address              a function from an ending ("npz", "html") to where the server gives that file, or null
 * whole                what such a file holds
 * isThere              a function that says whether there is a picture yet; a file asked for before comes when there is
 */
export function offerSaves(root, { state, notify }, { isThere = () => true, ...picture }) {
  const { name, canvas, svg, table, arrays, address, whole = "the sentence" } = picture;
  const list = make("ul", { class: "saves" });
  const isDrawn = () => isThere() && !root.closest(".is-blank, .is-empty");
  const offer = (text, label, work) => {
    const onclick = () => attempt(async () => {
      if (!isDrawn()) await arrival(root, isDrawn, notify);
      notify.confirm(await work());
    }, notify);
    list.append(make("li", {}, make("button", { type: "button", class: "quiet", text, "aria-label": label, onclick })));
  };
  const offerFile = (text, ending, work) => {
    if (!address?.(ending)) return offer(text, `Save ${name} as ${text}`, work);
    return offer(text, `Save ${whole} as ${text}`, () => saveFrom(address(ending), `${fileName(name)}.${ending}`));
  };
  const png = () => {
    const drawn = canvas?.();
    return drawn ? savePng(name, drawn) : savePngOfSvg(name, svg());
  };
  if (canvas || svg) offer("PNG", `Save ${name} as PNG`, png);
  if (svg) offer("SVG", `Save ${name} as SVG`, () => saveSvg(name, svg()));
  offer("CSV", `Save ${name} as CSV`, () => saveCsv(name, table()));
  offerFile("npz", "npz", () => saveNpz(name, arrays?.() ?? arraysOf(table())));
  offerFile("HTML", "html", () => saveLeaf(name, { ...told(root, picture), drawing: svg?.(), table: table() }));
  if (state.link()) offer("Link", "Copy a link to what is seen", () => copyLink(state.link()));
  root.append(
    make("details", { class: "save" }, make("summary", { text: "Save", "aria-label": `Save ${name}` }), list),
  );
}

/** The table and the files of a matrix, in the foot of its card; gives the table, which is to be refreshed. */
export function offerMatrix(foot, context, { matrix, caption, ...picture }) {
  const table = foldedTable({ caption, give: () => matrix.table() });
  foot.append(table);
  const files = { canvas: () => matrix.canvas(), svg: () => matrix.svg(), table: () => matrix.table() };
  offerSaves(foot, context, { ...files, ...picture });
  return table;
}

/** A table as text for a spreadsheet. */
export function asCsv({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

/**
 * A text for a cell of a table; one that a spreadsheet would take for a formula gets an apostrophe.
 *
 * render/export.py has the same rule. Numbers are not texts.
 */
export function asTextCell(text) {
  return FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
}

/** Give a blob to the person as a file; what there is to say about it. */
export function download(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  return `Saved as ${name}.`;
}

/** A name that every system takes. */
function fileName(name) {
  const plain = name.normalize("NFKD").replace(/[^\w .-]+/g, "").trim().replace(/\s+/g, "-").toLowerCase();
  return plain.slice(0, 60) || "picture";
}

async function attempt(work, notify) {
  try {
    await work();
  } catch (error) {
    notify.fail(error);
  }
}

async function arrival(root, isDrawn, notify) {
  notify.confirm(WAITING);
  await settled(root);
  if (!isDrawn()) throw new Error(NOTHING);
}

// What stands above a picture, the sentences that it is of, and what is said of it.
/**
 * @param {HTMLElement} root
 * @param {any} picture
 */
function told(root, { name, title }) {
  const card = root.closest(".panel");
  const text = (selector) => card?.querySelector(selector)?.textContent || null;
  const fields = root.closest("[role=tabpanel]")?.querySelectorAll(".sentence-field") ?? [];
  const read = Array.from(fields, ({ value }) => value).filter(Boolean);
  return { title: title ?? text("h2, h3") ?? name, read, said: text(SENTENCES) };
}

async function saveFrom(address, name) {
  const answer = await fetch(address).catch(() => null);
  if (!answer) throw new Error(`${name} is not saved: the studio does not answer; is \`regard studio\` still running?`);
  if (answer.ok) return download(await answer.blob(), name);
  const { error = `the studio answered ${answer.status}` } = await answer.json().catch(() => ({}));
  throw new Error(`${name} is not saved: ${error}`);
}

async function savePng(name, canvas) {
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("The browser could not make a PNG of this; save the CSV.");
  return download(blob, `${fileName(name)}.png`);
}

async function savePngOfSvg(name, drawing) {
  const address = URL.createObjectURL(new Blob([serialised(drawing)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width;
    canvas.height = 2 * image.height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await savePng(name, canvas);
  } finally {
    URL.revokeObjectURL(address);
  }
}

function saveSvg(name, drawing) {
  return download(new Blob([serialised(drawing)], { type: "image/svg+xml" }), `${fileName(name)}.svg`);
}

function saveCsv(name, table) {
  // The mark at the start lets spreadsheets read the accents.
  return download(new Blob(["\uFEFF", asCsv(table)], { type: "text/csv;charset=utf-8" }), `${fileName(name)}.csv`);
}

function saveNpz(name, arrays) {
  return download(new Blob([npzOf(arrays)], { type: "application/octet-stream" }), `${fileName(name)}.npz`);
}

function saveLeaf(name, picture) {
  return download(new Blob([leafOf(picture)], { type: "text/html;charset=utf-8" }), `${fileName(name)}.html`);
}

async function copyLink(link) {
  try {
    await navigator.clipboard.writeText(link);
    return "The link is copied.";
  } catch {
    throw new Error("The browser did not allow copying; take the link from the address bar.");
  }
}

// What was typed may hold signs that no XML may; they become the sign for an unknown one.
function serialised(drawing) {
  // eslint-disable-next-line no-control-regex
  const forbidden = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g;
  return new XMLSerializer().serializeToString(drawing).replace(forbidden, "\uFFFD");
}

function quoted(value) {
  const text = typeof value === "string" ? asTextCell(value) : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
