// A `ttft` run in bars: per model, one chart a metric, one bar a path; and its samples.
import { barChart } from "./chart_bars.js";
import { samplesChart } from "./chart_samples.js";
import { sweepLines } from "./chart_sweep.js";
import { card, h } from "./dom.js";
import { milliseconds } from "./format.js";
import { metrics, sweepsOf } from "./page_model.js";

const byModel = (rows) => d3.nest().key((r) => r.model).entries(rows);
const label = (r) => (r.search_iters ? `${r.path} · ${r.search_iters}` : r.path);

export function ttftBars(rows) {
  const paths = [...new Set(rows.map((r) => r.path))].sort();
  return byModel(rows).map(({ key: model, values }) => {
    const sweeps = sweepsOf(values, "ttft_ms");
    return card(model, { note: values.some((r) => r.error) ? "Failed paths are named; their message stands in the table." : "" },
      h("div", { class: "grid three" }, metrics.filter((m) => values.some((r) => r[m.key] > 0)).map((m) =>
        h("div", {}, h("h3", {}, m.title), barChart(`${model}-${m.key}`, values.filter((r) => r.error || r[m.key] > 0)
          .map((r) => ({ name: label(r), value: r[m.key], failed: r.error, series: paths.indexOf(r.path) })), { format: milliseconds })))),
      sweeps.length ? h("div", { class: "grid" }, metrics.filter((m) => sweepsOf(values, m.key).length).map((m) =>
        h("div", {}, h("h3", {}, `${m.short} over search budgets`), sweepLines(`${model}-${m.key}-sweep`, sweepsOf(values, m.key), { format: milliseconds, title: m.short })))) : null);
  });
}

export function ttftSamples(rows) {
  const lanes = (key) => rows.map((r, i) => ({ name: label(r), tone: i, values: ((r.samples || {})[key] || []).map((v) => ({ v, launch: 0 })) })).filter((g) => g.values.length > 1);
  const shown = [["prefill", "Time to first token"], ["decode", "Time per token"]].map(([key, title]) => [key, title, lanes(key)]).filter(([, , l]) => l.length);
  if (!shown.length) return null;
  return card("Samples", { note: "One dot an iteration; the bar spans the quartiles, the tick is the median." }, h("div", { class: "grid" },
    shown.map(([key, title, l]) => h("div", {}, h("h3", {}, title), samplesChart(`${key}-samples`, l, { format: milliseconds })))));
}
