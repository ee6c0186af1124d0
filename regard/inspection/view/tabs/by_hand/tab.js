/** Tab "By hand": the lectures' small matrices in cells that can be changed; all of it is worked out here. */

import { make, fill, unseen } from "../../core/dom.js";
import { slider, tick, choice, button } from "../../parts/controls.js";
import { segments, choose } from "../../parts/panel.js";
import { startOf, workOut } from "./arithmetic.js";
import { EXAMPLES, findExample } from "./examples.js";
import { readCells, readRules, withCells, writeCells, writeRules } from "./problem.js";
import { editableGrid } from "./grid.js";
import { stepCards } from "./steps.js";
import { offerSaves } from "../../saving/save.js";
import { drawingOf, linesOf, matricesOf } from "./files.js";

const GIVEN = {
  x: ["", true],
  wq: ["query", false],
  wk: ["key", false],
  wv: ["value", false],
  scores: ["", true],
  weights: ["", true],
  v: ["value", true],
};

/** Attention by hand; needs no model. */
class ByHandTab {
  constructor(root, { state, notify }) {
    this.state = state;
    this.notify = notify;
    this.before = null;
    this.build(root);
    state.on(["example", "cells", "rules"], () => this.isShown && this.follow());
  }

  async show() {
    this.isShown = true;
    this.follow();
  }

  hide() {
    this.isShown = false;
  }

  build(root) {
    const presets = EXAMPLES.map(({ letter, title }) => [letter, `${letter}  ${title}`]);
    this.presets = segments({
      label: "Examples",
      choices: presets,
      chosen: "B",
      onchoose: (letter) => this.begin(letter),
    });
    this.story = make("p", { class: "story" });
    this.given = make("div", { class: "equation given" });
    this.faults = make("div", { class: "faults", role: "alert" });
    this.steps = make("div", { class: "working" });
    this.saves = make("div", {});
    fill(
      root,
      make("section", { class: "panel byhand-given" },
        make("h2", { text: "Attention by hand" }),
        make("p", {
          class: "lead",
          text: "Matrices small enough to check with a pencil. Change any number and every step follows. Nothing here needs a model.",
        }),
        this.presets,
        this.story,
        this.buildRules(),
        make("h3", { text: "Given" }),
        this.given,
        this.faults,
        make(
          "div",
          { class: "buttons" },
          button("Undo the changes", () => this.begin(this.example.letter)),
          this.saves,
        ),
      ),
      this.steps,
    );
    offerSaves(this.saves, this, {
      name: "attention by hand",
      svg: () => drawingOf(this.worked),
      table: () => linesOf(this.worked),
      arrays: () => matricesOf(this.worked),
    });
  }

  buildRules() {
    const change = (rule) => (value) => this.set({ rules: writeRules({ ...this.rules, [rule]: value }) });
    this.scale = tick({ label: "Divide by √dₖ", value: false, onchange: change("scale") });
    this.causal = tick({ label: "Causal mask", value: false, onchange: change("causal") });
    this.rounding = tick({
      label: "Round the weights early",
      value: false,
      onchange: (on) => change("decimals")(on ? 1 : null),
    });
    this.turned = tick({
      label: "A word is a column, as on the slides",
      value: false,
      onchange: change("turned"),
    });
    this.temperature = slider({
      label: "Softmax temperature",
      least: 0.05,
      most: 4,
      step: 0.05,
      value: 1,
      limit: 1000,
      onchange: change("temperature"),
    });
    this.decimals = slider({
      label: "Decimals kept",
      least: 0,
      most: 4,
      step: 1,
      value: 1,
      onchange: (n) => change("decimals")(Math.round(n)),
    });
    this.keyWidth = slider({
      label: "dₖ, the length of a key",
      least: 1,
      most: 128,
      step: 1,
      value: 64,
      limit: 100000,
      onchange: (n) => change("keyWidth")(Math.round(n)),
    });
    this.row = choice({
      label: "Written out for",
      options: [["0", "input 1"]],
      value: "0",
      onchange: (row) => change("row")(Number(row)),
    });
    const rules = [
      this.scale,
      this.causal,
      this.turned,
      this.rounding,
      this.decimals,
      this.temperature,
      this.keyWidth,
      this.row,
    ];
    return make(
      "div",
      { class: "rules", role: "group", "aria-label": "Rules" },
      rules.map((rule) => rule.root),
    );
  }

  /** Begin an example as the lectures have it. */
  begin(letter) {
    this.before = null;
    this.set({ example: letter, cells: null, rules: null });
    this.follow(true);
  }

  set(values) {
    this.state.set(values);
  }

