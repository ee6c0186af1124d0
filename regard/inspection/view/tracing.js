/** The one sentence that all tabs look at: asked for as it is typed, the newest answer wins. */

const PAUSE = 60; // milliseconds without a keystroke before the model is asked
const FIELDS = ["model", "text", "target", "off", "pulls", "snapshot"];

/** The current trace, who hears of it, and the asking. */
export class Tracing {
  constructor(source, { onerror = () => {}, onbusy = () => {} } = {}) {
    this.source = source;
    this.onerror = onerror;
    this.onbusy = onbusy;
    this.current = null;
    this.request = null;
    this.listeners = new Set();
    this.asked = 0;
    this.stop = null;
  }

  /** Hear of each new trace; returns what ends it. */
  on(callback) {
    this.listeners.add(callback);
    return () => this.listeners.delete(callback);
  }

  /** Ask for a trace: it becomes the current one unless a newer request was made meanwhile; then null. */
  async ask(request) {
    const number = ++this.asked;
    this.stop?.abort();
    this.stop = new AbortController();
    this.onbusy(true);
    try {
      const trace = await this.source.trace(request, this.stop.signal);
      return number === this.asked ? this.take(trace, request) : null;
    } catch (error) {
      if (number === this.asked) this.fail(error);
      return null;
    }
  }

  /** Ask whenever the model, the text or what is switched off changes. */
  follow(state) {
    return state.on(FIELDS, (changed) => {
      clearTimeout(this.timer);
      const isTyping = changed.size === 1 && changed.has("text");
      this.timer = setTimeout(() => this.askFor(state), isTyping ? PAUSE : 0);
    });
  }

  /** Ask for what the state describes, if there is a text. */
  askFor(state) {
    clearTimeout(this.timer);
    const request = requestOf(state);
    return request ? this.ask(request) : Promise.resolve(null);
  }

  /** Forget the sentence, as when another model is chosen. */
  forget() {
    this.asked += 1;
    this.stop?.abort();
    clearTimeout(this.timer);
    this.current = null;
  }

  take(trace, request) {
    this.current = trace;
    this.request = request;
    this.onbusy(false);
    this.onerror(null);
    for (const callback of [...this.listeners]) callback(trace);
    return trace;
  }

  fail(error) {
    this.onbusy(false);
    if (error.name !== "AbortError") this.onerror(error);
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
    off: state.get("off"),
    pulls: state.get("pulls"),
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
