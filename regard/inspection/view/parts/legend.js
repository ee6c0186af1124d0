/** What the colours mean, beside every picture that uses them. */

import { make, svg, digits } from "../core/dom.js";
import { ideaColour, paint } from "../core/colour.js";
import { FAINT, LEAST, strokeOf } from "../pictures/lines.js";

const SAMPLES = [0.1, 0.25, 0.5, 1];

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

/** Lines as they are drawn for some weights; beside a chosen word, those of the others are fainter. */
export function linesLegend(colour = "query") {
  const samples = SAMPLES.map((weight) => make("span", { class: "legend-pair" }, String(weight), sampleLine(weight, colour)));
  return make(
    "p",
    { class: "legend" },
    samples,
    make("span", { text: `opacity is the weight; beside a chosen word, the others at ${100 * FAINT} % of it; weights below ${LEAST} are left out` }),
  );
}

function sampleLine(weight, colour) {
  const drawing = svg("svg", { class: "line-sample", width: 30, height: 8, "aria-hidden": "true" });
  const draw = () => drawing.replaceChildren(
    svg("path", { d: "M0 4H30", ...strokeOf(weight, ideaColour(colour)), "data-value": weight }),
  );
  return paint(drawing, draw);
}
