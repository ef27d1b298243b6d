// Any set of runs side by side. All are compared with the first; differences are marked.
import {get, offline, part} from "./api.js";
import {diffView} from "./code_view.js";
import {badge, breakable, card, empty, facts as factList, h, select} from "./dom.js";
import {ago, commit, interval, milliseconds, number, speedup, verdictTone, when} from "./format.js";
import {runLink, update} from "./router.js";
import {sourceText} from "./sources.js";

export async function comparePage({query}) {
  const ids = [...new Set((query.get("runs") || "").split(",").filter(Boolean))];
  const index = (await get(offline ? "/api/runs" : "/api/overview")).runs;
  const all = await Promise.all(ids.map((id) => get(`/api/run/${part(id)}`)));
  const head = h("div", {class: "head"}, h("h1", {}, "Compare"), chooser(ids, index, all.map((d) => d.run)));
  if (ids.length < 2)
    return [
      head,
      card(
          ids.length ? "One more" : "Choose runs", {},
          empty(
              ids.length ? "One run is chosen; add another." : "No runs chosen.",
              "Add runs above, or tick them in the list of runs and press Compare. The address keeps the choice, so it can be sent as a link."))
    ];
  return [head, ...sections(all)];
}

function chooser(ids, index, runs) {
  const rest = index.filter((r) => !ids.includes(r.id));
  const set = (list) => update({runs: list.join(",")}, {push: true});
  const called = (r) => `${r.name || r.id} · ${commit(r.commit, r.dirty)} · ${ago(r.time_ms)}`;
  return [
    h("div", {class: "tools"},
      select(
          "Add a run", [["", "Add a run…"], ...rest.map((r) => [r.id, called(r)])], "",
          (id) => id && set([...ids, id])),
      ids.length > 1 &&
          h("button", {type: "button", class: "quiet", onclick: () => set(ids.slice().reverse())}, "Reverse")),
    runs.length > 0 &&
        h("ul", {class: "chips sub"},
          runs.map(
              (r) =>
                  h("li", {}, h("a", {href: runLink(r.id)}, called(r)),
                    h("button", {
                      type: "button",
                      class: "quiet",
                      "aria-label": `Remove ${called(r)}`,
                      onclick: () => set(ids.filter((id) => id !== r.id))
                    },
                      "✕"))))
  ];
}

function sections(all) {
  const runs = all.map((d) => d.run);
  const facts = new Map([
    ["time", runs.map((r) => when(r.time_ms))], ["commit", runs.map((r) => commit(r.commit, r.dirty))],
    ["branch", runs.map((r) => r.branch)], ["device", runs.map((r) => r.device_name || r.device)],
    ["host", runs.map((r) => r.host)], ["status", runs.map((r) => r.status)]
  ]);
  for (const key of [...new Set(runs.flatMap((r) => Object.keys(r.params)))].sort())
    facts.set(key, runs.map((r) => r.params[key]));
  return [
    settingsGrid(
        runs,
        [...facts]
            .filter(([, v]) => v.some((x) => x !== undefined && x !== ""))
            .map(([name, values]) => ({name, cells: values.map((v) => ({text: v === undefined ? "–" : v, key: v}))}))),
    metricGrid(all, runs),
    scenarioGrid(all, runs),
    ttftGrid(all, runs),
    sourceDiff(all),
  ];
}

// Values that are the same in every run are folded into one list.
function settingsGrid(runs, rows) {
  const same = rows.filter((r) => !differs(r));
  const folded = same.length > 0 &&
      h("details", {class: "fold", id: "compare-same"},
        h("summary", {}, `${number(same.length)} more, the same in all`),
        factList(same.map((r) => [r.name, r.cells[0].text])));
  const title = "Parameters and place", other = rows.filter(differs);
  const note = `${other.length} of ${rows.length} differ.`;
  return other.length ? grid(title, "settings", runs, other, note, folded) : card(title, {flush: true, note}, folded);
}

function grid(title, id, runs, rows, note, below) {
  if (!rows.length) return null;
  const sorted = [...rows.filter(differs), ...rows.filter((r) => !differs(r))];
  return card(
      title, {flush: true, note: note || `${rows.filter(differs).length} of ${rows.length} differ.`},
      h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": title},
        h("table", {id: `compare-${id}`},
          h("thead", {},
            h("tr", {}, h("th", {scope: "col"}, ""),
              runs.map(
                  (r, i) =>
                      h("th", {scope: "col", class: rows[0].number ? "number" : null},
                        h("a", {href: runLink(r.id)}, r.name || r.id),
                        h("span", {class: "under"}, commit(r.commit, r.dirty), " · ",
                          i ? ago(r.time_ms) : "reference"))))),
          h("tbody", {},
            sorted.map(
                (row) =>
                    h("tr", {}, h("th", {scope: "row", class: differs(row) ? "differs" : null}, breakable(row.name)),
                      row.cells.map(
                          (c) =>
                              h("td", {
                                class: [
                                  row.number && "number", (c.apart ?? c.key !== row.cells[0].key) && "differs",
                                  c.text === "–" && "missing"
                                ].filter(Boolean)
                                           .join(" ") ||
                                    null
                              },
                                c.node || c.text,
                                c.change && h("span", {class: `interval ${c.tone || ""}`}, c.change)))))))),
      below);
}

