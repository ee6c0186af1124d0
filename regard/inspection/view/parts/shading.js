/** Cells and words on a ground that shows a number, with letters that can be read on it. */

import { paint, attentionShade, signedShade, inkOn } from "../core/colour.js";

/** Give an element the ground of a weight from 0 to 1. */
export function shadeWeight(element, weight) {
  return paint(element, () => dye(element, attentionShade(weight)));
}

/** Give an element the ground of a number whose sign matters. */
export function shadeSigned(element, value, largest) {
  return paint(element, () => dye(element, signedShade(value, largest)));
}

function dye(element, shade) {
  element.style.setProperty("background-color", `rgb(${shade.join(", ")})`);
  element.style.setProperty("color", inkOn(shade));
}
