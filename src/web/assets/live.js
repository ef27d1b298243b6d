// Polls the history's stamp during a run, and notifies the page when it changes.
import {forget, offline} from "./api.js";

const kPeriodMs = 2000;

export function follow(changed) {
  const sign = document.getElementById("live");
  if (offline) {
    sign.textContent = "offline file";
    return;
  }
  let stamp = null;
  let timer = 0;

  function show(on, text) {
    sign.className = `live ${on ? "on" : "off"}`;
    const label = document.createElement("span");
    label.textContent = text;
    sign.replaceChildren(label);
    sign.title = on ? "The page follows the history" : "The dashboard's server does not answer; start it again";
  }

  async function ask() {
    clearTimeout(timer);
    try {
      const answer = await (await fetch("/api/state", {cache: "no-store"})).json();
      show(true, "live");
      if (stamp !== null && answer.stamp !== stamp) {
        forget();
        changed();
      }
      stamp = answer.stamp;
    } catch {
      show(false, "no server");
    }
    if (!document.hidden) timer = setTimeout(ask, kPeriodMs);
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) ask();
  });
  ask();
}
