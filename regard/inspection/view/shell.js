/** The frame around the tabs: title, tabs, the model's name, errors as sentences, what is said aloud. */

import { make, fill, adjust, uniqueId } from "./core/dom.js";
import { UNCHANGED } from "./core/state.js";
import { changesLine } from "./parts/changes.js";
import { Toast } from "./parts/toast.js";
import { DEMO } from "./tabs/demo/tab.js";
import { INSPECT } from "./tabs/inspect/tab.js";
import { LAYERS } from "./tabs/layers/tab.js";
import { COMPARE } from "./tabs/compare/tab.js";
import { TRANSLATE } from "./tabs/translate/tab.js";
import { WRITE } from "./tabs/write/tab.js";
import { READ } from "./tabs/read/tab.js";
import { TRAINING } from "./tabs/training/tab.js";
import { BY_HAND } from "./tabs/by_hand/tab.js";
import { LESSONS } from "./tabs/lessons/tab.js";

/** The tabs in order. A new tab is one line here; see core/tab.js. */
const TABS = [DEMO, INSPECT, LAYERS, COMPARE, TRANSLATE, WRITE, READ, TRAINING, BY_HAND, LESSONS];

/** Builds the frame in root; `context` is what every tab is given: {state, source, trace, announce, notify, ...}. */
export class Shell {
  constructor(root, context, { isPage }) {
    this.root = root;
    this.context = context;
    this.state = context.state;
    this.isPage = isPage;
    this.models = [];
    this.open = new Map();
    this.prefix = uniqueId("tabs");
    this.build();
    this.state.on(["tab", "model"], () => this.showTab());
  }

  /** Show these models; the chosen one is the state's, or the first. */
  offer(models) {
    this.models = models;
    if (!this.model) this.state.set({ model: models[0].name });
    const options = models.map((model) => make("option", { value: model.name, text: model.title }));
    fill(this.choice, options);
    this.choice.value = this.model.name;
    const isOne = models.length < 2;
    this.choiceRow.hidden = isOne;
    adjust(this.modelTitle, { text: this.model.title, hidden: !isOne });
    this.showTab();
  }

  /** The model that is looked at. */
  get model() {
    return this.models.find((model) => model.name === this.state.get("model"));
  }

  /** Say to a screen reader what everybody else sees. */
  announce(sentence) {
    this.status.textContent = sentence;
  }

  /** Show an error as a sentence, and which sentence the pictures still belong to; null takes it away. */
  fail(error) {
    const { current } = this.context.trace;
    const still = current && current.text !== this.state.get("text") ? ` The pictures are of “${current.text}”.` : "";
    const sentence = error?.message.replace(/([^.?!])$/, "$1.");
    fill(this.alert, error && make("p", { text: `${sentence}${still}` }));
  }

  /** Show quietly that an answer is on its way. */
  busy(isBusy) {
    this.root.classList.toggle("is-busy", isBusy);
  }

  /** Say whether something that is asked for is not drawn yet. */
  wait(isWaiting) {
    this.body.setAttribute("aria-busy", String(isWaiting));
  }

