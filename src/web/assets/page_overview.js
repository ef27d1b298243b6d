// The overview: regressions, best candidates, latest runs.
import {get, offline} from "./api.js";
import {stripChart} from "./chart_strip.js";
import {badge, card, empty, h} from "./dom.js";
import {ago, commit, interval, milliseconds, number, plural, slowerRange, speedup} from "./format.js";
import {modelRegressions, modelStory} from "./model_regressions.js";
import {link, modelLink, operatorLink, runLink} from "./router.js";
import {runsTable} from "./runs_table.js";
import {sparkline} from "./sparkline.js";
import {table} from "./table.js";

const kLatest = 20;  // runs on this page

export async function overviewPage() {
  const data = await get("/api/overview");
  if (!data.runs_total)
    return [
      h("div", {class: "head"}, h("h1", {}, "No runs yet")),
      card(
          "Make the first one", {},
          empty(
              "Every run is kept by itself.",
              "Judge and time the example candidates, and they appear here while they are measured:",
              "FASTKERNELS_CANDIDATE_DIR=tasks/candidate/examples fastkernels kernels --target softmax"))
    ];
  return [
    h("div", {class: "head"}, h("h1", {}, "Overview"),
      h("p", {class: "sub"}, `${plural(data.runs_total, "run")} in `, h("code", {}, data.database))),
    strip(data.best),
    regressions(data),
    modelRegressions(data.model_regressions, range),
    changes(data),
    data.best.length ? bestCard(data.best) : null,
    data.models.length ? modelsCard(data.models) : null,
    latest(data),
  ];
}

// The chart comes first: speed-ups of every operator over its runs.
function strip(best) {
  const picture = stripChart("speed-ups", best);
  return picture &&
      card("Speed-ups", {
           id: "strip",
           note:
               "A row an operator, a cell a run, the newest first; in a row only runs over the same scenarios on the same device. Blue is faster than the baseline, orange slower, grey has no time that counts, a cross is wrong."
         },
           picture);
}

// Changes between runs that are not comparable: listed, but not as alarms.
function changes(data) {
  const stories = grouped(data.changes).map(story);
  const models = data.model_changes.map((r) => modelStory(r, range));
  if (!stories.length && !models.length) return null;
  const count = data.changes.length + data.model_changes.length;
  return h(
      "section", {class: "card flush quiet-card", id: "changes"},
      h("details", {},
        h("summary", {},
          `${plural(count, "result")} slower or wrong with another candidate, or under another load of the machine`),
        h("ul", {class: "alerts"}, stories, models)));
}

// Scenarios that changed between the same two runs are one entry.
const grouped = (list) => d3.nest()
                              .key((r) => JSON.stringify([r.op, r.kind, r.device_name, r.good_run, r.bad_run]))
                              .entries(list)
                              .map((e) => e.values);

function regressions(data) {
  const list = data.regressions;
  if (!list.length)
    return card("Regressions", {
      note: data.series ?
          [
            "None beyond noise among ", number(data.series), " scenarios with more than one run on the same device: ",
            "newest run against the best of the last ", data.window, " with the same candidate and a machine as busy."
          ].join("") :
          "Nothing to compare yet: no scenario was measured twice on one device."
    });
  return card(
      list.length === 1 ? "1 regression" : `${list.length} regressions`, {
        flush: true,
        alarm: true,
        id: "regressions",
        note: `Newest run against the best of the last ${
            data.window} with the same candidate and a machine as busy, where their 99 % intervals do not meet.`
      },
      h("ul", {class: "alerts"}, grouped(list).map(story)));
}

function story(list) {
  const r = list[0];
  const broken = r.kind === "incorrect";
  const falls = list.map((x) => x.before / x.after);
  const value = (v, low, high) => `${speedup(v)} (${interval(low, high)})`;
  const change = (x) =>
      `${value(x.before, x.before_low, x.before_high)} → ${value(x.after, x.after_low, x.after_high)}`;
  const one = (x) => (broken ? x.verdict : change(x));
  return h(
      "li", {"data-regression": r.op}, badge(broken ? r.verdict : slowerRange(falls), r.unlike ? "" : "bad"),
      h("span", {}, h("a", {class: "what", href: operatorLink(r.op)}, r.op), " ",
        h("span", {class: "muted"}, list.length === 1 ? r.scenario : `in ${list.length} scenarios`)),
      h("a", {href: link("compare", [], {runs: `${r.good_run},${r.latest_run}`}), class: "nowrap"}, "compare"),
      h("span", {class: "sentence"}, broken ? "Passed before, does not now; it broke " : "Slower ", range(r),
        r.device_name ? ` on ${r.device_name}` : "",
        r.unlike ? `; measured with ${r.unlike}.` : "; the candidate is the same."),
      (list.length > 1 || !broken) &&
          h("details", {open: list.length === 1 || null},
            h("summary", {}, list.length === 1 ? "Before and after" : `${list.length} scenarios`),
            h("ul", {}, list.map((x) => h("li", {}, h("span", {}, x.scenario), h("span", {}, one(x)))))));
}

