/** Asking again and again how far something is, while a person sees it. */

/** Calls `look` when it starts, after each pause that was asked for, and when the page is seen again. */
export class Polling {
  constructor(look) {
    this.look = look;
    this.isOn = false;
    document.addEventListener("visibilitychange", () => this.now());
  }

  start() {
    this.isOn = true;
    return this.now();
  }

  stop() {
    this.isOn = false;
    this.rest();
  }

  /** Not before it is asked for again. */
  rest() {
    clearTimeout(this.timer);
  }

  after(pause) {
    this.rest();
    if (this.isOn) this.timer = setTimeout(() => this.now(), pause);
  }

  async now() {
    this.rest();
    if (this.isOn && !document.hidden) await this.look();
  }
}