  build() {
    const title = make(this.isPage ? "h1" : "h2", { class: "title", text: "Regard" });
    this.tabList = make(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: (event) => this.walkTabs(event) },
    );
    this.modelTitle = make("p", { class: "model-title" });
    const id = uniqueId("model");
    const take = () => this.state.set({ ...UNCHANGED, model: this.choice.value }, { push: true });
    this.choice = make("select", { id, onchange: take });
    this.choiceRow = make(
      "p",
      { class: "model-choice", hidden: true },
      make("label", { for: id, text: "Model" }),
      this.choice,
    );
    this.tools = make("div", { class: "header-tools" });
    const header = make(
      this.isPage ? "header" : "div",
      { class: "header" },
      title,
      this.tabList,
      this.modelTitle,
      this.choiceRow,
      this.tools,
    );
    this.alert = make("div", { class: "alert", role: "alert" });
    this.toast = new Toast();
    const undone = () => this.toast.confirm("The model is as it was trained.");
    const changes = this.context.source.can("trace") && changesLine(this.state, { undone });
    this.status = make("p", { class: "unseen", role: "status", "aria-live": "polite" });
    this.body = make(this.isPage ? "main" : "div", { class: "main", id: uniqueId("main"), tabindex: "-1" }, this.alert);
    const skip = this.isPage && make(
      "a",
      { class: "skip", href: `#${this.body.id}`, text: "Skip to the picture", onclick: (event) => this.skip(event) },
    );
    const notices = make("div", { class: "notices" }, this.toast.elements, changes);
    fill(this.root, skip, header, this.body, notices, this.status);
  }

  skip(event) {
    event.preventDefault();
    this.body.focus();
  }

  fitting() {
    const { model, context: { source } } = this;
    return model ? TABS.filter(({ needs, fits }) => fits(model) && needs.every((name) => source.can(name))) : [];
  }

  showTab() {
    if (!this.model && this.models.length) this.state.set({ model: this.models[0].name });
    if (!this.model) return;
    const fitting = this.fitting();
    const chosen = fitting.find(({ name }) => name === this.state.get("tab")) ?? fitting[0];
    this.choice.value = this.model.name;
    this.drawTabs(fitting, chosen);
    for (const [name, { panel, tab }] of this.open) {
      if (name === chosen.name) continue;
      if (!panel.hidden) tab.hide();
      panel.hidden = true;
    }
    const entry = this.openTab(chosen);
    entry.panel.hidden = false;
    Promise.resolve(entry.tab.show()).catch((error) => this.fail(error));
  }

  drawTabs(fitting, chosen) {
    this.tabList.hidden = fitting.length < 2;
    const focused = this.tabList.contains(this.tabList.ownerDocument.activeElement);
    const buttons = fitting.map(({ name, title }) => {
      const isChosen = name === chosen.name;
      const controls = this.open.get(name)?.panel.id ?? null;
      return make("button", {
        type: "button", role: "tab", id: this.tabId(name), text: title, "aria-selected": String(isChosen),
        "aria-controls": isChosen ? controls : null, tabindex: isChosen ? "0" : "-1",
        onclick: () => this.state.set({ tab: name }, { push: true }),
      });
    });
    const scrolled = this.tabList.scrollLeft;
    fill(this.tabList, buttons);
    this.tabList.scrollLeft = scrolled;
    this.revealTab(buttons.find((button) => button.tabIndex === 0));
    if (focused) buttons.find((button) => button.tabIndex === 0).focus();
  }

  // On a narrow page the tabs scroll in their row; the chosen one is in view.
  revealTab(button) {
    const room = this.tabList.clientWidth - button.offsetWidth;
    const left = button.offsetLeft - this.tabList.offsetLeft;
    if (left < this.tabList.scrollLeft || left > this.tabList.scrollLeft + room - 40) this.tabList.scrollLeft = left - room / 2;
  }

  openTab({ name, Tab }) {
    if (!this.open.has(name)) {
      const panel = make(
        "div",
        { class: `tab ${name}`, id: uniqueId("tab"), role: "tabpanel", "aria-labelledby": this.tabId(name) },
      );
      this.body.append(panel);
      this.open.set(name, { panel, tab: new Tab(panel, this.context) });
      this.tabList.querySelector(`#${this.tabId(name)}`)?.setAttribute("aria-controls", panel.id);
    }
    return this.open.get(name);
  }

  tabId(name) {
    return `${this.prefix}-${name}`;
  }

  walkTabs(event) {
    const names = this.fitting().map(({ name }) => name);
    const at = names.findIndex((name) => this.tabId(name) === event.target.id);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const ends = { Home: 0, End: names.length - 1 };
    const to = ends[event.key] ?? (step && (at + step + names.length) % names.length);
    if (to === undefined || at < 0) return;
    event.preventDefault();
    this.state.set({ tab: names[to] });
  }
}
