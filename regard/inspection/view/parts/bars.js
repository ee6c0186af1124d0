/** Numbers as bars with their words: a list that is its own table. */

import { make, digits } from "../core/dom.js";

const MOST = 40;

/**
 * bars({label, items: [{text, value, strong, masked}], largest, signed}).
 *
 * Bars of signed numbers start in the middle. Where there are very many items, those near the strong one stay.
 */
export function bars({ label, items, largest = null, signed = false }) {
  const most = largest ?? Math.max(1e-12, ...items.map(({ value }) => (Number.isFinite(value) ? Math.abs(value) : 0)));
  const shown = around(items);
  const list = make("ul", { class: signed ? "bars signed" : "bars", "aria-label": label });
  list.append(...shown.map((item) => bar(item, most)));
  const rest = items.length - shown.length;
  return make(
    "div",
    {},
    list,
    rest > 0 && make("p", { class: "soft", text: `${rest} more words are not shown here.` }),
  );
}

function bar({ text, value, strong, masked }, most) {
  const share = Number.isFinite(value) ? Math.max(-1, Math.min(1, value / most)) : 0;
  const fill = make("span", { class: `bar-fill${share < 0 ? " below" : ""}`, style: { "--share": Math.abs(share) } });
  const track = make("span", { class: "bar-track", "aria-hidden": "true" }, fill);
  const number = make("span", { class: "bar-number", text: masked ? "masked" : digits(value) });
  const name = make("span", { class: "bar-name", dir: "auto", text });
  return make("li", { class: strong ? "is-strong" : null, "data-value": value }, name, track, number);
}

function around(items) {
  if (items.length <= MOST) return items;
  const at = Math.max(0, items.findIndex(({ strong }) => strong));
  const first = Math.max(0, Math.min(at - MOST / 2, items.length - MOST));
  return items.slice(first, first + MOST);
}