const differs = (row) => row.differs ?? row.cells.some((c) => c.key !== row.cells[0].key);

// A value counts as different if its interval does not overlap that of the first run, or, if the noise is unknown, if
// the number differs. `spread`: [low, high], as in `fastkernels history diff`.
function compared(values, spreads, format) {
  const [base, noise] = [values[0], spreads[0]];
  const cells = values.map((v, i) => {
    const noisy = noise && spreads[i];
    const apart = i > 0 && v !== base && !(noisy && spreads[i][0] <= noise[1] && noise[0] <= spreads[i][1]);
    return {key: v, apart, text: format(v), change: i && isKnown(v) && base ? relative(v / base - 1) : ""};
  });
  return {number: true, cells, differs: cells.some((c) => c.apart)};
}

const isKnown = (v) => v !== undefined && v !== null;
const kNoise = "Values whose interval, or whose samples, meet those of the first run count as the same.";

function metricGrid(all, runs) {
  const keys = [...new Set(runs.flatMap((r) => Object.keys(r.metrics)))].sort();
  const rows = keys.map((name) => ({
                          name,
                          ...compared(runs.map((r) => r.metrics[name]), all.map((d) => d.spreads[name]), number),
                        }));
  return grid("Metrics", "metrics", runs, rows, `${rows.filter(differs).length} of ${rows.length} differ. ${kNoise}`);
}

// "+12.0 %", and beyond three times as much "209x".
function relative(x) {
  if (Math.abs(x) < 5e-5) return "";
  return x > 2 ? `${(x + 1).toFixed(x < 9 ? 1 : 0)}x` : `${x > 0 ? "+" : "−"}${(100 * Math.abs(x)).toFixed(1)} %`;
}

const ranked = (r) => r.verdict === "PASSED" && r.speedup && !r.invalid;

// Two speed-ups differ if their intervals do not overlap.
function scenarioGrid(all, runs) {
  const keys = [...new Set(all.flatMap((d) => d.results.map((r) => `${r.op}|${r.scenario}`)))];
  const rows = keys.map((name) => {
    const found = all.map((d) => d.results.find((r) => `${r.op}|${r.scenario}` === name));
    const base = found[0];
    const cells = found.map((r) => {
      if (!r) return {text: "–", key: null};
      const apart = base && r !== base && ranked(r) && ranked(base) && (r.low > base.high || r.high < base.low);
      const broke = base && r.verdict !== base.verdict;
      return {
        key: r.verdict,
        apart: Boolean(apart || broke),
        node: ranked(r)            ? [speedup(r.speedup), h("span", {class: "interval"}, interval(r.low, r.high))] :
            r.verdict === "PASSED" ? h("span", {class: "muted"}, "passed, not timed") :
                                     badge(r.verdict, r.skipped ? "" : verdictTone(r.verdict)),
        change: apart ? relative(r.speedup / base.speedup - 1) : "",
        tone: apart ? (r.speedup > base.speedup ? "good" : "bad") : ""
      };
    });
    return {name: name.replace("|", " · "), number: true, cells, differs: cells.some((c) => c.apart)};
  });
  return grid("Scenarios", "scenarios", runs, rows, [
    "Speed-up over each run's own baseline. ", rows.filter((r) => r.differs).length, " of ", rows.length,
    " differ beyond noise: their 99 % intervals do not meet, or the verdict changed."
  ].join(""));
}

function ttftGrid(all, runs) {
  const label =
      (r) => [r.config || r.model, r.path, r.search_iters].filter((x) => x !== null && x !== undefined).join(" · ");
  const keys = [...new Set(all.flatMap((d) => d.ttft.map(label)))];
  const fields = [["TTFT", "ttft_ms"], ["TPOT", "tpot_ms"], ["search", "compile_ms"]];
  const rows = keys.flatMap((key) => {
    const found = all.map((d) => d.ttft.find((r) => label(r) === key));
    return fields.filter(([, field]) => found.some((r) => r?.[field] > 0))
        .map(([title, field]) => ({
               name: `${key} · ${title}`,
               ...compared(found.map((r) => r?.[field]), found.map((r) => r?.spreads[field]), milliseconds),
             }));
  });
  return grid(
      "Model times", "ttft", runs, rows,
      `${rows.filter(differs).length} of ${rows.length} differ. ${
          kNoise} On a busy machine separate runs differ by more.`);
}

async function sourceDiff(all) {
  const [a, b] = [all[0], all[all.length - 1]].map((d) => d.artifacts.filter((x) => x.path.startsWith("kernels/")));
  const both = a.flatMap((x) => b.filter((y) => y.path === x.path).map((y) => [x, y]));
  if (!both.length) return null;
  const same = both.filter(([x, y]) => x.sha256 === y.sha256).map(([x]) => x.path.replace("kernels/", ""));
  return Promise.all([
    ...both.filter(([x, y]) => x.sha256 !== y.sha256)
        .map(
            async ([x, y]) => card(
                x.path, {flush: true, note: "From the first run to the last."},
                diffView(await sourceText(x.sha256), await sourceText(y.sha256)))),
    same.length > 0 && card("Sources that are the same", {note: same.join(", ")}),
  ]);
}
