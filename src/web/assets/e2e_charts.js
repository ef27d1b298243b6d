// The cards of an `e2e` run, from its results/e2e.json: curve of loads, distribution of gaps between tokens, where the
// time goes, one step as a picture.
import {get, has} from "./api.js";
import {barChart} from "./chart_bars.js";
import {ganttChart} from "./chart_gantt.js";
import {loadCurve} from "./chart_load_curve.js";
import {percentileChart} from "./chart_percentiles.js";
import {card, h} from "./dom.js";
import {interval, milliseconds, number, speedup} from "./format.js";

const kFile = "results/e2e.json";
const kOperators = 10;

// Nothing for a run of another kind, and where the file is not carried along.
export async function e2eCards(run, artifacts) {
  const file = artifacts.find((a) => a.path === kFile);
  if (run.tier !== "e2e" || !file || !has(`/api/source/${file.sha256}`)) return null;
  const {text, truncated} = await get(`/api/source/${file.sha256}`);
  if (truncated) return card("Charts", {}, h("p", {}, `${kFile} is too large to draw; download it below.`));
  try {
    const result = JSON.parse(text);
    return result.type === "serve" ? serveCards(result) : engineCards(result);
  } catch (error) {  // of another program, or another version
    return card("Charts", {}, h("p", {}, `${kFile} cannot be drawn: ${error.message}`));
  }
}

const loadName = (l) =>
    (l.max_concurrency ? `${l.max_concurrency} at once` :
         l.request_rate === "inf" ? "all at once" :
                                    `${l.request_rate}/s`);

function serveCards(result) {
  const loads = result.loads;
  const points = loads.map(
      (l) => ({
        label: loadName(l),
        latency_ms: l.mean_e2el_ms,
        throughput: l.output_throughput,
        pairs: [
          ["requests per second", number(l.request_throughput)],
          ["output tokens per second", number(l.output_throughput)], ["mean TTFT", milliseconds(l.mean_ttft_ms)],
          ["mean E2EL", milliseconds(l.mean_e2el_ms)], ["failed", String(l.failed)]
        ]
      }));
  const lines = (key) =>
      loads.map((l) => ({name: loadName(l), values: l.percentiles[key]})).filter((l) => l.values.length);
  return h(
      "div", {class: "grid"},
      loads.length > 1 &&
          card(
              "Throughput over latency", {note: "One point a load."},
              loadCurve("e2e-curve", points, {latencyTitle: "mean time of a request"})),
      distributionCard("Gaps between tokens", "e2e-itl", lines("itl_ms"), "ITL"),
      distributionCard("Time to first token", "e2e-ttft", lines("ttft_ms"), "TTFT"));
}

const distributionCard = (title, name, lines, axis) =>
    (lines.length ? card(
                        title, {note: "Percentiles; both ends tell more than a mean."},
                        percentileChart(name, lines, {title: axis})) :
                    null);

function engineCards(result) {
  const compare = result.mode === "compare";
  const names = result.sides === "compiled" ? ["eager", "compiled"] : ["baseline", "candidates"];
  const sides = compare ?
      [[names[0], result.baseline], ["unfused baseline", result.unfused], [names[1], result.candidate]].filter(
          ([, s]) => s) :
      [[result.plan ? "compiled" : result.candidates.length ? "candidates" : "baseline", result]];
  const lines = (key) => sides.map(([name, s]) => ({name, values: s.percentiles[key]})).filter((l) => l.values.length);
  const at = compare ? result.attribution?.baseline : result.attribution;
  return [
    compare && gainCard(result),
    h("div", {class: "grid"}, distributionCard("Gaps between tokens", "e2e-itl", lines("itl_ms"), "ITL"),
      at && sharesCard(at)),
    at && at.step.length ?
        card(
            "One step", {note: "Every call of an operator in the last step of a load, by a clock around it."},
            ganttChart("e2e-step", at.step)) :
        null,
  ];
}

function gainCard(result) {
  const gain = result.comparison.gain;
  const says = `${speedup(gain.speedup)} (${interval(gain.speedup_low, gain.speedup_high)}), ${gain.verdict}`;
  const list =
      (result.gains || [])
          .map(
              (g) =>
                  h("li", {},
                    `${g.operator}: ${number(100 * g.share)} % of the time, ` +
                        (g.alone ? `${speedup(g.alone)} alone, ` : "") +
                        (g.in_model ?
                             `${speedup(g.in_model)} in the model, so that the model gains ${speedup(g.expected)}` :
                             "did not run in this model")));
  const compiled = result.sides === "compiled";
  const ran = compiled ? ` ${number(100 * result.engine.compiled_steps / Math.max(1, result.engine.steps))} % of ` +
          `${result.engine.steps} steps were run by plans.` :
                         "";
  return card(
      compiled ? "Plans in the served model" : "Candidates in the served model", {id: "e2e-gain"},
      h("p", {}, `Measured ${says}.${ran}`,
        result.expected_speedup ? ` Expected by their share of the time: ${speedup(result.expected_speedup)}.` : ""),
      h("ul", {}, list));
}

function sharesCard(at) {
  const byName = new Map();
  for (const o of at.operators) byName.set(o.operator, (byName.get(o.operator) || 0) + o.share);
  const bars =
      [...byName].sort((a, b) => b[1] - a[1]).slice(0, kOperators).map(([name, value]) => ({name, value, tone: "s1"}));
  bars.push({name: "planning, output", value: at.rest, tone: "s6"});
  return card(
      "Where the time goes", {note: "Share of a load, each operator without those it calls."},
      barChart("e2e-shares", bars, {format: (v) => `${(100 * v).toFixed(1)} %`}));
}
