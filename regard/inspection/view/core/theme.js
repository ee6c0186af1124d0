/** Light or dark: as the system is set, until a person chooses; the choice is kept where the browser allows. */

import { make } from "./dom.js";
import { readPalette } from "./colour.js";

const KEPT = "regard-theme";

/** Keep the colours right in root, and give the button that changes them. */
export function themeSwitch(root) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const forced = matchMedia("(forced-colors: active)");
  const now = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");
  const button = make("button", { type: "button", class: "quiet theme" });
  const apply = () => {
    const other = now() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Use ${other} colours`);
    readPalette(root);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    keep(root.dataset.theme);
    apply();
  });
  const kept = recall();
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  dark.addEventListener("change", apply);
  forced.addEventListener("change", apply);
  apply();
  return button;
}

// Where storage is forbidden (a file, a private window), the choice lasts as long as the page.
function keep(theme) {
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    return;
  }
}

function recall() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
