// A `ttft` run in charts, a card per model or configuration: bars per path, lines over search budgets, the samples
// behind them, what searches spent their time with, and what is known of failures.
import {barChart} from "./chart_bars.js";
import {phaseChart} from "./chart_phases.js";
import {samplesChart} from "./chart_samples.js";
import {sweepLines} from "./chart_sweep.js";
import {card, facts, h} from "./dom.js";
import {bytes, milliseconds} from "./format.js";
import {metrics, sweepsOf, sweptTone} from "./page_model.js";
import {pathTone} from "./paths.js";

const label = (r) => (r.search_iters ? `${r.path} · ${r.search_iters}` : r.path);
const part = (title, chart) => h("div", {}, h("h3", {}, title), chart);

export function ttftBars(rows) {
  return d3.nest()
      .key((r) => r.config || r.model)
      .entries(rows)
      .map(
          ({key: model, values}) => card(
              model,
              {note: values.some((r) => r.error) ? "Failed paths are named; their message is in the table." : ""},
              h("div", {class: "grid three"}, bars(model, values), sweeps(model, values), samples(model, values),
                phases(model, values)),
              values.filter((r) => (r.details || {}).failure).map(failure)));
}

function bars(model, rows) {
  return metrics.filter((m) => rows.some((r) => r[m.key] > 0))
      .map(
          (m) => part(
              m.title,
              barChart(
                  `${model}-${m.key}`,
                  rows.filter((r) => r.error || r[m.key] > 0)
                      .map((r) => ({name: label(r), value: r[m.key], failed: r.error, tone: pathTone(r.path)})),
                  {format: milliseconds})));
}

function sweeps(model, rows) {
  return metrics.filter((m) => sweepsOf(rows, m.key).length)
      .map(
          (m) => part(
              `${m.short} over search budgets`,
              sweepLines(
                  `${model}-${m.key}-sweep`, sweepsOf(rows, m.key),
                  {format: milliseconds, title: m.short, tone: sweptTone(rows)})));
}

function samples(model, rows) {
  return metrics.filter((m) => m.samples).map((m) => {
    const lanes = rows.map((r) => ({
                             name: label(r),
                             tone: pathTone(r.path),
                             values: ((r.samples || {})[m.samples] || []).map((v) => ({v, launch: 0}))
                           }));
    const shown = lanes.filter((lane) => lane.values.length > 1);
    return shown.length ? part(
                              `${m.short}, every iteration`,
                              samplesChart(`${model}-${m.key}-samples`, shown, {format: milliseconds, slim: true})) :
                          null;
  });
}

function phases(model, rows) {
  const searched = rows.filter((r) => r.compile_ms > 0 && Object.keys((r.details || {}).phases || {}).length);
  return searched.length ?
      part(
          "Time to search by phase",
          phaseChart(
              `${model}-phases`,
              searched.map((r) => ({name: label(r), total: r.compile_ms, phases: r.details.phases})))) :
      null;
}

function failure(row) {
  const f = row.details.failure;
  return h(
      "details", {class: "failure"}, h("summary", {class: "bad"}, `${label(row)}: ${row.error}`), facts([
        [
          "ended by",
          f.timed_out            ? "its time limit" :
              f.printed_too_much ? "the limit of what it may print" :
                                   f.signal || `exit code ${f.exit_code}`
        ],
        ["stage", f.stage || "before the first"], ["out of memory", f.out_of_memory ? "yes" : "no"],
        ["peak memory", bytes(f.peak_memory_bytes)], ["after", milliseconds(f.seconds * 1e3)]
      ]),
      f.stderr_tail ? h("pre", {}, f.stderr_tail) : null);
}
