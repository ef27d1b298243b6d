// Light, dark, or the system's theme. A classic script in <head>: the theme is set before the first paint.
(() => {
  const choices = ["auto", "light", "dark"];
  const names = {auto: "Theme: system", light: "Theme: light", dark: "Theme: dark"};
  let choice = "auto";
  try {
    choice = localStorage.getItem("fk-theme") || "auto";  // refused where the page is a file or storage is off
  } catch {                                               /* the system's theme then */
  }

  function apply() {
    if (choice === "auto")
      document.documentElement.removeAttribute("data-theme");
    else
      document.documentElement.setAttribute("data-theme", choice);
    const button = document.getElementById("theme");
    if (!button) return;
    button.textContent = {auto: "◐", light: "☀", dark: "☾"}[choice];
    button.title = names[choice];
    button.setAttribute("aria-label", names[choice] + "; press to change");
  }

  apply();
  addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      choice = choices[(choices.indexOf(choice) + 1) % choices.length];
      try {
        localStorage.setItem("fk-theme", choice);
      } catch { /* lasts as long as this page */
      }
      apply();
      dispatchEvent(new Event("fk-theme"));
    });
  });
})();
