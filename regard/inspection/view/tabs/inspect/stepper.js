/**
 * One cell in the six steps of the lectures, each of which opens to its formulas: digits, a sentence, and a tick
 * where a formula's value equals the model's own number.
 */

import { make, fill, adjust, unseen } from "../../core/dom.js";
import { Cell, lineOf, pictureOf } from "./step_pictures.js";
import { formula } from "../../parts/formula.js";

/** The six steps: the formulas of each, and the one whose digits stand for it when it is folded. */
export const SIX_STEPS = [
  { title: "Make query, key and value", main: "query", names: ["input", "normed", "query", "keys", "values"] },
  { title: "Score", main: "scores", names: ["products", "scores"] },
  { title: "Divide by √dₖ", main: "scaled", names: ["scaled"] },
  { title: "Softmax", main: "weights", names: ["masked", "exponentials", "sum", "weights"] },
  { title: "Weight the values", main: "weighted", names: ["weighted"] },
  {
    title: "Sum, and hand on",
    main: "head",
    names: ["head", "contribution", "contributions", "bias", "output", "residual", "norm"],
  },
];

/** The steps of one cell; `show(sheet, key)` with what `source.steps` gave. */
export class Stepper {
  constructor(root) {
    this.step = 0;
    this.at = "query";
    this.heading = make("p", { class: "stepper-heading" });
    this.back = make("button", { type: "button", text: "Back", onclick: () => this.go(-1) });
    this.next = make("button", { type: "button", text: "Next", onclick: () => this.go(1) });
    this.count = make("span", { class: "soft", "aria-live": "polite" });
    this.agreement = make("span", { class: "agreement" });
    this.list = make("ol", { class: "steps" });
    const controls = make("div", { class: "stepper-controls" }, this.back, this.next, this.count, this.agreement);
    root.append(controls, this.list);
  }

  /** Show a cell; what is open stays open. */
  show(sheet, key) {
    this.cell = new Cell(sheet, key);
    this.steps = sheet.meta.steps;
    const compared = this.steps.filter(({ agrees }) => agrees !== null);
    const equal = compared.filter(({ agrees }) => agrees).length;
    adjust(this.agreement, { text: `${equal} of ${compared.length} equal the model` });
    this.agreement.classList.toggle("is-wrong", equal < compared.length);
    this.draw();
  }

  /** Every number of every step, a line each: the step, which key or head where there are several, and its place. */
  table() {
    const rows = this.steps.flatMap(({ name, formula: written }) => {
      const { shape, data } = this.cell.arrays[name];
      const width = shape.at(-1) ?? 1;
      const isMatrix = shape.length === 2;
      return Array.from(
        data,
        (value, at) => [name, written, isMatrix ? Math.floor(at / width) : "", isMatrix ? at % width : at, value],
      );
    });
    return { columns: ["step", "formula", "row", "number", "value"], rows };
  }

  /** The numbers of every step as they came. */
  get arrays() {
    if (!this.steps?.length) throw new Error("There are no steps of this cell to save; choose another cell.");
    return this.cell.arrays;
  }

  go(by) {
    this.openStep(this.step + by);
  }

  /** Open one of the six steps, with the formula that it is about; null folds all of them. */
  openStep(step) {
    this.step = step;
    this.at = step === null ? null : SIX_STEPS[step].main;
    this.redraw(`.group-open[data-step="${step}"]`);
  }

  open(name) {
    this.at = this.at === name ? null : name;
    this.redraw(`[data-step="${name}"] > .step-open`);
  }

  redraw(focus) {
    const had = this.list.contains(this.list.ownerDocument.activeElement);
    this.draw();
    if (had) this.list.querySelector(focus)?.focus();
  }

  draw() {
    fill(this.list, SIX_STEPS.map((step, place) => this.group(step, place)));
    const last = SIX_STEPS.length - 1;
    adjust(this.back, { disabled: !this.step });
    adjust(this.next, { disabled: this.step === last });
    this.count.textContent = this.step === null ? "Six steps" : `Step ${this.step + 1} of ${last + 1}`;
  }

  group({ title, main, names }, place) {
    const formulas = names.map((name) => this.steps.find((step) => step.name === name)).filter(Boolean);
    const isOpen = place === this.step;
    const opening = {
      type: "button",
      class: "group-open",
      "data-step": place,
      "aria-expanded": String(isOpen),
      onclick: () => this.openStep(isOpen ? null : place),
    };
    const button = make(
      "button",
      opening,
      make("span", { class: "group-title", text: title }),
      make("span", { class: "step-line", text: lineOf(main, this.cell) }),
    );
    const list = isOpen && make("ol", { class: "formulas" }, formulas.map((step) => this.item(step)));
    return make("li", { class: isOpen ? "step-group is-open" : "step-group" }, button, tickOfAll(formulas), list);
  }

  item(step) {
    const isOpen = step.name === this.at;
    const line = make("span", { class: "step-line", text: lineOf(step.name, this.cell) });
    const opening = {
      type: "button",
      class: "step-open",
      "aria-expanded": String(isOpen),
      onclick: () => this.open(step.name),
    };
    const button = make("button", opening, make("span", { class: "step-formula" }, formula(step.formula)), line);
    const body = isOpen && make(
      "div",
      { class: "step-body" },
      make("p", { class: "step-saying", text: step.saying }),
      pictureOf(step.name, this.cell),
    );
    return make("li", { class: isOpen ? "step is-open" : "step", "data-step": step.name }, button, tick(step), body);
  }
}

// One tick for the formulas of a step: wrong where any is, none where none could be compared.
function tickOfAll(formulas) {
  const compared = formulas.filter(({ agrees }) => agrees !== null && agrees !== undefined);
  return tick(compared.find(({ agrees }) => !agrees) ?? compared[0] ?? { agrees: null });
}

function tick({ agrees, deviation }) {
  if (agrees === null || agrees === undefined) return make("span", { class: "tick none" });
  if (agrees) return make(
    "span",
    { class: "tick" },
    make("span", { "aria-hidden": "true", text: "✓" }),
    unseen("equals the model’s number"),
  );
  return make(
    "span",
    { class: "tick wrong" },
    make("span", { "aria-hidden": "true", text: "≠" }),
    unseen(`differs from the model’s number by ${deviation}`),
  );
}
