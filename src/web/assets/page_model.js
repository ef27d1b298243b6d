// One model: times per path over runs, and the effect of larger search budgets.
import {get, part} from "./api.js";
import {sweepLines} from "./chart_sweep.js";
import {sweepSpace} from "./chart_sweep3d.js";
import {trendChart} from "./chart_trend.js";
import {card, empty, h, keyFigures, select} from "./dom.js";
import {milliseconds, plural} from "./format.js";
import {pathTone} from "./paths.js";
import {runLink, update} from "./router.js";
import {ttftTable} from "./ttft_table.js";

export const metrics = [
  {key: "ttft_ms", title: "Time to first token", short: "TTFT", samples: "prefill"},
  {key: "tpot_ms", title: "Time per token", short: "TPOT", samples: "decode"},
  {key: "compile_ms", title: "Time to search", short: "Time to search"},
];

// Only equal work is comparable.
const groupOf = (r) => [r.config !== r.model ? r.config : "", r.device, r.dtype,
                        `${r.prompt_tokens} + ${r.decode_tokens} tokens`, r.threads ? `${r.threads} thread${r.threads === 1 ? "" : "s"}` : ""]
                           .filter(Boolean)
                           .join(", ");

export async function modelPage({args: [name], query}) {
  const data = await get(`/api/model/${part(name)}`);
  if (!data.rows.length)
    return [
      h("div", {class: "head"}, h("h1", {}, name)),
      card(
          "No results", {},
          empty(
              "This model was not timed yet.",
              "Time it to its first token:", `fastkernels ttft --model ${name} --load-format dummy`))
    ];
  const groups = [...new Set(data.rows.map(groupOf))];
  const group = groups.includes(query.get("group")) ? query.get("group") : groups[0];
  const rows = data.rows.filter((r) => groupOf(r) === group);  // newest first
  const columns = columnsOf(rows);
  const last = rows.filter((r) => r.run_id === rows[0].run_id);
  return [
    h("div", {class: "head"}, h("h1", {}, name),
      groups.length > 1 &&
          h("div", {class: "tools"},
            select("Configuration", groups.map((g) => [g, g]), group, (g) => update({group: g}, {push: true}))),
      h("p", {class: "sub"}, `${plural(columns.length, "run")}: ${group}`)),
    keyFigures(best(last)),
    h("div", {class: "grid"}, metrics.map((m) => trendCard(name, m, rows, columns)).filter(Boolean)),
    sweepCards(name, rows),
    card("Every result", {flush: true}, ttftTable("rows", rows).element),
  ];
}

function best(rows) {
  return metrics.slice(0, 2).map((m) => {
    const row = rows.filter((r) => r[m.key] > 0).sort((a, b) => a[m.key] - b[m.key])[0];
    return row && [`${m.short}, newest run`, milliseconds(row[m.key]), row.path];
  });
}

function columnsOf(rows) {
  const seen = new Map();
  for (const r of rows)
    if (!seen.has(r.run_id)) seen.set(r.run_id, {id: r.run_id, time_ms: r.time_ms, commit: r.commit, name: r.run_name});
  return [...seen.values()].reverse();
}

// If a run has several budgets, the largest represents the path; the sweep shows the others.
function trendCard(name, metric, rows, columns) {
  const series = [];
  for (const path of [...new Set(rows.map((r) => r.path))].sort()) {
    const points = {};
    for (const r of rows.filter((row) => row.path === path)) {
      const value = r[metric.key];
      if (!(value > 0) && !r.error) continue;
      const other = points[r.run_id];
      if (other && (other.budget ?? Infinity) >= (r.search_iters ?? Infinity)) continue;  // none: no limit
      points[r.run_id] = {
        y: value,
        budget: r.search_iters,
        failed: r.error ? "failed" : "",
        ...quartiles(r.samples && r.samples[metric.samples])
      };
    }
    if (Object.values(points).some((p) => p.y > 0)) series.push({name: path, tone: pathTone(path), points});
  }
  if (!series.length) return null;
  return card(
      metric.title, {
        note: metric.samples ? "Median of the iterations; whiskers from quartile to quartile." :
                               `${series.map((s) => s.name).join(", ")}, with the largest budget of each run`
      },
      trendChart(`${name}-${metric.key}`, columns, series, {
        format: milliseconds,
        title: metric.short,
        open: (c) => {
          location.hash = runLink(c.id);
        }
      }));
}

function quartiles(samples) {
  if (!Array.isArray(samples) || samples.length < 3) return {};
  const sorted = samples.slice().sort((a, b) => a - b);
  return {low: d3.quantile(sorted, 0.25), high: d3.quantile(sorted, 0.75)};
}

// One sweep per run that tried at least two budgets.
export function sweepsOf(rows, key) {
  return columnsOf(rows)
      .map((column) => ({
             column,
             points: rows.filter((r) => r.run_id === column.id && r.search_iters > 0 && r[key] > 0)
                         .map((r) => ({budget: r.search_iters, value: r[key]}))
           }))
      .filter((s) => new Set(s.points.map((p) => p.budget)).size > 1);
}

// Budgets are those of one path, whose colour the newest sweep has.
export const sweptTone = (rows) => pathTone(rows.find((r) => r.search_iters > 0)?.path);

function sweepCards(name, rows) {
  return metrics.map((m) => [m, sweepsOf(rows, m.key)])
      .filter(([, sweeps]) => sweeps.length)
      .map(
          ([m, sweeps]) =>
              h("div", {class: "grid"},
                card(
                    `${m.short} by search budget and run`,
                    {note: "Budget across, runs into the depth, value up. Drag or use the arrow keys to turn."},
                    sweepSpace(`${name}-${m.key}-sweep-3d`, sweeps, {format: milliseconds, title: m.short})),
                card(
                    `${m.short} over search budgets`, {note: "A line per run; the newest is the strong one."},
                    sweepLines(
                        `${name}-${m.key}-sweep`, sweeps,
                        {format: milliseconds, title: m.short, tone: sweptTone(rows)}))));
}
