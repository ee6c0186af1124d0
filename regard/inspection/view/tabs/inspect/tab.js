/** Tab "Inspect": type a sentence; the words, the stack, one head large, one cell step by step. */

import { make, quoted } from "../../core/dom.js";
import { sentenceBar, sentenceField, unitSwitch, Examples } from "../../parts/sentence.js";
import { choose, panel } from "../../parts/panel.js";
import { Choice } from "../../core/choice.js";
import { Readings } from "./readings.js";
import { Blocks } from "./blocks.js";
import { Heads } from "../../parts/heads.js";
import { sheetCanvas, sheetSvg } from "./heads_sheet.js";
import { FindingStrip } from "./finding.js";
import { Picture } from "./picture.js";
import { Stepper } from "./stepper.js";
import { Vectors } from "./vectors.js";
import { Switches, flipped } from "./switches.js";
import { InterventionPanel } from "./intervention.js";
import { fileOf, sceneOf, positionOf, sharpen } from "./scene.js";
import { rowName } from "../../core/rows.js";
import { whenSeen } from "../../core/seen.js";
import { foldedTable } from "../../parts/table.js";
import { offerSaves } from "../../saving/save.js";
import { PanelRequests } from "../../core/requests.js";
import { TabBase, isReady } from "../../core/tab.js";

const LATER = 200; // milliseconds of rest before what stands further down is drawn

