/** The trace that all tabs show: requested while the sentence is typed, one request at a time. */

import { PanelRequests } from "./requests.js";

const GAP = 200; // milliseconds between two requests while somebody types; a key after a pause is sent at once
const ENOUGH = 5000; // milliseconds after which an unanswered request is given up when a newer one waits
const FIELDS = ["model", "text", "target", "ablate", "interventions", "snapshot"];

/**
 * The current trace, who hears of it, and the requests for it.
 *
 * One request is under way and the newest other one waits, so that a typed sentence does not queue a trace for
 * each letter at the server. Another model aborts the request under way.
 */
export class Tracing {
  /**
   * @param {any} source
   * @param {any} state
   * @param {object} reports
   * @param {(error: Error | null) => void} [reports.onerror]
   * @param {(isBusy: boolean) => void} [reports.onbusy]
   * @param {() => boolean} [reports.isReady] whether the model can answer; one that is not trained is not asked
   */
  constructor(source, state, { onerror = () => {}, onbusy = () => {}, isReady = () => true } = {}) {
    this.source = source;
    this.state = state;
    this.onbusy = onbusy;
    this.isReady = isReady;
    this.current = null;
    this.request = null;
    this.listeners = new Set();
    this.waiting = null;
    this.underWay = null;
    this.sentAt = -Infinity;
    const card = { fail: (error) => (error && this.waiting ? null : onerror(error)), blank: () => {} };
    this.requests = new PanelRequests({ state, source, trace: null }, { name: "trace", cards: [card] });
    state.on(["model"], () => this.forget());
  }

  /** What a request beside the current trace has in common with it: the model and how it is changed. */
  get conditions() {
    const { model, ablate, interventions, snapshot } = this.request;
    return { model, ablate, interventions, snapshot };
  }

  /** Hear of each new trace; returns what ends it. */
  on(callback) {
    this.listeners.add(callback);
    return () => this.listeners.delete(callback);
  }

  /** Ask for a trace, as soon as the one under way has come. */
  ask(request) {
    this.waiting = request;
    this.onbusy(true);
    this.sendWaiting();
  }

  /** Ask whenever the model, the text or what is switched off changes. */
  follow() {
    return this.state.on(FIELDS, (changed) => {
      const isTyping = changed.size === 1 && changed.has("text");
      if (!isTyping) this.askFor();
      else this.callOff ??= this.source.work.after(this.sentAt + GAP - performance.now(), () => this.askFor());
    });
  }

  /** Ask for what the state describes, if there is a text. */
  askFor() {
    this.callOff?.();
    this.callOff = null;
    const request = requestOf(this);
    if (request && this.isReady()) this.ask(request);
  }

  /** Forget the sentence, as when another model is chosen. */
  forget() {
    this.callOff?.();
    this.callOff = null;
    this.waiting = null;
    this.underWay = null;
    this.requests.stop();
    this.onbusy(false);
    this.current = null;
  }

  sendWaiting() {
    clearTimeout(this.patience);
    if (!this.waiting) return;
    const left = this.underWay ? this.sentAt + ENOUGH - performance.now() : 0;
    if (left > 0) this.patience = setTimeout(() => this.sendWaiting(), left);
    else this.send();
  }

  async send() {
    const request = this.waiting;
    this.waiting = null;
    this.underWay = request;
    this.sentAt = performance.now();
    await this.requests.run((ask) => ask.trace(request), (trace) => this.take(trace, request));
    if (this.underWay !== request) return;
    this.underWay = null;
    this.onbusy(this.waiting !== null);
    this.sendWaiting();
  }

  take(trace, request) {
    this.current = trace;
    this.request = request;
    for (const callback of [...this.listeners]) callback(trace);
  }
}

/** What the state asks of the model; where the field is empty, of the last sentence; null where there was none. */
function requestOf({ state, current }) {
  const typed = state.get("text");
  const text = typed?.trim() ? typed : current?.text;
  if (!state.get("model") || !text) return null;
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

/** The same without interventions. */
export function requestBefore(tracing) {
  return { ...requestOf(tracing), interventions: [] };
}

/** The kind of attention by its name. */
export function kindOf(trace, name) {
  return trace.kinds.find((kind) => kind.name === name);
}

/** What stands beside the rows or columns of a kind: its words, or its tokens. */
export function partsOf(trace, side, words) {
  return words ? trace.sides[side].words : trace.sides[side].tokens;
}
