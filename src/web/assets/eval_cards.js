// An evaluation: the score, its items and their workloads, from the result file among the run's artifacts.
import {get, has} from "./api.js";
import {badge, card, h, keyFigures} from "./dom.js";
import {number, percent, speedup} from "./format.js";
import {table} from "./table.js";

const kFile = "results/eval.json";

// Nothing for a run of another kind, and where the file is not carried along.
export async function evalCards(run, artifacts) {
  const file = artifacts.find((a) => a.path === kFile);
  if (run.tier !== "eval" || !file || !has(`/api/source/${file.sha256}`)) return null;
  const {text, truncated} = await get(`/api/source/${file.sha256}`);
  if (truncated) return card("Results", {}, h("p", {}, `${kFile} is too large to show; download it below.`));
  const result = JSON.parse(text);
  return [
    scoreFigures(result.score),
    result.notes?.length && card("Notes", {}, result.notes.map((note) => h("p", {}, note))),
    card("Items", {flush: true, note: "One for each model and number of ranks."}, itemTable(result.items).element),
    card(
        "Workloads",
        {flush: true, note: "Speed-up with its 99 % interval. A/A: the baseline against itself in the same run."},
        workloadTable(result.items).element),
  ];
}

function scoreFigures(score) {
  if (!score) return null;
  return keyFigures([
    ["Score", number(score.macro_score), "speed-up × correctness × coverage"],
    ["Speed-up", speedup(score.macro_speedup), "valid items"],
    ["Correctness", percent(score.macro_correctness, 1)],
    ["Coverage", percent(score.macro_coverage, 1), "", score.macro_coverage < 1 ? "bad" : ""],
  ]);
}

const state = (item) => (item.status !== "ok" ? "FAILED" : item.valid ? "VALID" : "INVALID");

function why(item) {
  if (item.status !== "ok") return `${item.stage}: ${item.error}`;
  const wrong = item.workloads.find((w) => !w.aligned);
  return wrong ? `${wrong.workload}: ${wrong.reason}` : "";
}

function itemTable(items) {
  const ratio = (key, title) => ({key, title, number: true, value: (i) => i[key], cell: (i) => speedup(i[key])});
  return table(
      "items",
      [
        {key: "model", title: "Model", value: (i) => i.model, class: "name"},
        {key: "tp", title: "Ranks", number: true, value: (i) => i.tp},
        {
          key: "state",
          title: "Verdict",
          value: state,
          cell: (i) => badge(state(i), i.valid ? "good" : "bad"),
        },
        ratio("throughput_speedup", "Throughput"),
        ratio("latency_speedup", "Latency"),
        ratio("blended_speedup", "Blended"),
        {key: "aligned", title: "Aligned", number: true, value: (i) => i.aligned, cell: (i) => `${i.aligned}/${i.checks}`},
        {
          key: "agreement",
          title: "Agreement",
          number: true,
          value: (i) => i.agreement,
          cell: (i) => percent(i.agreement, 2),
        },
        {key: "why", title: "Why", value: why, class: "sentence"},
      ],
      items, {text: (i) => `${i.model} ${state(i)} ${why(i)}`, rowClass: (i) => (i.valid ? null : "failed"), caption: "Items"});
}

function workloadTable(items) {
  const rows = items.flatMap((item) => item.workloads.map((w) => ({...w, model: item.model, tp: item.tp})));
  const amount = (key, title) =>
      ({key, title, number: true, value: (w) => w[key], cell: (w) => `${number(w[key])} ${w.unit}`});
  return table(
      "workloads",
      [
        {key: "model", title: "Model", value: (w) => w.model, class: "name"},
        {key: "tp", title: "Ranks", number: true, value: (w) => w.tp},
        {key: "workload", title: "Workload", value: (w) => w.workload},
        amount("baseline", "Baseline"),
        amount("candidate", "Candidate"),
        {
          key: "speedup",
          title: "Speed-up",
          number: true,
          value: (w) => w.speedup,
          cell: (w) => `${speedup(w.speedup)} (${number(w.low)} .. ${number(w.high)})`,
        },
        {key: "verdict", title: "Verdict", value: (w) => w.verdict},
        {
          key: "control",
          title: "A/A",
          number: true,
          value: (w) => w.control_error,
          cell: (w) => percent(w.control_error, 1),
        },
      ],
      rows, {text: (w) => `${w.model} ${w.workload} ${w.verdict}`, caption: "Workloads", tall: rows.length > 20});
}
