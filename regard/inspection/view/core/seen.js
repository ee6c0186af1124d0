/** Work for what can be seen: a panel below the fold asks the model for nothing until a person comes to it. */

const NEAR = "320px"; // of the edge, so that it is there when it comes into view

/** The same work, done while the element is in view; of what was asked meanwhile, only the newest. */
export function whenSeen(element, work) {
  let waiting = null;
  let isSeen = false;
  const observer = new IntersectionObserver((entries) => {
    isSeen = entries.at(-1).isIntersecting;
    if (!isSeen || !waiting) return;
    const given = waiting;
    waiting = null;
    work(...given);
  }, { rootMargin: NEAR });
  observer.observe(element);
  return (...given) => {
    if (isSeen) work(...given);
    else waiting = given;
  };
}
