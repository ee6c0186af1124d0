/** Thumbnails of all heads: click opens one, X or its cross switches it off. */

import { make, fill, adjust } from "../core/dom.js";
import { paint, attentionShade, dyePixels } from "../core/colour.js";
import { rove, stopAt } from "../core/roving.js";
import { rowTexts } from "../core/rows.js";

const TITLES = { encoder: "Encoder", decoder: "Decoder, self", cross: "Decoder, cross" };

/** What people call an attention: "Encoder, layer 2" or "Decoder, cross, layer 0". */
export function attentionTitle(kind, layer) {
  return `${TITLES[kind] ?? kind}, layer ${layer}`;
}

/** Whether a head is among the parts that are switched off. */
export function isOff(ablate, kind, layer, head) {
  return ablate.some((part) => Array.isArray(part) && part[0] === kind && part[1] === layer && part[2] === head);
}

/** The thumbnails, a row for each attention of each layer: the encoder, then the decoder, the last layer first. */
export class Heads {
  constructor(root, { onhover, onpin, onisolate, onswitch }) {
    this.onhover = onhover;
    this.onpin = onpin;
    this.onisolate = onisolate;
    this.onswitch = onswitch;
    this.element = make("div", { class: "heads", role: "group", "aria-label": "Heads" });
    this.thumbs = [];
    rove(this.element, ".thumb-open");
    this.element.addEventListener("keydown", (event) => this.press(event));
    this.element.addEventListener("pointerleave", () => this.onhover(null));
    root.append(this.element);
  }

  /** Show the overview of a trace: arrays (layers, heads, q, k) by kind. */
  show({ trace, overview, pinned, ablate, canSwitch }) {
    const shape = JSON.stringify([trace.kinds.map(({ name, layers }) => [name, layers]), trace.heads, canSwitch]);
    if (shape !== this.shape) this.build(trace, canSwitch);
    this.shape = shape;
    this.trace = trace;
    this.mark(pinned, ablate);
    if (overview === this.overview && shape === this.drawn) return;
    this.overview = overview;
    this.drawn = shape;
    paint(this.element, () => this.draw());
  }

  /** Mark the pinned head and those that are off. */
  mark(pinned, ablate) {
    for (const thumb of this.thumbs) this.markThumb(thumb, pinned, ablate);
    for (const { element, count, kind, layer, heads } of this.rows) {
      const on = heads.filter((head) => !isOff(ablate, kind, layer, head)).length;
      count.textContent = on < heads.length ? `${on} of ${heads.length} on` : "";
      element.classList.toggle("is-current", kind === pinned.kind && layer === pinned.layer);
    }
    if (!this.element.contains(this.element.ownerDocument.activeElement)) {
      stopAt(this.element, ".thumb-open", this.thumbs.find((thumb) => isAt(thumb, pinned))?.open);
    }
  }

  markThumb(thumb, pinned, ablate) {
    const { kind, layer, head, open, cross, element } = thumb;
    const [isPinned, out] = [isAt(thumb, pinned), isOff(ablate, kind, layer, head)];
    const name = `${attentionTitle(kind, layer)}, head ${head}`;
    element.classList.toggle("is-off", out);
    adjust(open, { "aria-pressed": String(isPinned), "aria-label": out ? `${name}, switched off` : name });
    if (cross) adjust(cross, { "aria-label": `Switch ${name} ${out ? "on" : "off"}`, text: out ? "+" : "×" });
  }

  build(trace, canSwitch) {
    this.thumbs = [];
    this.rows = [];
    const ofEncoder = trace.kinds.filter(({ name }) => name === "encoder");
    const ofDecoder = trace.kinds.filter(({ name }) => name !== "encoder").toReversed();
    for (const kinds of [ofEncoder, ofDecoder]) {
      for (let layer = Math.max(0, ...kinds.map((kind) => kind.layers)) - 1; layer >= 0; layer--) {
        for (const { name } of kinds) this.rows.push(this.row(name, layer, trace.heads, canSwitch));
      }
    }
    const across = Math.max(3, columnsFor(trace.heads));
    this.element.style.setProperty("--across", across);
    this.element.classList.toggle("is-small", across > 4);
    fill(this.element, this.rows.map(({ element }) => element));
  }

