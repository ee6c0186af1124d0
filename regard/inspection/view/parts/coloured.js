/** A sentence or formula with its ideas in their colours: "[query]Q[/] = X [query]W^Q[/]". */

import { make } from "../core/dom.js";

const PART = /\[(query|key|value|output)\](.*?)\[\/\]|([^[]+|\[)/g;
const RAISED = /\^\(([^)]*)\)|\^(\S)|([^^]+)/g;

/** The words as nodes: what stands between brackets in the colour of its idea, what follows ^ raised. */
export function coloured(text) {
  return [...text.matchAll(PART)].flatMap(([, idea, inside, plain]) =>
    plain === undefined ? make("b", { class: idea }, raised(inside)) : raised(plain),
  );
}

function raised(text) {
  const exponent = (group, sign) => make("sup", { text: group ?? sign });
  return [...text.matchAll(RAISED)].map(([, group, sign, plain]) => plain ?? exponent(group, sign));
}
