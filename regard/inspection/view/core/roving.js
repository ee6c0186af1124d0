/** One tab stop for many buttons: arrows go to the nearest one in their direction, Home and End to the ends. */

const AXES = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowDown: ["y", 1], ArrowUp: ["y", -1] };

/** Make the buttons of a container that match a selector one stop; the chosen one should have tabindex 0. */
export function rove(container, selector) {
  container.addEventListener("keydown", (event) => {
    const from = event.target.closest(selector);
    const buttons = [...container.querySelectorAll(selector)];
    const to = from && destination(event.key, from, buttons);
    if (!to) return;
    event.preventDefault();
    to.focus();
  });
  container.addEventListener("focusin", (event) => {
    const to = event.target.closest(selector);
    if (to) stopAt(container, selector, to);
  });
}

/** Let the tab key stop at this one of the buttons. */
export function stopAt(container, selector, chosen) {
  for (const button of container.querySelectorAll(selector)) button.tabIndex = button === chosen ? 0 : -1;
}

function destination(key, from, buttons) {
  if (key === "Home") return buttons[0];
  if (key === "End") return buttons.at(-1);
  if (!AXES[key]) return null;
  const [axis, sign] = AXES[key];
  const start = middle(from);
  const away = (button) => {
    const at = middle(button);
    const along = sign * (at[axis] - start[axis]);
    const aside = Math.abs(axis === "x" ? at.y - start.y : at.x - start.x);
    return along > 1 ? along + 4 * aside : Infinity; // straight ahead beats near
  };
  const nearest = buttons.reduce((best, button) => (away(button) < away(best) ? button : best), from);
  return nearest === from ? inOrder(axis, sign, from, buttons) : nearest;
}

// At the end of a line, the next line begins.
function inOrder(axis, sign, from, buttons) {
  return axis === "x" ? (buttons[buttons.indexOf(from) + sign] ?? null) : null;
}

function middle(element) {
  const box = element.getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
}
