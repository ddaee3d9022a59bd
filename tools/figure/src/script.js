"use strict";
// What is pointed at says what it is. Without this script browsers show the same titles, only later.
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll("svg title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const over = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !over;
  if (!over) return;
  tip.textContent = over.dataset.tip;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
});
const themes = ["as the system", "light", "dark"];
let theme = 0;
document.getElementById("theme").addEventListener("click", (event) => {
  theme = (theme + 1) % themes.length;
  if (theme) document.documentElement.dataset.theme = themes[theme];
  else delete document.documentElement.dataset.theme;
  event.target.textContent = "Theme: " + themes[theme];
});
document.documentElement.dataset.ready = "yes";
