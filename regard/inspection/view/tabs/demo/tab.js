/** The demo model where nobody has trained it yet: a button that does, and how far it has come. */

import { make } from "../../core/dom.js";
import { button } from "../../parts/controls.js";
import { panel } from "../../parts/panel.js";
import { PanelRequests } from "../../core/requests.js";
import { LossCurve } from "../../pictures/curve.js";
import { isReady } from "../../core/tab.js";

const PAUSE = 1000; // milliseconds between two looks at the training
const LONG = 5 * PAUSE; // and after an error
const ABOUT = {
  demo: "It translates small English sentences into French.",
  "demo-reverse": "It translates small French sentences into English.",
  "demo-language-model": "It continues small English sentences.",
};
const LEARNS =
  "It learns from sentences that a grammar makes, and is trained on this machine. Nothing is fetched from anywhere. " +
  "Meanwhile “By hand” works without a model.";

/** The panel, a tab of its own; `reload` is called once the model can be used. */
class DemoPanel {
  constructor(root, context) {
    this.notify = context.notify;
    this.reload = context.reload;
    this.model = context.model;
    this.reloadedAt = -Infinity;
    this.about = make("p", {});
    this.bar = make("progress", { max: 1, value: 0, "aria-label": "How far the training has come" });
    this.saying = make("p", { class: "sentence-of", "aria-live": "polite" });
    this.starter = button("Train it now", () => this.begin(), { class: "primary", hidden: true });
    this.canceller = button("Cancel the training", () => this.cancel(), { hidden: true });
    this.room = make("div", { class: "demo-curve", hidden: true });
    this.curve = new LossCurve(this.room);
    this.card = panel({ title: "A model that is not trained yet", class: "demo-panel" });
    this.card.body.append(this.about, this.starter, this.bar, this.saying, this.canceller, this.room);
    this.requests = new PanelRequests(context, { name: "demo", cards: [this.card], subject: () => null });
    document.addEventListener("visibilitychange", () => this.isShown && this.poll());
    root.append(this.card.element);
  }

  /** Look how far it is, and go on looking while it trains and the page is seen. */
  async show() {
    this.isShown = true;
    await this.poll();
  }

  hide() {
    this.isShown = false;
    clearTimeout(this.timer);
    this.requests.stop();
  }

  begin() {
    return this.act((ask, name) => ask.trainDemo(name), "The training begins.");
  }

  cancel() {
    return this.act((ask, name) => ask.cancelDemo(name), "The training is cancelled.");
  }

  async act(request, told) {
    clearTimeout(this.timer);
    const { name } = this.model();
    const isDone = await this.requests.run((ask) => request(ask, name), () => this.notify.confirm(told));
    if (isDone) await this.poll();
    else this.pollAfter(LONG);
  }

  pollAfter(pause) {
    clearTimeout(this.timer);
    if (this.isShown) this.timer = setTimeout(() => this.poll(), pause);
  }

  async poll() {
    clearTimeout(this.timer);
    if (!this.isShown || document.hidden) return;
    const { name } = this.model();
    const load = async (ask) => {
      const demo = await ask.demo(name);
      // Before the first step there is no curve.
      const progress = demo.state === "learning" ? await ask.progress(name).catch(() => null) : null;
      return { demo, progress };
    };
    const isDrawn = await this.requests.run(load, ({ demo, progress }) => this.draw(name, demo, progress));
    if (!isDrawn) this.pollAfter(LONG);
  }

  draw(name, demo, progress) {
    if (demo.state === "ready") {
      this.finish(name);
      return;
    }
    const isLearning = demo.state === "learning";
    this.card.heading.textContent = `The model ${name} is ${isLearning ? "being trained" : "not trained yet"}`;
    this.about.textContent = `${ABOUT[name] ?? ""} ${LEARNS}`.trim();
    this.room.hidden = !progress || progress.steps.length < 2;
    if (!this.room.hidden) this.curve.show(progress, null);
    this.starter.hidden = isLearning;
    this.canceller.hidden = this.bar.hidden = !isLearning;
    this.bar.value = demo.steps ? demo.step / demo.steps : 0;
    const untrained = demo.error ? `The training stopped: ${demo.error}` : "It takes some minutes of this machine's time.";
    this.saying.textContent = isLearning ? progressOf(demo) : untrained;
    if (isLearning) this.pollAfter(PAUSE);
  }

  // Where the list of models still calls it untrained, it is read again after a while and not at once.
  finish(name) {
    if (performance.now() - this.reloadedAt < LONG) return this.pollAfter(LONG);
    this.reloadedAt = performance.now();
    this.hide();
    this.notify.confirm(`The model ${name} is trained.`);
    return this.reload();
  }
}

function progressOf({ step, steps, loss, seconds, left }) {
  const begun = `Step ${(step ?? 0).toLocaleString("en")} of ${(steps ?? 0).toLocaleString("en")}`;
  const parts = [steps ? begun : "The sentences to learn from are being made"];
  if (Number.isFinite(loss)) parts.push(`loss ${loss.toFixed(2)}`);
  if (Number.isFinite(seconds)) parts.push(`${inWords(seconds)} so far`);
  if (Number.isFinite(left)) parts.push(`about ${inWords(left)} to go`);
  return `${parts.join(", ")}.`;
}

function inWords(seconds) {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} seconds` : `${Math.round(seconds / 60)} minutes`;
}

/** @type {import("../../core/tab.js").TabEntry} */
export const DEMO = {
  name: "demo",
  title: "Demo",
  needs: [],
  fits: (model) => !isReady(model),
  Tab: DemoPanel,
};
