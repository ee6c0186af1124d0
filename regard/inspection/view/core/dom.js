/** Elements made from plain values: text is always text, never markup. */

const DRAWING = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "readOnly"]);
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufefc\u200f]/;
const COUNT = Symbol.for("regard.count"); // one for the whole page, however many views stand on it

/** An element: make("button", {class: "quiet", text: "Next", onclick: go, "aria-label": "..."}, ...children). */
export function make(tag, settings = {}, ...children) {
  return dress(document.createElement(tag), settings, children);
}

/** The same for a drawing: svg("path", {d: "M0 0"}). */
export function svg(tag, settings = {}, ...children) {
  return dress(document.createElementNS(DRAWING, tag), settings, children);
}

/** Put these children, and nothing else, into a node; null and false are left out. */
export function fill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** Change settings of an element that exists, as `make` takes them; null removes an attribute. */
export function adjust(node, settings) {
  for (const [name, value] of Object.entries(settings)) set(node, name, value);
  return node;
}

/** A name that no other element has, for labels and descriptions. */
export function uniqueId(what) {
  globalThis[COUNT] = (globalThis[COUNT] ?? 0) + 1;
  return `regard-${what}-${globalThis[COUNT]}`;
}

/** Text that only a screen reader meets. */
export function unseen(text, tag = "span") {
  return make(tag, { class: "unseen", text });
}

/** A word in quotation marks; one that is written from the right does not turn the sentence around it. */
export function quoted(word) {
  return RIGHT_TO_LEFT.test(word) ? `“\u2068${word}\u2069”` : `“${word}”`;
}

/** A number to so many decimals, with a true minus sign; infinity as its sign. */
export function digits(number, decimals = 4) {
  if (Number.isNaN(number)) return "not a number";
  if (!Number.isFinite(number)) return number < 0 ? "−∞" : "∞";
  const written = number.toFixed(decimals);
  return (Number(written) === 0 ? written.replace("-", "") : written).replace("-", "−");
}

function dress(node, settings, children) {
  adjust(node, settings);
  node.append(...present(children));
  return node;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

function set(node, name, value) {
  if (name === "text") node.textContent = value ?? "";
  else if (name === "style") restyle(node, value);
  else if (name.startsWith("on") && typeof value === "function") node.addEventListener(name.slice(2), value);
  else if (PROPERTIES.has(name)) node[name] = value;
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

// The page's policy forbids style attributes; single properties set by a script are allowed.
function restyle(node, properties) {
  for (const [name, value] of Object.entries(properties)) node.style.setProperty(name, value);
}
