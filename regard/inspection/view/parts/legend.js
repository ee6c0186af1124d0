/** What the colours mean, beside every picture that uses them. */

import { make, digits } from "../core/dom.js";

/** From 0 to 1, and the look of what may not be seen. */
export function attentionLegend({ masked = false, isScaled = true } = {}) {
  const ramp = make("span", { class: "ramp attention", role: "img", "aria-label": "light for 0, dark for 1" });
  const hatch = masked && make(
    "span",
    { class: "legend-pair" },
    make("span", { class: "hatch", "aria-hidden": "true" }),
    "may not look",
  );
  return make(
    "p",
    { class: "legend" },
    make("span", { class: "legend-pair" }, "0", ramp, "1"),
    make("span", { text: `${isScaled ? "softmax(QKᵀ/√dₖ)" : "softmax(QKᵀ)"}, each row sums to 1` }),
    hatch,
  );
}

/** From the largest negative number through 0 to the largest positive one. */
export function signedLegend(largest, saying = "") {
  const ramp = make("span", { class: "ramp signed", role: "img", "aria-label": "rust below 0, blue above 0" });
  return make(
    "p",
    { class: "legend" },
    make("span", { class: "legend-pair" }, digits(-largest, 2), ramp, digits(largest, 2)),
    saying && make("span", { text: saying }),
  );
}
