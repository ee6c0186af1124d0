/** Tab "Training": attention forming over a run's checkpoints, the translation of each, the loss beside it. */

import { make, fill, uniqueId } from "../../core/dom.js";
import { beside, panel } from "../../parts/panel.js";
import { sentenceBar, sentenceField } from "../../parts/sentence.js";
import { button, choice } from "../../parts/controls.js";
import { Matrix } from "../../pictures/matrix.js";
import { attentionLegend } from "../../parts/legend.js";
import { foldedTable } from "../../parts/table.js";
import { offerMatrix, offerSaves } from "../../saving/save.js";
import { attentionTitle } from "../../parts/heads.js";
import { resolve } from "../../core/choice.js";
import { kindOf } from "../../core/tracing.js";
import { LossCurve } from "../../pictures/curve.js";
import { PanelRequests } from "../../core/requests.js";
import { TabBase, isReady } from "../../core/tab.js";

const PACE = 900; // milliseconds for each checkpoint while it plays
const PAUSE = 2000; // between two looks at a run that goes on

/** Through training. */
class TrainingTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.seen = new Map();
    const { picture, progress } = this.build(root);
    this.requests = new PanelRequests(context, { name: "snapshot", cards: [picture] });
    this.others = new PanelRequests(context, { name: "other-snapshots", cards: [{ fail: () => {}, blank: () => {} }] });
    const cards = [progress, beside(this.slider)];
    this.progressRequests = new PanelRequests(context, { name: "progress", cards, subject: () => null });
    this.state.on(["model"], () => {
      this.progress = null;
    });
    this.trace.on(() => this.isShown && this.draw());
    this.state.on(["checkpoint", "kind", "layer", "head"], () => this.isShown && this.draw());
    document.addEventListener("visibilitychange", () => this.isShown && !document.hidden && this.poll());
  }

  async show() {
    this.isShown = true;
    await this.poll();
  }

  hide() {
    this.isShown = false;
    clearTimeout(this.waiting);
    for (const requests of [this.requests, this.others, this.progressRequests]) requests.stop();
    this.rest();
  }

  build(root) {
    const picture = panel({ title: "Attention at this step", class: "training-picture" });
    const progress = panel({ title: "The loss on the way", class: "training-progress" });
    this.heading = picture.heading;
    const room = make("div", {});
    this.legend = make("div", {});
    this.matrix = new Matrix(room, { label: "Attention at the chosen checkpoint" });
    this.output = make("p", { class: "output-line", dir: "auto" });
    this.head = choice({ label: "Head", options: [], value: "", onchange: (value) => this.pick(value) });
    picture.body.append(
      make("div", { class: "controls" }, this.head.root),
      this.output,
      room,
      this.legend,
    );
    this.folded = offerMatrix(picture.foot, this, {
      name: "attention in training",
      isThere: () => !!this.pictured,
      matrix: this.matrix,
      caption: "Attention at the chosen checkpoint",
      address: (ending) => this.fileOf(ending),
    });
    this.live = make("p", { class: "hint" });
    this.curve = new LossCurve(progress.body, { onpick: (step) => this.go(step) });
    progress.body.append(
      make(
        "p",
        { class: "legend" },
        make("span", { class: "key-line training", text: "training" }),
        make("span", { class: "key-line validation", text: "validation" }),
        make("span", { class: "key-line checkpoint", text: "checkpoint" }),
      ),
      this.live,
    );
    progress.body.append(make("p", {
      class: "note",
      text: "Both are the plain cross-entropy, without label smoothing. Training has dropout and is measured before each update; validation has no dropout, and so it can lie lower.",
    }));
    this.losses = foldedTable({ caption: "The loss of each step", give: () => this.curve.table() });
    progress.foot.append(this.losses);
    offerSaves(progress.foot, this, {
      name: "loss",
      isThere: () => !!this.progress,
      svg: () => this.curve.svg(),
      table: () => this.curve.table(),
    });
    this.slider = this.buildSlider();
    root.append(
      sentenceBar(sentenceField({ state: this.state })),
      this.slider,
      make("div", { class: "side-by-side" }, picture.element, progress.element),
    );
    return { picture, progress };
  }

  buildSlider() {
    const id = uniqueId("checkpoint");
    this.range = make("input", {
      type: "range",
      id,
      min: 0,
      max: 0,
      step: 1,
      value: 0,
      oninput: () => this.go(this.steps[Number(this.range.value)]),
    });
    this.value = make("output", { class: "range-value", for: id });
    this.back = button("Back", () => this.move(-1));
    this.next = button("Next", () => this.move(1));
    this.player = button("Play", () => this.play());
    return make(
      "div",
      { class: "panel checkpoint-slider" },
      make("label", { for: id, text: "Step of training" }),
      this.range,
      this.value,
      make("div", { class: "buttons" }, this.back, this.next, this.player),
    );
  }

  get steps() {
    return this.progress?.snapshots ?? [];
  }

  /** The checkpoint that is looked at: the chosen one, or the last. */
  get at() {
    const asked = this.state.get("checkpoint");
    const step = asked === null ? NaN : Number(asked);
    return this.steps.includes(step) ? step : (this.steps.at(-1) ?? null);
  }

  go(step) {
    this.state.set({ checkpoint: step === this.steps.at(-1) ? null : String(step) });
  }

  move(by) {
    const to = this.steps.indexOf(this.at) + by;
    if (to >= 0 && to < this.steps.length) this.go(this.steps[to]);
  }

  play() {
    if (this.timer) return this.rest();
    if (this.at === this.steps.at(-1)) this.go(this.steps[0]);
    this.player.textContent = "Stop";
    this.timer = setInterval(() => (this.at === this.steps.at(-1) ? this.rest() : this.move(1)), PACE);
    return null;
  }

  rest() {
    clearInterval(this.timer);
    this.timer = null;
    this.player.textContent = "Play";
  }

  pick(value) {
    const [kind, layer, head] = value.split(".");
    this.state.set({ kind, layer: Number(layer), head: Number(head), query: null, key: null });
  }

  /** Read the progress, and again after a while where the run goes on; a hidden page does not ask. */
  async poll() {
    clearTimeout(this.waiting);
    if (document.hidden || !this.isShown) return;
    const { name } = this.model();
    await this.progressRequests.run((ask) => ask.progress(name), (progress) => {
      this.progress = progress;
      this.drawProgress();
      this.losses.refresh();
      if (progress.live) this.waiting = setTimeout(() => this.poll(), PAUSE);
    });
    await this.draw();
  }

  async draw() {
    const { at, steps, trace: { current } } = this;
    if (at === null || !current) return;
    this.drawProgress();
    const place = this.place(current);
    const look = (step) => (ask) => this.look(ask, step, place);
    const isDrawn = await this.requests.run(look(at), (seen) => this.drawPicture(at, place, seen));
    // The others are read ahead, so that sliding shows at once.
    if (isDrawn) await this.others.run(async (ask) => {
      for (const step of steps) await look(step)(ask);
    }, () => {});
  }

  place(current) {
    const names = ["kind", "layer", "head", "query", "key"];
    return resolve(current, Object.fromEntries(names.map((name) => [name, this.state.get(name)])));
  }

  drawProgress() {
    const { progress, at, steps } = this;
    this.range.max = Math.max(0, steps.length - 1);
    this.range.value = steps.indexOf(at);
    this.range.setAttribute("aria-valuetext", at === null ? "none" : `step ${at}`);
    this.value.textContent = at === null ? "no checkpoint" : `step ${at.toLocaleString("en")}`;
    this.back.disabled = at === steps[0] || at === null;
    this.next.disabled = at === steps.at(-1) || at === null;
    this.player.disabled = steps.length < 2;
    this.curve.show(progress, at);
    const state = progress.live ? "The run goes on; this page follows it." : "The run is over.";
    this.live.textContent = `${this.curve.sentence()} ${state}`;
  }

  /** What the model of that step did: its own translation, and attention over the words of the last model. */
  async look(ask, step, place) {
    const { current } = this.trace;
    const request = { ...this.trace.request, interventions: [], snapshot: step };
    const name = JSON.stringify([request, place.kind, place.layer, current.trace]);
    if (!this.seen.has(name)) {
      const answer = await this.read(ask, request, place, current);
      if (this.seen.size > 200) this.seen.clear();
      this.seen.set(name, answer);
    }
    return this.seen.get(name);
  }

  async read(ask, request, { kind, layer }, current) {
    const own = await ask.trace(request);
    const writes = place(current, kind) === "target" && current.sides.source;
    const ids = writes ? current.sides.target.tokens.slice(1).map(({ id }) => id) : null;
    const forced = writes ? await ask.trace({ ...request, target: null, target_ids: ids }) : own;
    const { arrays } = await ask.layer(forced.trace, kind, layer, true);
    return { text: own.translation, trace: forced, arrays };
  }

  // Every weight at the chosen step, or a page of the sentence as it was read then.
  fileOf(ending) {
    const { trace, ...place } = this.pictured ?? { trace: "none" };
    return this.source.saveAddress(trace, ending, ending === "html" ? { ...place, words: true } : {});
  }

  drawPicture(at, place, { text, trace, arrays }) {
    const { kind, layer, head } = place;
    this.offerHeads(this.trace.current, place);
    this.pictured = { trace: trace.trace, kind, layer, head };
    const [, rows, columns] = arrays.weights.shape;
    const { queries, keys } = kindOf(trace, kind);
    const labels = (side) => trace.sides[side].words.map((word) => word.text);
    const weights = arrays.weights.data.subarray(head * rows * columns, (head + 1) * rows * columns);
    this.heading.textContent = `${attentionTitle(kind, layer)}, head ${head}, at step ${at.toLocaleString("en")}`;
    this.matrix.show({ rows: labels(queries), columns: labels(keys), weights, visible: arrays.visible.data });
    this.folded.refresh();
    fill(this.legend, attentionLegend({ masked: arrays.visible.data.some((seen) => !seen) }));
    const isFirst = at === 0 ? " (nothing learned yet)" : "";
    fill(
      this.output,
      text !== null && [
        make("span", { class: "soft", text: `At step ${at.toLocaleString("en")}${isFirst} it writes: ` }),
        make("b", { class: "output", text: text || "nothing" }),
      ],
    );
  }

  offerHeads(trace, { kind, layer, head }) {
    const all = trace.kinds.flatMap(({ name, layers }) => Array.from(
      { length: layers * trace.heads },
      (_, n) => [name, Math.floor(n / trace.heads), n % trace.heads],
    ));
    this.head.offer(
      all.map(([name, of, number]) => [
        `${name}.${of}.${number}`,
        `${attentionTitle(name, of)}, head ${number}`,
      ]),
      `${kind}.${layer}.${head}`,
    );
  }
}

function place(trace, kind) {
  return kindOf(trace, kind).queries;
}

/** @type {import("../../core/tab.js").TabEntry} */
export const TRAINING = {
  name: "training",
  title: "Training",
  needs: ["progress"],
  fits: (model) => isReady(model) && model.snapshots.length > 0,
  Tab: TrainingTab,
};
