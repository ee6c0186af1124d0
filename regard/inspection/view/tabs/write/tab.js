/** Tab "Write": the whole distribution after any word; temperature, top-k, top-p; draw one and go on. */

import { make, fill } from "../../core/dom.js";
import { beside, panel } from "../../parts/panel.js";
import { sentenceBar, sentenceField, Examples } from "../../parts/sentence.js";
import { offerSaves } from "../../saving/save.js";
import { slider, button } from "../../parts/controls.js";
import { Chips } from "../../parts/chips.js";
import { draw, uniformAt } from "../../core/chances.js";
import { Distribution, chanceStrip } from "../../parts/distribution.js";
import { tokenText, wordText } from "../../parts/share_table.js";
import { PanelRequests } from "../../core/requests.js";
import { Writing, writeIds } from "./writing.js";
import { TabBase, isReady } from "../../core/tab.js";

const MOST_IN_ONE_GO = 60;
const TEMPERATURE =
  "At temperature 1 this is the model's own softmax. Toward 0 only the likeliest word is left; above 1 " +
  "unlikely words gain. Nothing new is created: what the model believes is only sharpened or flattened.";

/** The next word, and writing with it. */
class WriteTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.writing = new Writing(context);
    this.lastClick = Promise.resolve();
    this.reading = Promise.resolve(false);
    const { text, next } = this.build(root);
    const written = { ...beside(this.chips.element), element: text.element, fail: text.fail };
    this.wordRequests = new PanelRequests(context, { name: "written", cards: [written] });
    this.requests = new PanelRequests(context, { name: "next-word", cards: [next, beside(this.told)] });
    this.state.on(
      ["text", "model", "snapshot"],
      (changed) => !changed.has("ids") && this.state.set({ ids: null, at: null }),
    );
    this.state.on(["ids", "at"], () => this.refresh());
    this.state.on(["temperature", "topk", "topp", "seed"], () => this.recompute());
    this.trace.on(() => this.refresh());
  }

  async show() {
    this.isShown = true;
    this.examples.show(4);
    await this.refresh();
  }

  hide() {
    this.isShown = this.isGoing = false;
    this.wordRequests.stop();
    this.requests.stop();
  }

  build(root) {
    const canType = this.source.can("trace");
    const text = panel({ title: "What is written", class: "write-text" });
    const next = panel({ title: "The next word", class: "write-next" });
    this.heading = next.heading;
    this.examples = new Examples(this);
    this.chips = new Chips("Words; choose one to see what may follow it");
    this.told = make("p", { class: "told" });
    fill(
      text.body,
      make("p", {
        class: "hint",
        text: "Choose any word to see what the model expected after it. It reads only what stands before: later words are not there yet.",
      }),
      this.chips.element,
      this.told,
      this.buildButtons(),
    );
    next.body.append(this.buildRules());
    this.bars = new Distribution(
      next.body,
      { label: "The next word", onchoose: this.writing.canGoOn ? (id) => this.take(id) : null },
    );
    this.strip = make("div", {});
    next.body.append(this.strip, make("p", { class: "note", text: TEMPERATURE }));
    offerSaves(next.foot, this, {
      name: "next word",
      isThere: () => !!this.bars.now,
      svg: () => this.bars.svg(),
      table: () => this.bars.full(),
    });
    root.append(
      canType ? sentenceBar(sentenceField({ state: this.state }), this.examples.element) : "",
      make("div", { class: "side-by-side" }, text.element, next.element),
    );
    return { text, next };
  }

  buildButtons() {
    this.sampler = button("Sample", () => this.whenRead(() => this.sample()), { class: "primary" });
    this.likeliest = button(
      "Take the likeliest",
      () => this.whenRead(() => this.take(this.now?.order[0])),
    );
    this.goer = button("Write on", () => this.writeOn());
    this.undoer = button("Undo", () => this.undo());
    this.restarter = button("Begin again", () => this.state.set({ ids: null, at: null }));
    this.seed = make("input", {
      type: "number",
      min: 0,
      max: 999999,
      step: 1,
      value: this.seedNumber(),
      oninput: () => this.state.set({ seed: this.seed.value }),
    });
    const seed = make("label", { class: "choice" }, make("span", { text: "Seed" }), this.seed);
    const another = button(
      "Another seed",
      () => this.state.set({ seed: String(this.seedNumber() + 1) }),
      { class: "quiet" },
    );
    const all = [this.sampler, this.likeliest, this.goer, this.undoer, this.restarter, seed, another];
    return make("div", { class: "buttons", hidden: !this.writing.canGoOn }, all);
  }

  buildRules() {
    const set = (name, none) => (number) => this.state.set({ [name]: number === none ? null : number });
    this.temperature = slider({
      label: "Temperature",
      least: 0,
      most: 2,
      step: 0.05,
      value: 1,
      limit: 100,
      onchange: set("temperature", 1),
    });
    this.topk = slider({
      label: "Top-k (0 keeps all)",
      least: 0,
      most: 100,
      step: 1,
      value: 0,
      limit: 1e6,
      onchange: (n) => set("topk", 0)(Math.round(n)),
    });
    this.topp = slider({
      label: "Top-p",
      least: 0.01,
      most: 1,
      step: 0.01,
      value: 1,
      onchange: set("topp", 1),
    });
    return make("div", { class: "sliders stacked" }, this.temperature.root, this.topk.root, this.topp.root);
  }

  settings() {
    return {
      temperature: this.state.get("temperature") ?? 1,
      topK: this.state.get("topk") ?? 0,
      topP: this.state.get("topp") ?? 1,
    };
  }

  seedNumber() {
    return Math.abs(Math.floor(Number(this.state.get("seed") ?? 1))) || 0;
  }

  refresh() {
    this.reading = this.read();
    return this.reading;
  }

  /** Show the words of the present sentence, then what may follow the chosen one; whether both were drawn. */
  async read() {
    const beginning = this.isShown && this.writing.beginning();
    if (!beginning) return false;
    this.requests.stop();
    const hasWords = await this.wordRequests.run(
      (ask) => ask.vocabulary(this.model().name),
      (tokens) => this.drawChips(this.writing.chips(beginning, tokens), beginning.length, tokens),
    );
    if (!hasWords) return false;
    const { chipsShown: chips } = this;
    const at = this.writing.place(chips.length);
    return this.requests.run((ask) => this.writing.after(ask, at, beginning), ({ logits, meta }) => {
      this.at = at;
      this.before = chips[at];
      this.beginning = beginning;
      this.logits = logits;
      this.meta = meta;
      this.followed = chips[at + 1]?.id ?? null;
      this.recompute();
    });
  }

  recompute() {
    if (!this.isShown || !this.logits) return;
    const settings = this.settings();
    for (const [name, value] of [
      ["temperature", settings.temperature],
      ["topk", settings.topK],
      ["topp", settings.topP],
    ]) this[name].set(value);
    if (document.activeElement !== this.seed) this.seed.value = this.seedNumber();
    const isStart = this.at === 0 && this.before.special === "start";
    this.heading.textContent = isStart ? "The first word" : `The next word after “${wordText(this.before.text)}”`;
    this.now = this.bars.show({
      logits: this.logits,
      tokens: this.tokens,
      settings,
      followed: this.followed,
      label: this.heading.textContent,
    });
    this.drawLuck();
    this.enable();
  }

  drawLuck() {
    const written = this.at - this.beginning.length + 1;
    if (!this.writing.canGoOn || written < 0 || this.meta.ended) return fill(this.strip);
    const uniform = uniformAt(this.seedNumber(), written);
    this.place = draw(this.now.shares, uniform);
    const word = wordText(this.tokens[this.now.order[this.place]] ?? "");
    const sentence = `Sampling lays all shares end to end. Seed ${this.seedNumber()} draws ${uniform.toFixed(4)} here, which falls on “${word}”.`;
    return fill(
      this.strip,
      make("p", { class: "told", text: sentence }),
      chanceStrip({ now: this.now, tokens: this.tokens, uniform, place: this.place }),
    );
  }

  drawChips(chips, own, tokens) {
    this.chipsShown = chips;
    this.tokens = tokens;
    const at = this.writing.place(chips.length);
    this.chips.show(chips.map(({ special, text }, number) => {
      const shown = special ? `<${special}>` : tokenText(text);
      const onclick = () => this.state.set({ at: number === chips.length - 1 ? null : String(number) });
      const kind = `${number >= own ? "own" : ""} ${special ? "special" : ""}`;
      return { text: shown, name: `After ${shown}`, kind, isDown: number === at, onclick };
    }));
  }

  enable() {
    const written = this.writing.ids.length;
    const isOver = this.meta.ended || this.meta.room <= 0;
    const isEarly = this.at < this.beginning.length - 1;
    for (const each of [this.sampler, this.likeliest]) each.disabled = isOver || isEarly;
    this.goer.disabled = isOver && !this.isGoing;
    this.undoer.disabled = this.restarter.disabled = written === 0;
    const over = this.meta.ended ? "The model has ended here." : this.meta.room <= 0 ? "The model has no room for more words." : "";
    fill(
      this.told,
      written > 0 && make("span", { class: "output-text", dir: "auto", text: this.meta.text ?? "" }),
      over && ` ${over}`,
    );
  }

  /** What the written words belong to. */
  get subject() {
    return JSON.stringify(["model", "text", "snapshot"].map((name) => this.state.get(name)));
  }

  /** Act when the distribution of what stands there has come, one click after the other: none is lost. */
  whenRead(act) {
    const { subject } = this;
    this.lastClick = this.lastClick.then(async () => {
      if (await this.isRead(subject) && !this.sampler.disabled) act();
    });
  }

  /** Wait until nothing newer is read; whether it was drawn and the sentence is still the same. */
  async isRead(subject) {
    let waited, isDrawn;
    while (waited !== this.reading) {
      waited = this.reading;
      isDrawn = await waited;
    }
    return isDrawn && this.isShown && this.subject === subject;
  }

  /** Write a word after the chip that is looked at; what stood behind it goes. */
  take(id) {
    const written = this.at - this.beginning.length + 1;
    if (id === undefined || written < 0) return;
    const ids = [...this.writing.ids.slice(0, written), id];
    this.announce(`Written: ${tokenText(this.tokens[id] ?? "")}`);
    this.state.set({ ids: writeIds(ids), at: null });
  }

  sample() {
    if (this.now && this.place !== undefined) this.take(this.now.order[this.place]);
  }

  undo() {
    this.state.set({ ids: writeIds(this.writing.ids.slice(0, -1)), at: null });
  }

  async writeOn() {
    if (this.isGoing) {
      this.isGoing = false;
      return;
    }
    const { subject } = this;
    this.isGoing = true;
    this.goer.textContent = "Stop";
    this.state.set({ at: null });
    for (let count = 0; count < MOST_IN_ONE_GO && this.isGoing; count++) {
      this.refresh();
      if (!(await this.isRead(subject)) || !this.isGoing || this.meta.ended || this.meta.room <= 0) break;
      this.sample();
    }
    this.isGoing = false;
    this.goer.textContent = "Write on";
    await this.refresh();
  }
}

/** @type {import("../../core/tab.js").TabEntry} */
export const WRITE = {
  name: "write",
  title: "Write",
  needs: ["next", "vocabulary"],
  fits: (model) => isReady(model) && model.family !== "encoder-only",
  Tab: WriteTab,
};
