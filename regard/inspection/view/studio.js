/** The entry that the page, a notebook cell and a saved file call. */

import { State } from "./core/state.js";
import { LiveSource } from "./core/source.js";
import { KeptSource } from "./core/kept.js";
import { Tracing } from "./core/tracing.js";
import { isReady } from "./core/tab.js";
import { Shell } from "./shell.js";
import { themeSwitch } from "./core/theme.js";
import { Tour } from "./tour/tour.js";

/**
 * Build the view in `root` over a source.
 *
 * options: address (true): whether the page's address is ours; false in a notebook cell. values: what is chosen
 * at the start where the address says nothing. Returns {state, trace, end}.
 */
export function start(root, source, { address = true, values = {} } = {}) {
  root.classList.add("regard");
  const state = new State({ address });
  const unchosen = Object.entries(values).filter(([name]) => state.values[name] === undefined);
  state.set(Object.fromEntries(unchosen));
  /** @type {any} */
  const context = { state, source };
  const fail = (error) => shell.fail(error);
  const reports = {
    onerror: fail,
    onbusy: (isBusy) => shell.busy(isBusy),
    isReady: () => !!shell.model && isReady(shell.model),
  };
  context.trace = new Tracing(source, state, reports); // hears of another model before any tab does
  const shell = new Shell(root, context, { isPage: address });
  context.announce = (sentence) => shell.announce(sentence);
  context.notify = shell.toast;
  context.model = () => shell.model;
  context.hasTab = (name) => shell.fitting().some((tab) => tab.name === name);
  context.tour = new Tour(root, context);
  if (source.can("trace")) shell.tools.append(context.tour.opener);
  shell.tools.append(themeSwitch(root));
  source.work.on((isWaiting) => shell.wait(isWaiting));
  context.reload = () => source.work.during(begin(shell, context).catch(fail));
  context.reload();
  return { state, trace: context.trace, end: () => state.end() };
}

/** The view over a running studio. */
export function startLive(root, base = "/studio/api", options = {}) {
  return start(root, new LiveSource(base), options);
}

/** The view over what a file or a notebook holds; see kept.js for `data`. */
export function startKept(root, data, options = {}) {
  return start(root, new KeptSource(data), options);
}

async function begin(shell, { state, source, trace }) {
  const models = await source.models();
  if (!models.length) throw new Error("There is no model here; name one: regard studio MODEL.");
  const model = models.find(({ name }) => name === state.get("model")) ?? models[0];
  state.set({ model: model.name });
  if (!state.get("text")) state.set({ text: (await firstText(source, model)) ?? "" });
  shell.offer(models);
  trace.end?.();
  trace.end = trace.follow();
  trace.askFor();
}

async function firstText(source, model) {
  return source.can("trace") ? model.examples[0] : (await source.trace()).text;
}
