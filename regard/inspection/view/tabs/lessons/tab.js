/** Tab "Lessons": the lectures' claims with their verdicts, each with its experiment, which can be run here. */

import { fill, make } from "../../core/dom.js";
import { PanelRequests } from "../../core/requests.js";
import { writeAddress } from "../../core/state.js";
import { TabBase } from "../../core/tab.js";
import { panel } from "../../parts/panel.js";
import { LessonPage } from "./page.js";
import { LessonRun } from "./running.js";

const ABOUT =
  "Each lesson turns a claim of the lectures into an experiment. Its threshold is fixed before the run, and a control must have the opposite verdict.";

/** The list, or the page of the lesson that is chosen. */
class LessonsTab extends TabBase {
  constructor(root, context) {
    super(context);
    this.hasTab = context.hasTab;
    this.lessons = [];
    this.way = make("nav", { class: "lesson-way", "aria-label": "Lessons" });
    this.list = panel({ title: "Lessons", class: "lesson-list" });
    this.page = new LessonPage(this);
    this.run = new LessonRun(context, { onfinish: () => this.refresh() });
    this.room = make("div", { class: "lesson" }, this.way, this.page.build(this.run.card));
    root.append(this.list.element, this.room);
    this.listing = new PanelRequests(context, { name: "lessons", cards: [this.list], subject: () => null });
    this.reading = new PanelRequests(context, { name: "lesson", cards: this.page.cards, subject: () => this.name });
    this.state.on(["lesson"], () => this.isShown && this.refresh());
  }

  /** The lesson that is chosen, or null. */
  get name() {
    return this.state.get("lesson");
  }

  async show() {
    this.isShown = true;
    await this.refresh();
  }

  hide() {
    this.isShown = false;
    for (const requests of [this.listing, this.reading, this.run]) requests.stop();
  }

  async refresh() {
    const { name } = this;
    this.list.element.hidden = !!name;
    this.room.hidden = !name;
    if (!name) this.run.stop();
    await Promise.all([this.loadList(), name && this.loadPage(name)]);
  }

  loadList() {
    return this.listing.run((ask) => ask.lessons(), ({ lessons }) => {
      this.lessons = lessons;
      this.drawList();
      this.drawWay();
    });
  }

  async loadPage(name) {
    const isDrawn = await this.reading.run((ask) => ask.lesson(name), (runs) => this.page.show(name, runs));
    if (isDrawn) await this.run.show(name, this.page.expected);
  }

  drawList() {
    const rows = this.lessons.map(({ name, claim, words, holds }) => make(
      "li",
      {},
      make(
        "a",
        { class: "lesson-link", href: this.addressOf({ lesson: name }) },
        make("span", { class: "lesson-name", text: name }),
        make("span", { class: "lesson-claim", text: claim }),
        make("span", { class: `lesson-words ${holds ? "holds" : "fails"}`, text: words }),
      ),
    ));
    fill(this.list.body, make("p", { class: "sentence-of", text: ABOUT }), make("ul", {}, rows));
  }

  /** The way back to the list and to the lessons before and after. */
  drawWay() {
    const at = this.lessons.findIndex(({ name }) => name === this.name);
    const step = (lesson, words) => lesson && make("a", { href: this.addressOf({ lesson: lesson.name }), text: words(lesson.name) });
    fill(
      this.way,
      make("a", { href: this.addressOf({ lesson: null }), text: "All lessons" }),
      at > 0 && step(this.lessons[at - 1], (name) => `← ${name}`),
      at >= 0 && step(this.lessons[at + 1], (name) => `${name} →`),
    );
  }

  /** The address of this page with some values replaced; null takes one away. */
  addressOf(values) {
    const all = Object.entries({ ...this.state.values, ...values }).filter(([, value]) => value !== null);
    return writeAddress(Object.fromEntries(all)) || "#";
  }
}

/** @type {import("../../core/tab.js").TabEntry} */
export const LESSONS = {
  name: "lessons",
  title: "Lessons",
  needs: ["lessons"],
  fits: () => true,
  Tab: LessonsTab,
};
