// One run: parameters, environment, every result with its samples, and files.
import {get, part} from "./api.js";
import {artifactsCard} from "./artifacts.js";
import {badge, breakable, card, empty, facts, h, keyFigures} from "./dom.js";
import {e2eCards} from "./e2e_charts.js";
import {evalCards} from "./eval_cards.js";
import {ago, bytes, commit, milliseconds, number, speedup, verdictTone, when} from "./format.js";
import {kernelTable} from "./kernel_table.js";
import {planCards} from "./plan_cards.js";
import {link, parse} from "./router.js";
import {actionsFor} from "./run_actions.js";
import {scenarioCard} from "./scenario_detail.js";
import {table} from "./table.js";
import {ttftBars} from "./ttft_charts.js";
import {ttftTable} from "./ttft_table.js";

export async function runPage({args: [id], query}) {
  const data = await get(`/api/run/${part(id)}`);
  const run = data.run;
  const [op, scenario] = (query.get("at") || "").split(/\|(.*)/s);
  // Select the first failure; otherwise the first scenario with times.
  const at = data.results.find((r) => r.op === op && r.scenario === scenario) ||
      data.results.find((r) => r.verdict !== "PASSED" && !r.skipped) || data.results.find((r) => r.speedup) ||
      data.results[0];
  const e2e = await e2eCards(run, data.artifacts) || await evalCards(run, data.artifacts);
  const plan = await planCards(data.artifacts);
  return [
    runHead(run, [h("a", {href: link("compare", [], {runs: run.id})}, "compare with…"), actionsFor(run)]),
    run.error && run.error !== at?.sentence &&
        card(run.status === "interrupted" ? "It was interrupted" : "It failed", {alarm: true}, h("p", {}, run.error)),
    runFigures(data),
    inOrder(at, data.results.length ? resultsCard(data, at) : null, at ? await scenarioCard(run, at) : null),
    data.ttft.length ?
        [ttftBars(data.ttft), card("Results", {flush: true}, ttftTable("ttft", data.ttft, {ofRun: true}).element)] :
        null,
    e2e,
    plan,
    !data.results.length && !data.ttft.length && !e2e && !plan &&
        card(
            "Results", {},
            run.status === "running" ?
                empty("Nothing measured yet", "The first result appears here as soon as it is there.") :
                empty("No results", "This run ended before its first result, or kept figures only.")),
    h("div", {class: "grid"}, card("Parameters", {}, facts(Object.entries(run.params))),
      card("Environment", {}, environment(run))),
    data.metrics.length ? metricsCard(data.metrics) : null,
    artifactsCard(run, data.artifacts),
  ];
}

const kOwnTags = new Set(["tier", "version", "note", "self_test"]);  // shown elsewhere

export function runHead(run, tools) {
  const took = run.ended_ms ? ` · took ${milliseconds(run.ended_ms - run.time_ms)}` : "";
  return h(
      "div", {class: "head"}, h("h1", {}, run.name || run.id),
      h("span", {}, badge(run.tier), " ", badge(run.status, verdictTone(run.status))),
      h("div", {class: "tools"}, tools),
      h("p", {class: "sub"}, `${when(run.time_ms)}, ${ago(run.time_ms)}${took} · commit `,
        h("code", {}, commit(run.commit, run.dirty)), run.branch && ` on ${run.branch}`, " · ", h("code", {}, run.id),
        Object.entries(run.tags)
            .filter(([key]) => !kOwnTags.has(key))
            .map(([key, value]) => [" ", badge(value === "true" ? key : `${key} ${value}`)])),
      run.tags.note && h("p", {class: "sub note-text"}, "Note: ", run.tags.note));
}

