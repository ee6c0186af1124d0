/** One lesson: claim, verdict, figure, experiment, control, numbers, and where else the idea can be seen. */

import { ideaColour, paint } from "../../core/colour.js";
import { fill, make, svg } from "../../core/dom.js";
import { UNCHANGED, readAddress, writeAddress } from "../../core/state.js";
import { choose, panel, segments } from "../../parts/panel.js";
import { offerSaves } from "../../saving/save.js";

const LABELS = { question: "Question", variable: "What changes", measurement: "Measured", rule: "Rule" };
const UNMEASURED = "This lesson has no stored result yet. Run it here.";

/** The cards of a lesson; `tab` is what every tab has, with hasTab. */
export class LessonPage {
  constructor(tab) {
    this.tab = tab;
    this.runs = { stored: null, latest: null };
    this.which = "stored";
    this.claim = panel({ title: "Claim", class: "lesson-page" });
    this.experiment = panel({ title: "The experiment" });
    this.numbers = panel({ title: "Numbers" });
    this.others = panel({ title: "See it elsewhere" });
    this.cards = [this.claim, this.experiment, this.numbers, this.others];
    this.switch = segments({
      label: "Result",
      choices: [["stored", "Stored result"], ["latest", "Your run"]],
      chosen: "stored",
      onchoose: (which) => this.draw(which),
    });
    this.verdict = make("div", {});
    this.figure = make("img", { class: "lesson-figure" });
    this.about = make("p", { class: "hint" });
    const room = make("div", { class: "figure-room", tabindex: "0", role: "group", "aria-label": "The figure" }, this.figure);
    this.claim.body.append(this.switch, this.verdict, room, this.about);
    paint(this.figure, () => this.drawFigure());
  }

  /** What is shown now. */
  get shown() {
    return this.runs[this.which];
  }

  /** How many seconds of one core a run took where the stored result was measured; null where there is none. */
  get expected() {
    return this.runs.stored?.seconds ?? null;
  }

  /** The cards in two columns; `running` is the card of the run. */
  build(running) {
    offerSaves(this.claim.foot, this.tab, {
      name: "lesson",
      whole: "the lesson",
      isThere: () => !!this.shown,
      svg: () => this.drawing(),
      table: () => this.shown.tables[0],
      address: (ending) => (ending === "html" ? this.tab.source.lessonAddress(this.name ?? "") : null),
    });
    return make(
      "div",
      { class: "side-by-side" },
      make("div", { class: "stacked" }, this.claim.element, this.numbers.element),
      make("div", { class: "stacked" }, running.element, this.experiment.element, this.others.element),
    );
  }

  /** Show a lesson: its latest run on this page if there is one, and else the stored one. */
  show(name, runs) {
    this.name = name;
    this.runs = runs;
    this.draw(runs.latest ? "latest" : "stored");
  }

  draw(which) {
    this.which = which;
    const { shown } = this;
    this.switch.hidden = !(this.runs.stored && this.runs.latest);
    choose(this.switch, which);
    for (const { element } of this.cards.slice(1)) element.hidden = !shown;
    this.claim.heading.textContent = shown ? `${shown.name}: ${shown.claim}` : this.name;
    this.about.textContent = shown ? shown.about : UNMEASURED;
    this.figure.hidden = !shown;
    fill(this.verdict, shown && verdictOf(shown));
    if (!shown) return;
    this.figure.alt = `${shown.claim} The claim ${shown.verdict.words}. ${shown.verdict.reason}`;
    this.drawFigure();
    fill(this.experiment.body, experimentOf(shown));
    fill(this.numbers.body, shown.tables.map(tableOf));
    this.drawOthers(shown.places);
  }

  // The figure has no colour of its own for ink; a drawing in an image does not inherit the page's.
  drawFigure() {
    if (!this.shown) return;
    this.figure.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(inInk(this.shown.figure))}`;
  }

  /** The figure on the page's ground, for a file. */
  drawing() {
    const read = new DOMParser().parseFromString(inInk(this.shown.figure), "image/svg+xml").documentElement;
    read.prepend(svg("rect", { width: "100%", height: "100%", fill: ideaColour("card") }));
    return read;
  }

  /** Links to the tabs that the present model has, and commands. */
  drawOthers(places) {
    const { state, hasTab } = this.tab;
    const rows = places.flatMap(({ text, command, view }) => {
      const chosen = readAddress(view);
      const isThere = view && hasTab(chosen.tab);
      if (!isThere && !command) return [];
      const { model, text: sentence } = state.values;
      const address = writeAddress(present({ ...UNCHANGED, model, text: sentence, ...chosen }));
      return [make(
        "li",
        {},
        isThere ? make("a", { href: address, text }) : text,
        command && make("span", { class: "soft", text: isThere ? ", or " : ": " }),
        command && make("code", { text: command }),
      )];
    });
    this.others.element.hidden = !rows.length;
    fill(this.others.body, make("ul", { class: "lesson-places" }, rows));
  }
}

function verdictOf({ verdict, is_controlled: isControlled }) {
  return make(
    "p",
    { class: `lesson-verdict ${verdict.holds ? "holds" : "fails"}` },
    make("strong", { text: `The claim ${verdict.words}.` }),
    ` ${verdict.reason}`,
    !isControlled && make("span", { class: "lesson-doubt", text: " The control has the same verdict, so that this run decides nothing." }),
  );
}

function experimentOf({ text, control }) {
  const described = Object.entries(LABELS).flatMap(([name, label]) => [
    make("dt", { text: label }),
    make("dd", {}, withCode(text[name])),
  ]);
  return make(
    "dl",
    { class: "lesson-experiment" },
    described,
    make("dt", { text: "Control" }),
    make("dd", {}, withCode(text.control_words), ` The verdict is then: ${control.words}. ${control.reason}`),
  );
}

/** Cells as Python writes them; data-value has the number. */
function tableOf({ title, columns, rows, written }) {
  const cells = (row, at) => row.map((value, place) => {
    const text = written[at][place];
    if (place === 0) return make("th", { scope: "row", text });
    return make("td", { text, "data-value": typeof value === "number" ? value : null });
  });
  const table = make(
    "table",
    { class: "numbers aligned" },
    make("caption", { text: title }),
    make("thead", {}, make("tr", {}, columns.map((name) => make("th", { scope: "col", text: name })))),
    make("tbody", {}, rows.map((row, at) => make("tr", {}, cells(row, at)))),
  );
  return make("div", { class: "table-room", tabindex: "0", role: "group", "aria-label": title }, table);
}

/** Text with `names` as code. */
function withCode(text) {
  return text.split("`").map((part, place) => (place % 2 ? make("code", { text: part }) : part));
}

function inInk(figure) {
  return figure.replaceAll("currentColor", ideaColour("ink"));
}

function present(values) {
  const isThere = (value) => value !== null && value !== undefined && !(Array.isArray(value) && !value.length);
  return Object.fromEntries(Object.entries(values).filter(([, value]) => isThere(value)));
}
