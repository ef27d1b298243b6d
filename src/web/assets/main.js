// Shows the page of the address, again when the address, the history or the theme changes.
import {offline, startRoute} from "./api.js";
import {dropCharts, redrawCharts} from "./chart.js";
import {append, card, empty, h} from "./dom.js";
import {follow} from "./live.js";
import {comparePage} from "./page_compare.js";
import {modelsPage, operatorsPage, runsPage} from "./page_lists.js";
import {modelPage} from "./page_model.js";
import {operatorPage} from "./page_operator.js";
import {overviewPage} from "./page_overview.js";
import {exportPage, reportPage} from "./page_report.js";
import {runPage} from "./page_run.js";
import {parse} from "./router.js";
import {startSearch} from "./search.js";
import {hideTip} from "./tip.js";

const pages = {
  overview: [overviewPage, "overview"],
  runs: [runsPage, "runs"],
  run: [runPage, "runs"],
  operators: [operatorsPage, "operators"],
  operator: [operatorPage, "operators"],
  models: [modelsPage, "models"],
  model: [modelPage, "models"],
  compare: [comparePage, "compare"],
  report: [reportPage, ""],
  export: [exportPage, ""],
};

const main = document.getElementById("main");
let turn = 0;
let shownPath = null;

async function show({keep = false} = {}) {
  const mine = (turn += 1);
  const route = parse();
  const [page, tab] = pages[route.page] || [notFound, ""];
  for (const a of document.querySelectorAll("[data-tab]")) {
    if (a.dataset.tab === tab)
      a.setAttribute("aria-current", "page");
    else
      a.removeAttribute("aria-current");
  }
  hideTip();
  let content;
  try {
    content = await Promise.all([await page(route)].flat(Infinity));
  } catch (error) {
    content =
        [card("This page cannot be shown", {alarm: true}, empty(error.message, "The other pages may still work."))];
  }
  if (mine !== turn) return;  // the user has moved on to another page
  const path = [route.page, ...route.args].join("/");
  const fresh = path !== shownPath;
  const focus = keep ? document.activeElement?.getAttribute("aria-label") : null;
  const typed =
      keep && (document.activeElement?.matches("main input[type=search]") || main.querySelector(".note-form"));
  if (typed) return void setTimeout(() => show({keep}), 1000);  // not while the user types
  const ready = await Promise.all(content.flat(Infinity));
  const unfolded = [...main.querySelectorAll("details")].map((d) => d.open);
  main.replaceChildren();
  append(main, ready);
  const folds = [...main.querySelectorAll("details")];
  if (keep && folds.length === unfolded.length)
    folds.forEach((d, i) => {
      d.open = unfolded[i];
    });
  if (reportOnly) unlink();
  dropCharts();
  document.title = `${[...route.args].reverse().join(" · ") || route.page} – fastkernels`;
  if (fresh && !keep) {
    shownPath = path;
    scrollTo(0, 0);
  }
  if (focus) main.querySelector(`[aria-label="${CSS.escape(focus)}"]`)?.focus({preventScroll: true});
  main.dataset.shown = String(turn);
  if (route.query.get("at") && !keep && (route.page === "run" || route.page === "report"))
    document.getElementById("scenario")?.scrollIntoView({block: "start"});
}

// A report has only one run: links to other pages become text.
function unlink() {
  for (const a of main.querySelectorAll("a[href^=\"#/\"]"))
    if (!a.hash.startsWith("#/report/")) a.replaceWith(...a.childNodes);
}

async function notFound() {
  return [
    h("div", {class: "head"}, h("h1", {}, "No such page")),
    card(
        "Nothing here", {}, empty("The address names no page.", "Start again from the overview."),
        h("p", {}, h("a", {href: "#/"}, "Overview")))
  ];
}

const reportOnly = offline && startRoute().startsWith("#/report/");
if (reportOnly) document.body.classList.add("report-only");
if (offline && startRoute() && !location.hash) history.replaceState(null, "", startRoute());
// The address holds the state of the page, so the skip link must not change it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => show());
addEventListener("fk-route", () => show());
addEventListener("fk-theme", redrawCharts);
startSearch();
follow(() => show({keep: true}));
show();
