// One run as a page to read from top to bottom, print or send; and its charts as files.
import {get, part} from "./api.js";
import {artifactsCard} from "./artifacts.js";
import {errorChart} from "./chart_errors.js";
import {heatMap} from "./chart_heat.js";
import {roofline} from "./chart_roofline.js";
import {card, facts, h} from "./dom.js";
import {e2eCards} from "./e2e_charts.js";
import {evalCards} from "./eval_cards.js";
import {kernelTable} from "./kernel_table.js";
import {environment, runFigures, runHead} from "./page_run.js";
import {planCards} from "./plan_cards.js";
import {pngUrl, standaloneSvg} from "./save.js";
import {scenarioCard} from "./scenario_detail.js";
import {ttftBars} from "./ttft_charts.js";
import {ttftTable} from "./ttft_table.js";

export async function reportPage({args: [id], query}) {
  const data = await get(`/api/run/${part(id)}`);
  const {run, results, ttft} = data;
  const operators = [...new Set(results.map((r) => r.op))];
  const [op, scenario] = (query.get("at") || "").split(/\|(.*)/s);
  const at = results.find((r) => r.op === op && r.scenario === scenario);
  return [
    runHead(run),
    run.error &&
        card(run.status === "interrupted" ? "It was interrupted" : "It failed", {alarm: true}, h("p", {}, run.error)),
    runFigures(data),
    ttft.length ? [ttftBars(ttft), card("Results", {flush: true}, ttftTable("ttft", ttft, {ofRun: true}).element)] :
                  null,
    await e2eCards(run, data.artifacts),
    await evalCards(run, data.artifacts),
    await planCards(data.artifacts),
    operators.map((name) => operatorSection(name, run, results.filter((r) => r.op === name))),
    at ? await scenarioCard(run, at) :
         await Promise.all(operators.map((name) => results.find((r) => r.op === name && r.speedup))
                               .filter(Boolean)
                               .map((r) => scenarioCard(run, r))),
    h("div", {class: "grid"}, card("Parameters", {}, facts(Object.entries(run.params))),
      card("Environment", {}, environment(run))),
    artifactsCard(run, data.artifacts),
  ];
}

function operatorSection(name, run, results) {
  const view = kernelTable(run, results, null, "report");
  const roof = roofline(`${name}-roofline`, results);
  const errors = errorChart(`${name}-errors`, results);
  return [
    h("h2", {}, name),
    card(
        "Tokens × model", {note: "Speed-up of each scenario. Blue is faster than the baseline, orange slower."},
        heatMap(`${name}-heat`, results)),
    h("div", {class: "grid"}, roof && card("Roofline", {}, roof), errors && card("Error ratios", {}, errors)),
    card("Results", {flush: true}, view.element)
  ];
}

// For a headless browser: every chart of the report as text in one element, once all are drawn.
export async function exportPage(route) {
  const stage = h("div", {}, await reportPage(route));
  setTimeout(async () => {
    const charts = [];
    for (const figure of document.querySelectorAll(".chart")) {
      const svg = standaloneSvg(figure.querySelector("svg"));
      charts.push({name: figure.dataset.chart, svg, png: route.query.get("png") ? await pngUrl(svg) : ""});
    }
    document.body.append(h("pre", {id: "fk-export", hidden: true}, JSON.stringify(charts)));
  }, 50);
  return [stage];
}
