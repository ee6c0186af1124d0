/** The field a sentence is typed into, bound to one name of the state; every tab may have one. */

import { make, fill, uniqueId } from "../core/dom.js";
import { segments } from "./panel.js";

const LONGEST = 20_000;
const MOST_HIGH = 132; // pixels; a longer text scrolls

/** A labelled field: sentenceField({state, name: "text", label, readOnly, hint}). */
export function sentenceField({ state, name = "text", label = "Your sentence", readOnly = false, hint = "" }) {
  const id = uniqueId("sentence");
  const field = growingField({ id, placeholder: hint, readOnly, value: state.get(name) ?? "" });
  field.addEventListener("input", () => state.set({ [name]: field.value }));
  state.on([name], () => {
    if (field.value !== (state.get(name) ?? "")) field.value = state.get(name) ?? "";
    field.grow();
  });
  return make("div", { class: "sentence-row" }, make("label", { for: id, text: label }), field);
}

/** A field as high as its text; `grow()` after its value was set. */
export function growingField(settings) {
  const field = make("textarea", {
    class: "sentence-field", rows: "1", maxlength: LONGEST, spellcheck: "false", autocomplete: "off",
    autocapitalize: "off", dir: "auto", ...settings,
  });
  field.grow = () => grow(field);
  field.addEventListener("input", field.grow);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) event.preventDefault(); // a sentence; shift makes a new line
  });
  new ResizeObserver(field.grow).observe(field);
  return field;
}

/** The row that begins every tab with a sentence: the field, always in the same place, and tools beside it. */
export function sentenceBar(field, ...tools) {
  return make("div", { class: "sentence-bar" }, field, make("div", { class: "sentence-tools" }, tools));
}

/** Whether tokens are shown as words or as the tokenizer's pieces: `words` of the state. */
export function unitSwitch(state) {
  return segments({
    label: "Tokens as",
    choices: [["words", "Words"], ["pieces", "Pieces"]],
    chosen: "words",
    onchoose: (unit) => state.set({ words: unit === "words" }),
  });
}

/** The model's sentences to begin with; show(most) whenever a tab is opened. A saved file has none. */
export class Examples {
  constructor({ state, source, model }) {
    this.state = state;
    this.source = source;
    this.model = model;
    this.element = make("div", { class: "examples-room" });
  }

  show(most = Infinity) {
    const examples = this.source.can("trace") ? this.model().examples.slice(0, most) : [];
    fill(this.element, examples.length > 0 && exampleList(this.state, examples));
  }
}

// A list to choose from that puts a sentence into the field.
function exampleList(state, examples) {
  const choice = make("select", { "aria-label": "Examples" });
  fill(
    choice,
    make("option", { value: "", text: "Examples" }),
    examples.map((text, place) => make("option", { value: place, text })),
  );
  choice.addEventListener("change", () => {
    if (choice.value !== "") state.set({ text: examples[choice.value], target: null, query: null, key: null }, { push: true });
    choice.value = "";
  });
  return make("div", { class: "examples" }, choice);
}

function grow(field) {
  field.style.setProperty("height", "auto");
  field.style.setProperty("height", `${Math.min(field.scrollHeight + 2, MOST_HIGH)}px`);
}