  /** Read what the state says and show it; inputs are left alone while their matrices stay the same. */
  follow(anew = false) {
    const example = findExample(this.state.get("example"));
    const line = this.state.get("rules");
    this.rules = line ? readRules(line) : {
      ...example.rules,
      turned: false,
      keyWidth: example.keyWidth,
      row: 0,
    };
    const cells = readCells(this.state.get("cells"), example.given);
    const layout = `${example.letter} ${this.rules.turned}`;
    const isOther = anew || layout !== this.layout || !this.typed || writeCells(this.good()) !== writeCells(cells);
    if (isOther) this.lay(example, cells, layout);
    this.showRules(example);
    this.work();
  }

  lay(example, cells, layout) {
    if (example !== this.example) this.before = null;
    this.example = example;
    this.layout = layout;
    this.typed = { ...cells };
    choose(this.presets, example.letter);
    this.story.textContent = example.story;
    const { given } = withCells(example.given, cells);
    const grids = Object.entries(given).map(([name, values]) => {
      const [idea, named] = GIVEN[name];
      const columns = ["scores", "weights"].includes(name) ? example.words : null;
      const rows = !named ? null : name === "v" ? example.words : example.queryWords;
      const onedit = (i, j, typed) => this.edit(`${name}.${i}.${j}`, typed);
      return editableGrid(values, { name, idea, rows, columns, turned: this.rules.turned, onedit });
    });
    fill(this.given, grids);
  }

  showRules({ given, queryWords }) {
    const { rules } = this;
    for (const name of ["scale", "causal", "turned", "temperature"]) this[name].set(rules[name]);
    this.rounding.set(rules.decimals !== null);
    this.decimals.root.hidden = rules.decimals === null;
    this.decimals.set(rules.decimals ?? 1);
    this.keyWidth.root.hidden = "x" in given || !rules.scale;
    if (rules.keyWidth !== null) this.keyWidth.set(rules.keyWidth);
    this.causal.box.disabled = given.scores?.length === 1;
    this.row.offer(
      queryWords.map((word, number) => [String(number), word]),
      String(Math.min(rules.row, queryWords.length - 1)),
    );
  }

  edit(place, typed) {
    this.typed[place] = typed;
    const line = writeCells(this.good());
    if (line === this.state.get("cells")) this.work();
    else this.set({ cells: line }); // which is heard, and worked out
  }

  /** The typed cells that are numbers other than the example's. */
  good() {
    const { faults } = withCells(this.example.given, this.typed);
    const same = (place) => {
      const [name, row, column] = place.split(".");
      return Number(this.typed[place]) === this.example.given[name][row][column];
    };
    return Object.fromEntries(Object.entries(this.typed).filter(([place]) => !faults[place] && !same(place)));
  }

  work() {
    const { given, faults } = withCells(this.example.given, this.typed);
    this.mark(faults);
    const sentences = Object.values(faults);
    try {
      if (!sentences.length) this.draw(given);
    } catch (error) {
      sentences.push(error.message);
    }
    this.steps.classList.toggle("stale", sentences.length > 0);
    if (sentences.length) sentences.push("The steps below are those of the last numbers that could be worked out.");
    fill(this.faults, sentences.map((text) => make("p", { text })));
  }

  mark(faults) {
    for (const input of this.given.querySelectorAll("input")) {
      const isBad = input.dataset.place in faults;
      input.setAttribute("aria-invalid", String(isBad));
    }
  }

  draw(given) {
    const { example, rules } = this;
    const keyWidth = rules.keyWidth ?? example.keyWidth ?? (rules.scale && !("x" in given) ? 64 : null);
    const worked = workOut(given, rules, keyWidth);
    const isPlain = "x" in given && worked.divisor === 1;
    const written = {};
    const it = {
      worked, given, rules, written,
      before: this.before,
      words: example.words,
      queryWords: example.queryWords,
      start: startOf(given),
      turned: rules.turned,
      row: Math.min(rules.row, example.queryWords.length - 1),
      source: example.letter === "B" && this.isAsPrinted(),
      divided: isPlain ? workOut(given, { ...rules, scale: true }, keyWidth) : null,
    };
    fill(this.steps, unseen("The steps", "h2"), stepCards(it));
    this.before = written;
    this.worked = { ...worked, given, words: example.words, queryWords: example.queryWords };
  }

  // Only untouched, the example gives the digits that are printed elsewhere.
  isAsPrinted() {
    const { scale, causal, temperature, decimals } = this.rules;
    return !Object.keys(this.good()).length && !scale && !causal && temperature === 1 && decimals === 1;
  }
}

/** @type {import("../../core/tab.js").TabEntry} */
export const BY_HAND = {
  name: "byhand",
  title: "By hand",
  needs: [],
  fits: () => true,
  Tab: ByHandTab,
};
