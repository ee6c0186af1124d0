/** The one sentence that all tabs look at: asked for as it is typed, the newest answer wins. */

const PAUSE = 60; // milliseconds without a keystroke before the model is asked
const PATIENCE = 300; // milliseconds after which a second request goes out beside one that is not answered
const ENOUGH = 5000; // milliseconds after which an unanswered request is given up when a newer one waits
const FIELDS = ["model", "text", "target", "ablate", "interventions", "snapshot"];

/**
 * The current trace, who hears of it, and the asking.
 *
 * A server works through all that it was sent, so while an answer is awaited only the newest request waits, and
 * at most two are on their way. An answer is taken unless a newer one was.
 */
export class Tracing {
  /**
   * @param {any} source
   * @param {{ onerror?: (error: Error | null) => void, onbusy?: (isBusy: boolean) => void }} reports
   */
  constructor(source, { onerror = () => {}, onbusy = () => {} } = {}) {
    this.source = source;
    this.onerror = onerror;
    this.onbusy = onbusy;
    this.current = null;
    this.request = null;
    this.listeners = new Set();
    this.asked = 0;
    this.taken = 0;
    this.sent = [];
    this.waiting = null;
  }

  /** Hear of each new trace; returns what ends it. */
  on(callback) {
    this.listeners.add(callback);
    return () => this.listeners.delete(callback);
  }

  /** Ask for a trace: it becomes the current one unless a newer one is; null where it never does. */
  ask(request) {
    this.waiting?.done(null);
    return new Promise((done) => {
      this.waiting = { request, done, number: ++this.asked };
      this.onbusy(true);
      this.sendWaiting();
    });
  }

  /** Ask whenever the model, the text or what is switched off changes. */
  follow(state) {
    return state.on(FIELDS, (changed) => {
      this.callOff?.();
      const isTyping = changed.size === 1 && changed.has("text");
      this.callOff = this.source.work.after(isTyping ? PAUSE : 0, () => this.askFor(state));
    });
  }

  /** Ask for what the state describes, if there is a text. */
  askFor(state) {
    this.callOff?.();
    const request = requestOf(state);
    return request ? this.ask(request) : Promise.resolve(null);
  }

  /** Forget the sentence, as when another model is chosen. */
  forget() {
    this.callOff?.();
    this.waiting?.done(null);
    this.waiting = null;
    this.taken = this.asked;
    this.current = null;
  }

  // Send what waits, now or as soon as there is room for it.
  sendWaiting() {
    clearTimeout(this.patience);
    if (!this.waiting) return;
    const [oldest] = this.sent;
    const limit = this.sent.length > 1 ? ENOUGH : PATIENCE;
    const left = oldest ? oldest.since + limit - performance.now() : 0;
    if (left > 0) {
      this.patience = setTimeout(() => this.sendWaiting(), left);
      return;
    }
    if (this.sent.length > 1) oldest.stop.abort();
    const asked = { ...this.waiting, since: performance.now(), stop: new AbortController() };
    this.waiting = null;
    this.sent.push(asked);
    this.send(asked);
  }

  async send(asked) {
    try {
      const trace = await this.source.trace(asked.request, asked.stop.signal);
      asked.done(asked.number > this.taken ? this.take(trace, asked) : null);
    } catch (error) {
      this.fail(error, asked);
      asked.done(null);
    }
    this.sent = this.sent.filter((each) => each !== asked);
    if (!this.sent.length && !this.waiting) this.onbusy(false);
    this.sendWaiting();
  }

  take(trace, { request, number }) {
    this.current = trace;
    this.request = request;
    this.taken = number;
    for (const older of this.sent) if (older.number < number) older.stop.abort();
    this.onerror(null);
    for (const callback of [...this.listeners]) callback(trace);
    return trace;
  }

  fail(error, { number }) {
    if (error.name !== "AbortError" && number > this.taken && number === this.asked) this.onerror(error);
  }
}

/** What the state asks of the model; null where there is nothing to read. */
export function requestOf(state) {
  const text = state.get("text");
  if (!state.get("model") || !text?.trim()) return null;
  return {
    model: state.get("model"),
    text,
    target: state.get("target"),
    target_ids: null,
    ablate: state.get("ablate"),
    interventions: state.get("interventions"),
    snapshot: state.get("snapshot"),
  };
}

/** The kind of attention by its name. */
export function kindOf(trace, name) {
  return trace.kinds.find((kind) => kind.name === name);
}

/** What stands beside the rows or columns of a kind: its words, or its tokens. */
export function partsOf(trace, side, words) {
  return words ? trace.sides[side].words : trace.sides[side].tokens;
}