function range(r) {
  const to = (run, hash, text) => h("a", {href: runLink(run)}, hash ? h("code", {}, commit(hash)) : text);
  if (r.good_commit && r.good_commit === r.bad_commit)
    return [
      "within commit ", h("code", {}, commit(r.good_commit)), ", between ", to(r.good_run, "", "this run"), " and ",
      to(r.bad_run, "", "this one")
    ];
  return [
    "between ", to(r.good_run, r.good_commit, "the last good run"), " and ",
    to(r.bad_run, r.bad_commit, "the first bad one")
  ];
}

export function bestTable(best) {
  return table(
      "best",
      [
        {
          key: "op",
          title: "Operator",
          value: (r) => r.op,
          class: "name",
          cell: (r) => h("a", {href: operatorLink(r.op)}, r.op)
        },
        {key: "level", title: "Level", value: (r) => r.level, cell: (r) => `L${r.level}`, class: "wide-only"},
        {
          key: "speedup",
          title: "Best confirmed",
          number: true,
          value: (r) => r.speedup,
          cell: (r) => [speedup(r.speedup), h("span", {class: "interval wide-only"}, interval(r.low, r.high))]
        },
        {key: "latest", title: "Latest", number: true, value: (r) => r.strip[0]?.speedup, cell: latestOf},
        {
          key: "trend",
          title: "Last runs",
          sortable: false,
          value: () => "",
          cell: (r) => sparkline(r.strip.map((c) => c.speedup).filter(Boolean).reverse())
        },
        {
          key: "scenarios",
          title: "Scenarios",
          number: true,
          value: (r) => r.timed,
          cell: (r) => (r.timed ? number(r.timed) : "–"),
          class: "wide-only"
        },
        {key: "runs", title: "Runs", number: true, value: (r) => r.runs, class: "wide-only"},
        {
          key: "set",
          title: "Set by",
          value: (r) => r.time_ms,
          class: "wide-only",
          cell: (r) =>
              (r.run_id ?
                   [
                     h("a", {href: runLink(r.run_id)}, ago(r.time_ms)), " ",
                     h("code", {class: "muted"}, commit(r.commit))
                   ] :
                   h("span", {class: "muted"}, "none confirmed yet"))
        },
      ],
      best, {text: (r) => r.op, caption: "Operators"});
}

// A run that passed without a valid time is neither a failure nor slow.
function latestOf(row) {
  const newest = row.strip[0];
  if (!newest) return "–";
  if (newest.failed) return badge(`${newest.failed} failed`, "bad");
  return newest.speedup ? speedup(newest.speedup) : h("span", {class: "muted"}, "passed, not timed");
}

function bestCard(best) {
  const view = bestTable(best);
  return card(
      "Best per operator", {
        flush: true,
        tools: [view.count, best.length > 8 && view.filter],
        note:
            "The fastest candidate whose gain was confirmed and lies above 1 with its whole 99 % interval; geometric mean over the scenarios of the newest run."
      },
      view.element);
}

export function modelsTable(models) {
  return table(
      "models",
      [
        {
          key: "model",
          title: "Model",
          value: (m) => m.model,
          class: "name",
          cell: (m) => h("a", {href: modelLink(m.model)}, m.model)
        },
        {key: "path", title: "Path", value: (m) => m.path},
        {key: "ttft", title: "TTFT", number: true, value: (m) => m.ttft_ms, cell: (m) => milliseconds(m.ttft_ms)},
        {key: "tpot", title: "TPOT", number: true, value: (m) => m.tpot_ms, cell: (m) => milliseconds(m.tpot_ms)},
        {
          key: "search",
          title: "Time to search",
          number: true,
          value: (m) => m.compile_ms,
          cell: (m) => milliseconds(m.compile_ms),
          class: "wide-only"
        },
        {
          key: "config",
          title: "Prompt + decode, dtype",
          value: (m) => m.prompt_tokens,
          cell: (m) => `${m.prompt_tokens} + ${m.decode_tokens}, ${m.dtype}`,
          class: "wide-only"
        },
        {
          key: "time",
          title: "Last",
          value: (m) => m.time_ms,
          cell: (m) => h("a", {href: runLink(m.run_id)}, ago(m.time_ms))
        },
      ],
      models, {text: (m) => `${m.model} ${m.path}`, caption: "Models", rowClass: (m) => (m.error ? "failed" : null)});
}

function modelsCard(models) {
  return card(
      "Models", {flush: true, note: "The newest result of each path: time to first token, time per token after it."},
      modelsTable(models).element);
}

function latest(data) {
  const view = runsTable(data.runs.slice(0, kLatest), {});
  return card(
      "Latest runs", {flush: true, tools: view.tools}, view.element,
      data.runs_total > kLatest &&
          h("p", {class: "more"},
            h("a", {href: link("runs")}, offline ? "All runs of this file" : `All ${number(data.runs_total)} runs`)));
}
