// The theme: that of the system, or one that the user has chosen.

import { find, setText } from "./dom.js";

const THEMES = ["system", "light", "dark"];
const KEY = "linerate-theme";

function apply(theme) {
  document.documentElement.dataset.theme = theme;
  setText(find("theme"), `Theme: ${theme}`);
}

/** Calls `changed` when colours are others than before. */
export function start(changed) {
  let theme = THEMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "system";
  apply(theme);
  find("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem(KEY, theme);
    apply(theme);
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
