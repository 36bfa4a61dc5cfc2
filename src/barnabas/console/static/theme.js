// Runs before the page is painted: a theme that was chosen by hand wins over the system's.
(() => {
  "use strict";
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage may be forbidden */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