/** The tab. */
class InspectTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.context = context;
    this.root = root;
    this.isolated = null;
    this.previous = null;
    this.choice = new Choice(this.state, this.trace);
    this.build();
    this.requests = new PanelRequests(context, { name: "attention", cards: [this.picture.card, this.whole()] });
    this.stepRequests = new PanelRequests(context, { name: "steps", cards: [this.stepCard], keepsPicture: false });
    this.trace.on((trace) => this.arrived(trace));
    this.choice.on(() => this.refresh());
    this.state.on(["words"], () => this.refresh());
    root.addEventListener("keydown", (event) => this.press(event));
  }

  async show() {
    this.isShown = true;
    this.examples.show();
    await this.refresh();
  }

  hide() {
    this.isShown = false;
    this.requests.stop();
  }

  // Words, stack and picture are drawn together.
  whole() {
    const blank = (isBlank) => this.root.classList.toggle("is-empty", isBlank);
    return { fail: this.picture.card.fail, blank };
  }

  build() {
    const canType = this.source.can("trace");
    this.root.classList.add("is-empty"); // nothing is shown that would move when the first sentence is there
    this.examples = new Examples(this);
    this.units = unitSwitch(this.state);
    const field = sentenceField({
      state: this.state,
      readOnly: !canType,
      hint: "Type a sentence",
      label: canType ? "Your sentence" : "The sentence",
    });
    this.readings = new Readings({
      onhover: (row, column) => this.hover(row, column, "words"),
      onpin: (part) => this.choice.pin(part),
      onisolate: (row) => this.isolate(row),
    });
    this.finding = new FindingStrip(this.context, { onshow: () => this.choice.pin(this.scene.trace.pinned) });
    const sentence = make(
      "div",
      { role: "group", "aria-label": "Sentence" },
      sentenceBar(field, this.examples.element, this.units),
      this.finding.element,
      this.readings.element,
      this.readings.notes,
    );
    this.root.append(
      sentence,
      make("div", { class: "inspect-grid" }, this.buildStack(), this.buildPicture(), this.buildSteps(), this.buildBelow()),
    );
  }

  buildStack() {
    const stack = panel({
      title: `The stack. Click a head to open it${this.source.can("trace") ? ", press X to switch it off" : ""}`,
      class: "stack plain",
    });
    this.blocks = new Blocks(stack.body, {
      onpick: (kind, layer) => this.choice.pin({ kind, layer, head: this.choice.pinned.head }),
      ondescend: () => this.vectors.element.scrollIntoView({ block: "nearest" }),
    });
    this.heads = new Heads(stack.body, {
      onhover: (place) => this.choice.preview(place),
      onpin: ({ kind, layer, head }) => this.choice.pin({ kind, layer, head }),
      onisolate: ({ head }) => this.state.set({ heads: [head] }),
      onswitch: (place) => this.switchHead(place),
    });
    this.headTable = foldedTable({ caption: "Every head in a line", give: () => this.heads.table() });
    stack.foot.append(this.headTable);
    this.offer(stack, {
      name: "all heads",
      isThere: () => !!this.scene,
      title: "All heads",
      canvas: () => sheetCanvas(this.heads),
      svg: () => sheetSvg(this.heads),
      table: () => this.heads.table(),
      arrays: () => this.heads.overview.arrays,
    });
    return stack.element;
  }

  buildPicture() {
    this.picture = new Picture(this.context, {
      onhover: (row, column, from) => this.hover(row, column, from),
      onpin: (row, column) => this.pinCell(row, column),
      onisolate: (row) => this.isolate(row),
      onrelease: () => this.release(),
      onhead: (head) => this.choice.pin({ kind: this.scene.kind, layer: this.scene.layer, head }),
      onswitch: () => this.switchHead(this.choice.pinned),
    });
    return this.picture.element;
  }

  offer(card, what) {
    offerSaves(card.foot, this, {
      address: (ending) => fileOf(this.source, this.scene, ending),
      ...what,
    });
  }

  buildSteps() {
    this.stepCard = panel({ title: "One cell, step by step", class: "stepper" });
    this.stepper = new Stepper(this.stepCard.body);
    this.offer(this.stepCard, {
      name: "the steps of this cell",
      isThere: () => !!this.stepper.steps,
      table: () => this.stepper.table(),
      arrays: () => this.stepper.arrays,
      address: (ending) => (ending === "html" ? fileOf(this.source, this.scene, ending) : null),
    });
    return this.stepCard.element;
  }

  buildBelow() {
    const { source, context } = this;
    this.vectors = new Vectors(context);
    this.switches = new Switches(context);
    const below = make("div", { class: "inspect-below" });
    this.later = [];
    if (source.can("ablation")) {
      below.append(this.switches.element);
      this.drawLater(this.switches.element, (scene) => this.switches.show(scene.trace, scene));
    }
    if (source.can("trace")) {
      const intervention = new InterventionPanel(below, context);
      const show = ({ kind, layer, head, query }) => intervention.show({ kind, layer, head, query });
      this.drawLater(intervention.element, show);
    }
    if (source.can("vectors")) {
      below.append(this.vectors.element);
      const show = ({ trace, kindInfo, query }) => this.vectors.show(trace, kindInfo.queries, query);
      this.drawLater(this.vectors.element, show);
    }
    return below;
  }

  // What is further down is drawn when it is seen, if the sentence is still the same.
  drawLater(element, show) {
    this.later.push(whenSeen(element, (scene) => scene.trace === this.trace.current && show(scene)));
  }

  arrived(trace) {
    this.choice.previewed = null;
    this.isolated = null;
    const before = this.previous;
    this.previous = trace;
    this.choice.follow(before, trace);
    return this.refresh();
  }

  get isWords() {
    return this.state.get("words") ?? true;
  }

  /** Draw what is chosen now. */
  async refresh() {
    const trace = this.trace.current;
    if (!trace || !this.isShown) return;
    const { isWords, choice: { now } } = this;
    await this.requests.run(
      (ask) => Promise.all([ask.layer(trace.trace, now.kind, now.layer, isWords), ask.overview(trace.trace)]),
      ([sheet, overview]) => this.draw(sceneOf(trace, now, sheet, isWords), overview),
    );
  }

  draw(scene, overview) {
    this.scene = scene;
    this.root.classList.remove("is-empty");
    const isPreview = this.choice.previewed !== null;
    this.readings.show(scene);
    choose(this.units, scene.isWords ? "words" : "pieces");
    this.picture.show(scene, this.isolated);
    if (isPreview) return;
    const { trace } = scene;
    const ablate = trace.ablated;
    const place = ["kind", "layer", "head", "query"];
    this.finding.show(trace, place.every((name) => scene[name] === trace.pinned[name]));
    this.blocks.show({ trace, pinned: scene, ablate });
    this.heads.show({ trace, overview, pinned: scene, ablate, canSwitch: this.source.can("trace") });
    this.headTable.refresh();
    this.drawSteps(scene);
    this.callOff?.();
    this.callOff = this.source.work.after(LATER, () => this.later.forEach((draw) => draw(scene)));
  }

  drawSteps(scene) {
    const { trace, kind, layer, head, query, key } = scene;
    const asks = rowName(trace, scene.kindInfo, false, query);
    const answers = quoted(trace.sides[scene.kindInfo.keys].tokens[key].text);
    return this.stepRequests.run((ask) => ask.steps(trace.trace, kind, layer, head, query), (sheet) => {
      this.stepCard.heading.textContent = `How ${asks} came to look at ${answers}`;
      this.stepper.show(sheet, key);
      if (sharpen(scene, sheet) && this.scene === scene) this.picture.redraw();
    });
  }

  // The pointer may move many times between two frames; the last move is drawn.
  hover(row, column, from) {
    if (!this.scene) return;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      if (row >= this.scene.rows.length || column >= this.scene.columns.length) return;
      this.readings.shade(row ?? this.scene.row, column);
      this.picture.point(row, column, from);
    });
  }

  pinCell(row, column) {
    const { rows, columns } = this.scene;
    const at = row ?? this.scene.row;
    const part = {
      kind: this.scene.kind,
      layer: this.scene.layer,
      head: this.scene.head,
      query: positionOf(rows[at], at),
    };
    const key = column === null ? null : positionOf(columns[column], column);
    this.choice.pin({ ...part, key });
  }

  isolate(row) {
    this.isolated = this.isolated === row ? null : row;
    this.picture.show(this.scene, this.isolated);
  }

  // The first Escape shows the other rows again, the next lets the pinned cell go.
  release() {
    if (this.isolated !== null) return this.isolate(this.isolated);
    return this.choice.release();
  }

  switchHead({ kind, layer, head }) {
    if (!this.source.can("trace")) return;
    const ablate = flipped(this.state.get("ablate"), [kind, layer, head]);
    const isOff = ablate.length > this.state.get("ablate").length;
    this.announce(`Head ${head} of ${kind}, layer ${layer} is switched ${isOff ? "off" : "on"}.`);
    this.state.set({ ablate }, { push: true });
  }

  press(event) {
    const isTyping = event.target.closest("input, textarea, select");
    if (isTyping || event.key.toLowerCase() !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.switchHead(this.choice.pinned);
  }
}

/** @type {import("../../core/tab.js").TabEntry} */
export const INSPECT = {
  name: "inspect",
  title: "Inspect",
  needs: [],
  fits: isReady,
  Tab: InspectTab,
};
