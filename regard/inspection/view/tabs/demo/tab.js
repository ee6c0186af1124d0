/** The demo model where nobody has trained it yet: a button that does, and how far it has come. */

import { make, fill } from "../../core/dom.js";
import { button } from "../../parts/controls.js";
import { panel } from "../../parts/panel.js";
import { PanelRequests } from "../../core/requests.js";
import { LossCurve } from "../../pictures/curve.js";
import { isReady } from "../../core/tab.js";

const PAUSE = 1000;
const ABOUT =
  "It translates small English sentences into French, learns from sentences that a grammar makes, and is " +
  "trained on this machine. Nothing is fetched from anywhere. Meanwhile “By hand” works without a model.";
const UNTRAINED = "The demo model is not trained yet";
const IN_TRAINING = "The demo model is being trained";

/** The panel, a tab of its own; `reload` is called once the model can be used. */
class DemoPanel {
  constructor(root, context) {
    this.announce = context.announce;
    this.reload = context.reload;
    this.model = context.model;
    this.bar = make("progress", { max: 1, value: 0, "aria-label": "How far the training has come" });
    this.saying = make("p", { class: "sentence-of", "aria-live": "polite" });
    this.starter = button("Train it now", () => this.begin(), { class: "primary" });
    this.room = make("div", { class: "demo-curve", hidden: true });
    this.curve = new LossCurve(this.room);
    this.card = panel({ title: UNTRAINED, class: "demo-panel" });
    this.card.body.append(make("p", { text: ABOUT }), this.starter, this.bar, this.saying, this.room);
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

  async begin() {
    this.starter.disabled = true;
    const { name } = this.model();
    await this.requests.run((ask) => ask.trainDemo(name), () => this.announce("The training begins."));
    this.starter.disabled = false;
    await this.poll();
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
    const isDrawn = await this.requests.run(load, ({ demo, progress }) => this.draw(demo, progress));
    if (!isDrawn && this.isShown) this.timer = setTimeout(() => this.poll(), 5 * PAUSE);
  }

  draw(demo, progress) {
    const isLearning = demo.state === "learning";
    this.room.hidden = !progress || progress.steps.length < 2;
    if (!this.room.hidden) this.curve.show(progress, null);
    this.card.heading.textContent = isLearning ? IN_TRAINING : UNTRAINED;
    this.starter.hidden = isLearning || demo.state === "ready";
    this.bar.hidden = !isLearning;
    this.bar.value = demo.steps ? demo.step / demo.steps : 0;
    fill(
      this.saying,
      demo.error ? `The training stopped: ${demo.error}` : isLearning ? progressOf(demo) : "It takes some minutes of this machine's time.",
    );
    if (isLearning) this.timer = setTimeout(() => this.poll(), PAUSE);
    if (demo.state === "ready") {
      this.hide();
      this.announce("The demo model is trained.");
      this.reload();
    }
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
