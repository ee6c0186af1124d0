/** A formula as it is printed: W^Q with a raised Q, d_k with a lowered k, each letter in its idea's colour. */

import { make } from "../core/dom.js";

const PIECE = /\^\(([^)]*)\)|\^(\S)|_(\w)|([^^_]+)/g;
const LETTER = /\b(?:[qkvzasx]|W)'?(?=$|[\s,)_^'])/g;
const IDEAS = { q: "query", k: "key", v: "value", z: "output" };

/** The formula as an element. */
export function formula(text) {
  const element = make("span", { class: "formula" });
  for (const [, group, raised, lowered, plain] of text.matchAll(PIECE)) {
    if (plain) element.append(...letters(plain));
    else element.append(make(lowered ? "sub" : "sup", { text: (group ?? raised ?? lowered).replace("-", "−") }));
  }
  return element;
}

function letters(plain) {
  const pieces = [];
  let at = 0;
  for (const found of plain.matchAll(LETTER)) {
    pieces.push(plain.slice(at, found.index), make("i", { class: IDEAS[found[0]] ?? "letter", text: found[0] }));
    at = found.index + found[0].length;
  }
  return [...pieces, plain.slice(at)].filter((piece) => piece !== "");
}
