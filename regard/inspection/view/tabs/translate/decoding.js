/** The decoder token by token: what is written, what it looks at, what may come next. */

import { make, fill } from "../../core/dom.js";
import { panel } from "../../parts/panel.js";
import { button } from "../../parts/controls.js";
import { Words } from "../../parts/words.js";
import { Distribution } from "../../parts/distribution.js";
import { tokenText, wordText } from "../../parts/share_table.js";
import { offerSaves } from "../../saving/save.js";
import { PanelRequests } from "../../core/requests.js";

const PACE = 1200; // milliseconds for each word while it plays

/** The panel; show(trace, alignment) as often as needed. */
export class DecodingPanel {
  constructor(context) {
    const { state, announce } = context;
    this.state = state;
    this.announce = announce;
    const card = panel({ title: "The decoder, word by word", class: "decoding" });
    const { element, body, foot } = card;
    this.element = element;
    this.requests = new PanelRequests(context, { name: "decoding", cards: [card] });
    this.back = button("Back", () => this.go(this.step - 1));
    this.next = button("Next", () => this.go(this.step + 1), { class: "primary" });
    this.player = button("Play", () => this.play());
    this.counter = make("span", { class: "counter" });
    this.written = make("p", { class: "output-line", dir: "auto" });
    this.looks = make("p", { class: "hint" });
    const room = make("div", { class: "decoding-source" });
    this.words = new Words(room, {
      label: "The source, shaded by what this step looks at",
      short: "Source",
      onhover: () => {},
      onpin: () => {},
    });
    body.append(
      make("div", { class: "buttons" }, this.back, this.next, this.player, this.counter),
      this.written,
      this.looks,
      room,
    );
    this.bars = new Distribution(body, { label: "The next word", most: 6 });
    offerSaves(foot, context, {
      name: "step of the decoder",
      isThere: () => !!this.bars.now,
      svg: () => this.bars.svg(),
      table: () => this.bars.full(),
    });
    state.on(["step", "crosshead"], () => this.trace && this.trace === context.trace.current && this.load());
  }

  /** Take another translation; the step stays where it can. */
  show(trace, alignment) {
    this.trace = trace;
    this.alignment = alignment;
    this.tokens = trace.sides.target.tokens;
    return this.load();
  }

  /** How many words are written; the last step writes the end. */
  get step() {
    const asked = Number(this.state.get("step") ?? 0);
    return Number.isInteger(asked) ? Math.max(0, Math.min(asked, this.tokens.length - 1)) : 0;
  }

  go(step) {
    this.state.set({ step: String(Math.max(0, Math.min(step, this.tokens.length - 1))) });
  }

  /** Stop playing, as when the tab is left. */
  rest() {
    clearInterval(this.timer);
    this.timer = null;
    this.player.textContent = "Play";
  }

  play() {
    if (this.timer) return this.rest();
    if (this.step >= this.tokens.length - 1) this.go(0);
    this.player.textContent = "Stop";
    this.timer = setInterval(() => {
      if (this.step >= this.tokens.length - 1) this.rest();
      else this.go(this.step + 1);
    }, PACE);
    return null;
  }

  /** Show a step at once, and what may come next when its numbers are here. */
  load() {
    const { step, trace } = this;
    const last = this.tokens.length - 1;
    this.back.disabled = step === 0;
    this.next.disabled = step === last;
    this.counter.textContent = `step ${step} of ${last}`;
    this.drawWritten(step);
    this.drawSource(step);
    this.requests.markNew(false); // the words can be stepped through before it is known what may come next
    return this.requests.run(
      (ask) => Promise.all([ask.next(trace.trace, step), ask.vocabulary(trace.model)]),
      ([sheet, vocabulary]) => this.drawNext(step, sheet, vocabulary),
    );
  }

  drawNext(step, { arrays, meta }, vocabulary) {
    const told = this.tokens[step + 1];
    const label = step === 0 ? "The first word" : `After “${wordText(this.tokens[step].text)}”`;
    this.bars.show({
      logits: arrays.logits.data,
      tokens: vocabulary,
      followed: meta.followed ?? told?.id ?? null,
      label,
    });
    this.announce(`Step ${step}: ${told ? `“${tokenText(told.text)}” is written next` : "the end comes next"}`);
  }

  drawWritten(step) {
    const done = this.tokens.slice(1, step + 1);
    const next = this.tokens[step + 1];
    const word = (token) => make("span", { class: "written-word", text: tokenText(token.text) });
    const rest = this.tokens.slice(step + 2).map((token) => make(
      "span",
      { class: "to-come", text: tokenText(token.text) },
    ));
    const now = make("b", { class: "output now", text: next ? tokenText(next.text) : "<end>" });
    fill(this.written, done.map((token) => [word(token), " "]), now, " ", rest.flatMap((span) => [span, " "]));
  }

  drawSource(step) {
    const { rows, name } = this.alignment.chosen();
    const { words } = this.trace.sides.source;
    const weights = words.map(({ positions }) => positions.reduce((sum, key) => sum + rows[step][key], 0));
    const most = words[weights.indexOf(Math.max(...weights))];
    this.words.show(words, true);
    this.words.shade(weights);
    this.looks.textContent = `While it writes the next word, ${name} of the cross-attention looks most at “${most.text}”.`;
  }
}
