/** What the model makes of two sentences: both outputs with what differs, and the next word of each. */

import { make, fill, digits } from "../../core/dom.js";
import { panel } from "../../parts/panel.js";
import { offerSaves } from "../../saving/save.js";
import { tokenText } from "../../parts/share_table.js";
import { writeShare } from "../../core/chances.js";
import { differing } from "./comparing.js";

const FEW = 6;
const CAPTIONS = {
  "encoder-decoder": "The next word where the outputs part",
  "decoder-only": "The next word after each sentence",
  "encoder-only": "The word at the gap",
};

/** The panel; show(answer) as often as needed. */
export class CompareOutputs {
  constructor(context) {
    this.model = context.model;
    this.rows = null;
    this.card = panel({ title: "What the model makes of them", class: "compare-outputs" });
    const { element, body, foot } = this.card;
    this.element = element;
    this.outputs = make("div", { class: "outputs" });
    this.next = make("div", {});
    body.append(this.outputs, this.next);
    offerSaves(foot, context, {
      name: "what the model makes of them",
      isThere: () => !!this.rows,
      table: () => this.table(),
    });
  }

  show({ outputs, next }) {
    const { family } = this.model();
    this.rows = next;
    this.drawOutputs(outputs.map((text) => text ?? ""), family);
    fill(this.next, next.length > 0 && table(CAPTIONS[family], next.slice(0, FEW)));
  }

  /** The chances of the next word for a file. */
  table() {
    const rows = this.rows.map(({ text, first, second, change }) => [tokenText(text), first, second, change]);
    return { columns: ["word", "first", "second", "change"], rows };
  }

  drawOutputs(texts, family) {
    const differs = texts[0] !== texts[1];
    const whole = () => texts.map((text) => [{ text: tokenText(text), differs }]);
    const [one, other] = family === "encoder-decoder" ? differing(...texts) : whole();
    const title = family === "encoder-decoder" ? "" : family === "decoder-only" ? ", the likeliest next word" : ", the answer";
    fill(this.outputs, line(one, `First${title}`), line(other, `Second${title}`));
  }
}

/** A number with its sign, a plus too. */
export function withSign(number) {
  return number > 0 ? `+${digits(number)}` : digits(number);
}

function line(words, title) {
  const spans = words.map(({ text, differs }) => [make(differs ? "mark" : "span", { text }), " "]);
  return make("div", {}, make("h3", { text: title }), make("p", { class: "output-line", dir: "auto" }, spans));
}

function table(caption, rows) {
  const heads = ["word", "first", "second", "change"].map((text) => make("th", { scope: "col", text }));
  const lines = rows.map(({ text, first, second, change }) => make("tr", {},
    make("th", { scope: "row", dir: "auto", text: tokenText(text) }),
    [writeShare(first), writeShare(second), withSign(change)].map((number) => make(
      "td",
      { class: "figure", text: number },
    ))));
  const room = { class: "table-room", tabindex: "0", role: "region", "aria-label": caption };
  return make(
    "div",
    room,
    make(
      "table",
      { class: "numbers aligned" },
      make("caption", { text: caption }),
      make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, lines),
    ),
  );
}
