/** One cell, step by step: formula, digits, a sentence, and a tick where the step equals the model's own number. */

import { make, fill, adjust, unseen } from "../../core/dom.js";
import { Cell, lineOf, pictureOf } from "./step_pictures.js";
import { formula } from "../../parts/formula.js";

/** The steps of one cell; `show(sheet, key)` with what `source.steps` gave. */
export class Stepper {
  constructor(root) {
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

  /** Show a cell; the open step stays open. */
  show(sheet, key) {
    this.cell = new Cell(sheet, key);
    this.steps = sheet.meta.steps;
    if (!this.steps.some(({ name }) => name === this.at)) this.at = this.steps[0].name;
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

  get place() {
    return this.steps.findIndex(({ name }) => name === this.at);
  }

  go(by) {
    const step = this.steps[this.place + by];
    if (step) this.open(step.name);
  }

  open(name) {
    const had = this.list.contains(this.list.ownerDocument.activeElement);
    this.at = name;
    this.draw();
    if (had) this.list.querySelector("[aria-expanded=true]")?.focus();
  }

  draw() {
    fill(this.list, this.steps.map((step) => this.item(step)));
    adjust(this.back, { disabled: this.place <= 0 });
    adjust(this.next, { disabled: this.place >= this.steps.length - 1 });
    this.count.textContent = `Step ${this.place + 1} of ${this.steps.length}`;
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