export function runFigures(data) {
  const m = data.run.metrics;
  const failed = data.results.filter((r) => r.verdict !== "PASSED" && !r.skipped).length;
  const passed = data.results.filter((r) => r.verdict === "PASSED").length;
  const ranked = data.results.filter((r) => r.speedup && r.verdict === "PASSED" && !r.invalid);
  const side = m.compiled_step_share === undefined ? "with candidates" : "by plans";
  const worst = ranked.slice().sort((a, b) => a.speedup - b.speedup)[0];
  return keyFigures([
    m.avg_speedup !== undefined && ["Speed-up", speedup(m.avg_speedup), "geometric mean"],
    data.results.length > 0 &&
        [
          "Scenarios passed", `${passed} / ${passed + failed}`,
          passed > ranked.length ? `${passed - ranked.length} not timed` : "", failed ? "bad" : ""
        ],
    worst && ["Worst", speedup(worst.speedup), worst.scenario],
    // With several paths or models these would only be those of the last.
    ...(data.ttft.length > 1 ?
            [] :
            [
              m.ttft_ms !== undefined && ["TTFT", milliseconds(m.ttft_ms)],
              m.tpot_ms !== undefined && ["TPOT", milliseconds(m.tpot_ms)],
              m.tokens_per_second !== undefined && ["Tokens per second", number(m.tokens_per_second)],
              m.output_throughput !== undefined && ["Output tokens per second", number(m.output_throughput)],
              m.mean_ttft_ms !== undefined && m.ttft_ms === undefined && ["Mean TTFT", milliseconds(m.mean_ttft_ms)],
              m.throughput_speedup !== undefined && ["Throughput", speedup(m.throughput_speedup), side],
              m.latency_speedup !== undefined && ["Latency", speedup(m.latency_speedup), side],
            ]),
    ...fastest(data.ttft),
  ]);
}

// Of each configuration, which is one kind of work, the path that decodes fastest.
function fastest(rows) {
  if (rows.length < 2) return [];
  const nameOf = (r) => r.config || r.model;
  return [...new Set(rows.map(nameOf))].slice(0, 4).map((name) => {
    const timed = rows.filter((r) => nameOf(r) === name && r.tpot_ms > 0);
    const row = timed.sort((a, b) => a.tpot_ms - b.tpot_ms)[0];
    return row && [`${name}, fastest`, `${milliseconds(row.tpot_ms)} per token`, row.path];
  });
}

// A failure is shown above the list, unless the user selected it in the list.
function inOrder(at, results, scenario) {
  const wrong = at && at.verdict !== "PASSED" && !at.skipped && !parse().query.get("at");
  return wrong ? [scenario, results] : [results, scenario];
}

function resultsCard(data, at) {
  const view = kernelTable(data.run, data.results, at);
  return card("Results", {flush: true, tools: [view.count, view.filter]}, view.element);
}

// The most important values; the rest can be unfolded.
export function environment(run) {
  const rows = [];
  const flat = (value, name) => {
    if (value === null || value === undefined || value === "") return;
    if (Array.isArray(value) && value.some((v) => v && typeof v === "object"))
      value.forEach((v, i) => flat(v, `${name} ${i + 1}`));
    else if (Array.isArray(value))
      rows.push([name, value.map((v) => (typeof v === "number" ? number(v) : v)).join(", ")]);
    else if (typeof value === "object")
      for (const [key, v] of Object.entries(value)) flat(v, `${name} ${key.replace(/_/g, " ")}`.trim());
    else if (/bytes$/.test(name))
      rows.push([name.replace(/ ?(size )?bytes$/, ""), bytes(value)]);
    else
      rows.push([name, String(value)]);
  };
  flat(run.environment, "");
  const find = (...names) => (rows.find(([name]) => names.includes(name)) || [])[1];
  return [
    facts([
      ["device", [run.device_name, run.device].filter(Boolean).join(", ")],
      ["host", run.host],
      ["commit", run.commit && commit(run.commit, run.dirty)],
      ["branch", run.branch],
      ["instructions", find("machine cpu instructions", "cpu instructions")],
      ["memory", find("machine memory total")],
      ["system", find("machine system os", "system os")],
      ["kernel", find("machine system kernel", "system kernel")],
      ["compiler", find("machine compilers 1 version", "built with", "compiler")],
      ["flags", find("build flags")],
      ["clock", find("cpu clock mhz") && `${find("cpu clock mhz")} MHz`],
      ["load", find("load average", "load one minute")],
    ]),
    rows.length > 0 && h("details", {}, h("summary", {}, `Everything recorded (${rows.length})`), facts(rows)),
  ];
}

// Metrics of many steps are one row with their last value.
function metricsCard(points) {
  const last = new Map();
  for (const p of points) last.set(p.key, {...p, steps: (last.get(p.key)?.steps || 0) + 1});
  const view = table(
      "metrics",
      [
        {key: "key", title: "Metric", value: (m) => m.key, class: "name", cell: (m) => h("code", {}, breakable(m.key))},
        {key: "value", title: "Value", number: true, value: (m) => m.value, cell: (m) => number(m.value)},
        {key: "steps", title: "Steps", number: true, value: (m) => m.steps},
      ],
      [...last.values()], {text: (m) => m.key, caption: "Metrics"});
  return card("Metrics", {flush: true, tools: [view.count, view.filter]}, view.element);
}
