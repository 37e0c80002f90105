// Light, dark, or as the system says: before anything is drawn, so that nothing flashes.
"use strict";
try {
  const chosen = localStorage.getItem("recalld-console-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows what the system says.
}
