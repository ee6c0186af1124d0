/** One head of a comparison: what a word looks at in both sentences, number by number. */

import { make, fill, digits } from "../../core/dom.js";
import { panel } from "../../parts/panel.js";
import { button } from "../../parts/controls.js";
import { offerSaves } from "../../saving/save.js";
import { shadeSigned } from "../../parts/shading.js";
import { differenceOf, headName } from "./comparing.js";
import { withSign } from "./outputs.js";

const COLUMNS = ["word", "first", "second", "change"];

/** The panel; show(change, labels, watched) as often as needed. */
export class CompareOne {
  constructor(context, { onopen }) {
    this.card = panel({ title: "One head", class: "compare-one" });
    const { element, heading, body, foot } = this.card;
    this.element = element;
    this.heading = heading;
    this.room = make("div", {});
    body.append(this.room, make("div", { class: "buttons" }, button("Open this head in Inspect", onopen)));
    offerSaves(foot, context, {
      name: "one head in both sentences",
      isThere: () => !!this.change,
      table: () => this.table(),
    });
  }

  show(change, labels, watched) {
    this.change = change;
    this.labels = labels;
    this.heading.textContent = `${headName(change)}: ${digits(change.distance, 3)} of the attention moved`;
    const largest = Math.max(0.01, ...differenceOf(change).map(Math.abs));
    const caption = `What “${watched}” looks at in both sentences`;
    const table = make(
      "table",
      { class: "numbers aligned" },
      make("caption", { text: caption }),
      make("thead", {}, make("tr", {}, COLUMNS.map((text) => make("th", { scope: "col", text })))),
      make("tbody", {}, this.table().rows.map((row) => lineOf(row, largest))),
    );
    const room = { class: "table-room", tabindex: "0", role: "region", "aria-label": caption };
    fill(this.room, make("div", room, table));
  }

  /** The same for a file. */
  table() {
    const { first, second } = this.change;
    const moved = differenceOf(this.change);
    return { columns: COLUMNS, rows: this.labels.map((label, i) => [label, first[i], second[i], moved[i]]) };
  }
}

function lineOf([label, first, second, moved], largest) {
  return make("tr", {},
    make("th", { scope: "row", class: "key", dir: "auto", text: label }),
    [first, second].map((weight) => make("td", { class: "figure", text: digits(weight) })),
    shadeSigned(make("td", { class: "figure", text: withSign(moved), "data-value": moved }), moved, largest));
}
