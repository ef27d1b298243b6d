// The search box: operators, models and runs whose words contain all that was typed. "/" goes there, arrows choose.
import {get} from "./api.js";
import {h} from "./dom.js";
import {ago, commit} from "./format.js";
import {modelLink, operatorLink, runLink} from "./router.js";
import {runText} from "./runs_table.js";

const kMost = 12;

export function startSearch() {
  const box = document.getElementById("search");
  const list = document.getElementById("found");
  let at = -1;
  let asked = 0;

  async function candidates() {
    const [overview, runs] = await Promise.all([get("/api/overview"), get("/api/runs")]);
    return [
      ...overview.best.map((b) => ({
                             kind: "operator",
                             title: b.op,
                             detail: `L${b.level}`,
                             href: operatorLink(b.op),
                             text: `operator ${b.op}`
                           })),
      ...[...new Set(overview.models.map((m) => m.model))].map(
          (m) => ({kind: "model", title: m, detail: "", href: modelLink(m), text: `model ${m}`})),
      ...runs.runs.map((r) => ({
                         kind: "run",
                         title: r.name || r.id,
                         detail: `${commit(r.commit, r.dirty)} · ${ago(r.time_ms)}`,
                         href: runLink(r.id),
                         text: runText(r)
                       })),
    ];
  }

  function close() {
    list.hidden = true;
    box.removeAttribute("aria-activedescendant");
    box.setAttribute("aria-expanded", "false");
    at = -1;
  }

  async function look() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return close();
    const mine = (asked += 1);
    const all = await candidates();
    if (mine !== asked) return;  // a later key was faster
    const hits = [];
    for (const c of all) {
      const hay = c.text.toLowerCase();
      if (words.every((w) => hay.includes(w))) hits.push(c);
      if (hits.length === kMost) break;
    }
    at = -1;
    box.removeAttribute("aria-activedescendant");
    list.replaceChildren(...hits.map(
        (c, i) =>
            h("li", {role: "option", id: `found-${i}`, "aria-selected": "false"},
              h("a", {href: c.href, tabindex: "-1"}, h("span", {class: "muted"}, c.kind), h("span", {}, c.title),
                h("span", {class: "muted small"}, c.detail)))));
    if (!hits.length) list.append(h("li", {class: "nothing"}, "Nothing has all of these words."));
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
  }

  function move(step) {
    const options = [...list.querySelectorAll("[role=option]")];
    if (!options.length) return;
    at = (at + step + options.length) % options.length;
    options.forEach((o, i) => o.setAttribute("aria-selected", String(i === at)));
    box.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({block: "nearest"});
  }

  box.addEventListener("input", look);
  box.addEventListener("focus", look);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      box.value = "";
      close();
      box.blur();
    } else if (event.key === "Enter") {
      const target = list.querySelectorAll("[role=option] a")[Math.max(0, at)];
      if (target && !list.hidden) {
        location.hash = target.getAttribute("href");
        box.blur();
        close();
      }
    }
  });
  list.addEventListener("click", () => {
    box.value = "";
    close();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
    event.preventDefault();
    box.focus();
  });
}
