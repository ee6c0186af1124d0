/**
 * The requests of the page's panels, under one rule: the latest request of a panel wins.
 *
 * A panel calls `requests.run(load, draw)`. This aborts what the panel asked before. `load` asks a source that
 * belongs to the run; `draw` gets what `load` returned, unless the run was superseded, or the model or the trace
 * changed meanwhile. An error becomes the panel's error line, which the next success clears. A picture of another
 * model is hidden as soon as the model changes.
 */

import { Work } from "./work.js";

/** Thrown where an answer is no longer wanted; never shown. */
export class Superseded extends Error {}

const UNBOUND = { panel: "page", signal: undefined, trace: null, sent: 0, check: () => {} };

/** What a live and a kept source share: answers are counted as work and delivered only while they are wanted. */
export class Source {
  constructor() {
    this.work = new Work();
    /** @type {Run | typeof UNBOUND} */
    this.run = UNBOUND;
  }

  /**
   * The same source with its answers bound to a run.
   *
   * @param {Run} run
   * @returns {any}
   */
  boundTo(run) {
    return Object.assign(Object.create(this), { run });
  }

  /** Wait for an answer, and throw Superseded where it is no longer wanted. */
  async deliver(answer) {
    const delivered = await this.work.during(answer);
    this.run.check();
    return delivered;
  }

  /** Wait so many milliseconds. */
  rest(pause) {
    return this.deliver(new Promise((done) => setTimeout(done, pause)));
  }
}

/** One attempt of a panel to load and draw something. */
class Run {
  constructor(panel, place) {
    this.panel = panel;
    this.place = place;
    const { model, trace, subject } = place();
    this.model = model;
    this.trace = trace;
    this.subject = subject;
    this.sent = 0;
    this.stopper = new AbortController();
  }

  get signal() {
    return this.stopper.signal;
  }

  /** Whether the page still shows the model and the trace that this run began with. */
  get isWanted() {
    const { model, subject } = this.place();
    return !this.signal.aborted && model === this.model && subject === this.subject;
  }

  check() {
    if (!this.isWanted) throw new Superseded();
  }
}

/** The requests of one panel. */
export class PanelRequests {
  /**
   * @param {any} context what every tab is given
   * @param {object} options
   * @param {string} options.name of the panel, sent with each request
   * @param {{element?: HTMLElement, fail: (error: Error | null) => void, blank: (isBlank: boolean) => void}[]} options.cards
   *   what is drawn into; the first one has the error line
   * @param {() => any} [options.subject] gives what the answers belong to; an answer for another subject is not drawn.
   *   By default this is the present trace.
   * @param {boolean} [options.keepsPicture] whether the last picture of the same model stays when a request fails
   * @param {boolean} [options.startsEmpty] whether the body of a card is hidden until the first answer is drawn
   */
  constructor(
    { state, source, trace: tracing },
    { name, cards, subject = null, keepsPicture = true, startsEmpty = true },
  ) {
    this.source = source;
    this.name = name;
    this.cards = cards;
    this.keepsPicture = keepsPicture;
    this.place = () => {
      const trace = tracing?.current?.trace ?? null;
      return { model: state.get("model"), trace, subject: subject ? subject() : trace };
    };
    /** @type {Run | null} */
    this.latest = null;
    this.drawn = null;
    for (const { element } of cards) element?.setAttribute("data-panel", name);
    if (startsEmpty) this.markNew(true);
    state.on(["model"], () => this.changeModel());
  }

  /**
   * Load and draw; whether it was drawn.
   *
   * @template Answer
   * @param {(ask: any) => Answer | Promise<Answer>} load
   * @param {(answer: Answer) => void} draw
   * @returns {Promise<boolean>}
   */
  run(load, draw) {
    this.stop();
    this.latest = new Run(this.name, this.place);
    return this.attempt(this.latest, load, draw);
  }

  /** Let nothing that is under way be drawn. */
  stop() {
    this.latest?.stopper.abort();
  }

  async attempt(run, load, draw) {
    try {
      const answer = await load(this.source.boundTo(run));
      run.check();
      this.markNew(false);
      draw(answer);
      this.succeed(run);
      return true;
    } catch (error) {
      if (run.isWanted && !(error instanceof Superseded)) this.fail(error);
      return false;
    }
  }

  succeed({ model }) {
    this.drawn = model;
    this.cards[0].fail(null);
    this.blank(false);
  }

  fail(error) {
    this.cards[0].fail(error);
    if (!this.keepsPicture) this.blank(true);
  }

  // A run of the new model may have begun before this is heard of.
  changeModel() {
    if (!this.latest?.isWanted) this.stop();
    if (this.drawn === null || this.drawn === this.place().model) return;
    this.cards[0].fail(null);
    this.blank(true);
  }

  // A file can be asked for before there is a picture; a control of the picture would act on nothing.
  markNew(isNew) {
    for (const { element } of this.cards) element?.classList.toggle("is-new", isNew);
  }

  blank(isBlank) {
    for (const card of this.cards) card.blank(isBlank);
  }
}
