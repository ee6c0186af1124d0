/** Work that is asked for again and again: only the newest may show its answer, an error is a sentence. */

/**
 * new Turns(fail); run(work) calls work(isNewest) and hands what it throws to fail, once it is over;
 * over() waits for the newest.
 */
export class Turns {
  constructor(fail) {
    this.fail = fail;
    this.number = 0;
    this.hasFailed = false;
    this.newest = Promise.resolve();
  }

  /** Do it; an older piece of work that is still going on must look at isNewest() before it draws. */
  run(work) {
    this.newest = this.attempt(work);
    return this.newest;
  }

  /** Wait until nothing newer is under way. */
  async over() {
    let waited;
    while (waited !== this.newest) {
      waited = this.newest;
      await waited;
    }
  }

  async attempt(work) {
    const number = ++this.number;
    const isNewest = () => number === this.number;
    try {
      await work(isNewest);
      if (isNewest() && this.hasFailed) this.tell(null);
    } catch (error) {
      if (isNewest() && error.name !== "AbortError") this.tell(error);
    }
  }

  /** Let nothing that is under way draw any more. */
  stop() {
    this.number += 1;
  }

  tell(error) {
    this.hasFailed = error !== null;
    this.fail(error);
  }
}
