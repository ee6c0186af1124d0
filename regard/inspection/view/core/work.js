/** What is under way: questions that are not answered, and pauses before one is asked. */

/** A count of it; whoever asked hears when the page becomes busy and when it rests. */
export class Work {
  constructor() {
    this.count = 0;
    this.isBusy = false;
    this.listeners = new Set();
  }

  /** Hear whether something is under way. */
  on(callback) {
    this.listeners.add(callback);
  }

  /** Something begins; call what this gives when it is over. */
  begin() {
    this.count += 1;
    this.tell();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.count -= 1;
      setTimeout(() => this.tell()); // first, whoever waited draws what came or asks for more
    };
  }

  /** What a promise comes to; until then something is under way. */
  async during(promise) {
    const end = this.begin();
    try {
      return await promise;
    } finally {
      end();
    }
  }

  /** Do something after so many milliseconds; call what this gives so that it is not done. */
  after(pause, act) {
    const end = this.begin();
    const timer = setTimeout(() => {
      end();
      act();
    }, pause);
    return () => {
      clearTimeout(timer);
      end();
    };
  }

  tell() {
    const isBusy = this.count > 0;
    if (isBusy === this.isBusy) return;
    this.isBusy = isBusy;
    for (const callback of this.listeners) callback(isBusy);
  }
}

/** Wait until nothing is under way in the part of the page around a node. */
export function settled(node) {
  const busy = node.closest("[aria-busy=true]");
  if (!busy) return Promise.resolve();
  return new Promise((done) => {
    const observer = new MutationObserver(() => {
      observer.disconnect();
      done(settled(node));
    });
    observer.observe(busy, { attributeFilter: ["aria-busy"] });
  });
}
