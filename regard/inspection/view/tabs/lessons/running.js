/** A lesson run on this machine: what begins it, how far it is, what cancels it. */

import { Polling } from "../../core/polling.js";
import { PanelRequests } from "../../core/requests.js";
import { inWords, jobControls } from "../../parts/job.js";
import { panel } from "../../parts/panel.js";

const PAUSE = 1000; // milliseconds between two looks at a run
const LONG = 5 * PAUSE; // and after an error

/** The card of the run; onfinish is called when the run of the lesson that is shown has ended well. */
export class LessonRun {
  constructor(context, { onfinish }) {
    this.notify = context.notify;
    this.onfinish = onfinish;
    this.name = null;
    this.expected = null;
    this.isWatched = false;
    this.card = panel({ title: "Run it on this machine", class: "job" });
    this.job = jobControls({
      begin: "Run the experiment",
      cancel: "Cancel the run",
      onbegin: () => this.act((ask) => ask.runLesson(this.name)),
      oncancel: () => this.act((ask) => ask.cancelLesson()),
      label: "How far the run has come",
    });
    this.card.body.append(...this.job.elements);
    this.requests = new PanelRequests(context, { name: "lesson-run", cards: [this.card], subject: () => this.name });
    this.polling = new Polling(() => this.look());
  }

  /** Look at the run, and go on looking while there is one. */
  show(name, expected) {
    this.name = name;
    this.expected = expected;
    return this.polling.start();
  }

  stop() {
    this.polling.stop();
    this.requests.stop();
  }

  async act(request) {
    this.polling.rest();
    const isDone = await this.requests.run(request, (run) => this.draw(run));
    if (!isDone) this.polling.after(LONG);
  }

  async look() {
    const isDone = await this.requests.run((ask) => ask.lessonRun(), (run) => this.draw(run));
    if (!isDone) this.polling.after(LONG);
  }

  draw(run) {
    const isRunning = run.state === "running";
    const isOwn = run.lesson === this.name;
    const share = isOwn && this.expected > 2 && run.seconds < this.expected ? run.seconds / this.expected : null;
    this.job.show({ isRunning, share, words: this.sentence(run, isOwn) });
    if (isRunning) this.polling.after(PAUSE);
    if (this.isWatched && isOwn && run.state === "finished") this.finish();
    this.isWatched = isRunning && isOwn;
  }

  finish() {
    this.notify.confirm(`The lesson ${this.name} has run.`);
    this.onfinish();
  }

  sentence(run, isOwn) {
    if (run.state === "running") return isOwn ? this.progressOf(run) : `The lesson ${run.lesson} is running; one runs at a time.`;
    if (isOwn && run.state === "failed") return `The run stopped: ${run.error}`;
    if (isOwn && run.state === "cancelled") return "The run was cancelled.";
    return this.estimate();
  }

  progressOf({ line, seconds }) {
    const about = this.expected > 2 ? ` of up to ${inWords(this.expected)}` : "";
    return `${line ?? "starting"}: ${inWords(seconds)}${about}.`;
  }

  estimate() {
    if (this.expected === null) return "Experiment and control, with fixed seeds.";
    return `Experiment and control, with fixed seeds. The stored result took ${inWords(this.expected)} of one core.`;
  }
}
