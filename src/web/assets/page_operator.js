// One operator: its speed-up over runs, then one run of it by scenario, then the sources that were measured.
import {get, has, part} from "./api.js";
import {errorChart} from "./chart_errors.js";
import {heatMap} from "./chart_heat.js";
import {roofline} from "./chart_roofline.js";
import {trendChart} from "./chart_trend.js";
import {badge, card, empty, h, keyFigures, select} from "./dom.js";
import {ago, interval, mark, percent, plural, speedup, when} from "./format.js";
import {link, runLink, update} from "./router.js";
import {sourcesCard} from "./sources.js";

export async function operatorPage({args: [name], query}) {
  const data = await get(`/api/operator/${part(name)}`);
  if (!data.runs.length)
    return [
      h("div", {class: "head"}, h("h1", {}, name)),
      card(
          "No results", {},
          empty(
              "This operator was not measured yet.",
              "Judge and time a candidate of it:", `fastkernels kernels --target ${name}`))
    ];
  const groups = data.groups.map((g, i) => ({...g, key: String(i)}));
  const group = groups.find((g) => groupKey(g) === query.get("group")) || groups[0];
  const runs = data.runs.filter((r) => String(r.group) === group.key);  // newest first
  const chosen = runs.find((r) => r.run_id === query.get("run")) || runs[0];
  const best =
      runs.filter((r) => r.verdict === "FASTER" && r.confirmed === "yes").sort((a, b) => b.speedup - a.speedup)[0];
  return [
    h("div", {class: "head"}, h("h1", {}, name), badge(`L${data.level}`),
      groups.length > 1 &&
          h("div", {class: "tools"},
            select(
                "Scenarios and device", groups.map((g) => [groupKey(g), groupName(g)]), groupKey(group),
                (key) => update({group: key, run: ""}, {push: true}))),
      h("p", {class: "sub"},
        groups.length > 1 ? "Only runs over the same scenarios on the same device are compared." : groupName(group))),
    keyFigures([
      ["Best confirmed", best ? speedup(best.speedup) : "–", best ? interval(best.low, best.high) : "none yet"],
      [
        "Latest", speedup(runs[0].speedup),
        runs[0].speedup ? interval(runs[0].low, runs[0].high) : kNoMean[runs[0].verdict]
      ],
      [
        "Scenarios passed", `${runs[0].passed} / ${runs[0].passed + runs[0].failed}`,
        runs[0].skipped ? `${runs[0].skipped} without credit` : "", runs[0].failed ? "bad" : ""
      ],
      ["Largest error", percent(runs[0].err_ratio), "of what is allowed", runs[0].err_ratio > 1 ? "bad" : ""],
    ]),
    trend(name, runs),
    await oneRun(name, runs, chosen),
    await sourcesCard(data.sources, query),
  ];
}

function trend(name, runs) {
  const columns = runs.slice().reverse().map(columnOf);
  const points = Object.fromEntries(runs.map((r) => [r.run_id, {
                                               y: r.speedup,
                                               low: r.low,
                                               high: r.high,
                                               failed: r.failed > 0 ? `${r.failed} failed` : "",
                                               untimed: !r.failed && !r.speedup ? "passed, not timed" : ""
                                             }]));
  return card(
      "Speed-up over runs", {
        note:
            "Geometric mean over the same scenarios with its 99 % interval; a cross where one failed, a ring at the foot where all passed and no time counts. One column a run; Enter or a click opens it."
      },
      trendChart(`${name}-speedup`, columns, [{name: "speed-up", points}], {
        format: (v) => `${v.toFixed(2)}x`,
        reference: 1,
        title: "speed-up over the baseline",
        open: (c) => {
          location.hash = runLink(c.id);
        }
      }));
}

const columnOf = (r) => ({id: r.run_id, time_ms: r.time_ms, commit: r.commit, dirty: r.dirty, name: r.run_name});

const kNoMean = {
  FAILED: "it failed",
  "NOT TIMED": "passed, not timed",
  "NO CREDIT": "without credit"
};

const groupKey = (g) => `${g.timed_set}@${g.device}@${g.device_name}`;
const groupName = (g) =>
    `${plural(g.runs, "run")}${g.timed ? ` over ${plural(g.timed, "scenario")}` : ", not timed,"} on ${
        g.device_name || g.device || "an unknown device"}`;

async function oneRun(name, runs, wanted) {
  const carried = runs.filter((r) => has(`/api/run/${part(r.run_id)}`));  // an offline file has the newest only
  const chosen = carried.includes(wanted) ? wanted : carried[0];
  if (!chosen) return null;
  const all = (await get(`/api/run/${part(chosen.run_id)}`)).results.filter((r) => r.op === name);
  const label = (r) => `${mark(r)} · ${when(r.time_ms)} · ${speedup(r.speedup)}`;
  const picker = select(
      "Run", carried.slice(0, 200).map((r) => [r.run_id, label(r)]), chosen.run_id,
      (id) => update({run: id}, {push: true}));
  const head =
      h("div", {class: "head"}, h("h2", {}, "One run by scenario"),
        h("div", {class: "tools"}, picker, " ", h("a", {href: runLink(chosen.run_id)}, "open the run")));
  const open = (r) => {
    location.hash = link("run", [chosen.run_id], {at: `${r.op}|${r.scenario}`});
  };
  const roof = roofline(`${name}-roofline`, all);
  const errors = errorChart(`${name}-errors`, all);
  return [
    head,
    card(
        "Tokens × model", {
          note: `${plural(all.length, "scenario")}, ${
              ago(chosen.time_ms)}. Blue is faster than the baseline, orange slower.`
        },
        heatMap(`${name}-heat`, all, {open})),
    h("div", {class: "grid"},
      card(
          "Roofline",
          {note: "Higher is better; the orange line is the floor of this machine, which no program passes."},
          roof || empty("Nothing timed", "No scenario of this run has a time.")),
      card(
          "Error ratios",
          {note: "Largest error of each scenario, as a share of its tolerance. Right of the red line is wrong."},
          errors || empty("Nothing compared", "No scenario of this run got as far as a comparison.")))
  ];
}