  row(kind, layer, count, canSwitch) {
    const heads = Array.from({ length: count }, (_, head) => head);
    const number = make("span", { class: "heads-count" });
    const label = make("p", { class: "heads-label" }, make("span", { text: attentionTitle(kind, layer) }), number);
    const thumbs = heads.map((head) => this.thumb(kind, layer, head, canSwitch));
    const settings = { class: "heads-row", role: "group", "aria-label": attentionTitle(kind, layer) };
    const element = make("div", settings, label, make("div", { class: "thumbs" }, thumbs));
    return { element, kind, layer, heads, count: number };
  }

  thumb(kind, layer, head, canSwitch) {
    const place = { kind, layer, head };
    const canvas = make("canvas", { "aria-hidden": "true" });
    const number = make("span", { class: `thumb-number hue-${head % 8}`, "aria-hidden": "true", text: head });
    const open = make("button", {
      type: "button", class: "thumb-open", tabindex: "-1",
      onclick: () => this.onpin(place), ondblclick: () => this.onisolate(place),
      onpointerenter: () => this.onhover(place), onfocus: () => this.onhover(place), onblur: () => this.onhover(null),
    }, canvas, number);
    const flip = canSwitch && {
      type: "button",
      class: "thumb-cross",
      tabindex: "-1",
      onclick: () => this.onswitch(place),
    };
    const cross = flip ? make("button", flip) : null;
    const element = make("div", { class: "thumb" }, open, cross);
    this.thumbs.push({ ...place, canvas, open, cross, element });
    return element;
  }

  /** In one line each: the largest weight of every head, and between which words where the map is not pooled. */
  table() {
    if (!this.overview) return { columns: ["attention"], rows: [] };
    const rows = this.thumbs.map(({ kind, layer, head }) => {
      const { shape, data } = this.overview.arrays[kind];
      const [, heads, height, width] = shape;
      const start = (layer * heads + head) * height * width;
      let best = 0;
      for (let at = 1; at < height * width; at++) if (data[start + at] > data[start + best]) best = at;
      const attention = this.trace.kinds.find(({ name }) => name === kind);
      const rows = rowTexts(this.trace, attention, false);
      const columns = this.trace.sides[attention.keys].tokens.map(({ text }) => text);
      const named = (texts, count, place) => (texts.length === count ? texts[place] : "");
      return [
        attentionTitle(kind, layer),
        head,
        data[start + best],
        named(rows, height, Math.floor(best / width)),
        named(columns, width, best % width),
      ];
    });
    return { columns: ["attention", "head", "largest weight", "from", "to"], rows };
  }

  draw() {
    for (const { kind, layer, head, canvas } of this.thumbs) {
      const array = this.overview.arrays[kind];
      if (array) drawThumb(canvas, array, layer, head);
    }
  }

  press(event) {
    if (event.key.toLowerCase() !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    const thumb = this.thumbs.find(({ open }) => open === event.target);
    if (!thumb?.cross) return;
    event.preventDefault();
    event.stopPropagation();
    this.onswitch(thumb);
  }
}

function isAt(thumb, { kind, layer, head }) {
  return thumb.kind === kind && thumb.layer === layer && thumb.head === head;
}

// Few enough that each can be seen, and rows that come out even.
function columnsFor(heads) {
  if (heads > 8) return 6;
  return heads > 6 ? 4 : heads;
}

function drawThumb(canvas, { shape, data }, layer, head) {
  const [, heads, rows, columns] = shape;
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const start = (layer * heads + head) * rows * columns;
  dyePixels(image, (number) => attentionShade(data[start + number]));
  pen.putImageData(image, 0, 0);
}
