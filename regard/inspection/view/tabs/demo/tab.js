/** The demo model where nobody has trained it yet: a button that does, and how far it has come. */

import { make } from "../../core/dom.js";
import { Polling } from "../../core/polling.js";
import { PanelRequests } from "../../core/requests.js";
import { inWords, jobControls } from "../../parts/job.js";
import { panel } from "../../parts/panel.js";
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
    this.job = jobControls({
      begin: "Train it now",
      cancel: "Cancel the training",
      onbegin: () => this.begin(),
      oncancel: () => this.cancel(),
      label: "How far the training has come",
    });
    this.room = make("div", { class: "demo-curve", hidden: true });
    this.curve = new LossCurve(this.room);
    this.card = panel({ title: "A model that is not trained yet", class: "demo-panel job" });
    this.card.body.append(this.about, ...this.job.elements, this.room);
    this.requests = new PanelRequests(context, { name: "demo", cards: [this.card], subject: () => null });
    this.polling = new Polling(() => this.look());
    root.append(this.card.element);
  }

  /** Look how far it is, and go on looking while it trains and the page is seen. */
  async show() {
    await this.polling.start();
  }

  hide() {
    this.polling.stop();
    this.requests.stop();
  }

  begin() {
    return this.act((ask, name) => ask.trainDemo(name), "The training begins.");
  }

  cancel() {
    return this.act((ask, name) => ask.cancelDemo(name), "The training is cancelled.");
  }

  async act(request, told) {
    this.polling.rest();
    const { name } = this.model();
    const isDone = await this.requests.run((ask) => request(ask, name), () => this.notify.confirm(told));
    if (isDone) await this.polling.now();
    else this.polling.after(LONG);
  }

  async look() {
    const { name } = this.model();
    const load = async (ask) => {
      const demo = await ask.demo(name);
      // Before the first step there is no curve.
      const progress = demo.state === "learning" ? await ask.progress(name).catch(() => null) : null;
      return { demo, progress };
    };
    const isDrawn = await this.requests.run(load, ({ demo, progress }) => this.draw(name, demo, progress));
    if (!isDrawn) this.polling.after(LONG);
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
    const untrained = demo.error ? `The training stopped: ${demo.error}` : "It takes some minutes of this machine's time.";
    this.job.show({
      isRunning: isLearning,
      share: demo.steps ? demo.step / demo.steps : 0,
      words: isLearning ? progressOf(demo) : untrained,
    });
    if (isLearning) this.polling.after(PAUSE);
  }

  // Where the list of models still calls it untrained, it is read again after a while and not at once.
  finish(name) {
    if (performance.now() - this.reloadedAt < LONG) return this.polling.after(LONG);
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

/** @type {import("../../core/tab.js").TabEntry} */
export const DEMO = {
  name: "demo",
  title: "Demo",
  needs: [],
  fits: (model) => !isReady(model),
  Tab: DemoPanel,
};
