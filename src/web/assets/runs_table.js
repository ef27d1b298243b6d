// Runs as rows: what they were, what came out, and a box to choose the ones to compare.
import { badge, h } from "./dom.js";
import { ago, commit, number, speedup, verdictTone, when } from "./format.js";
import { link, runLink } from "./router.js";
import { table } from "./table.js";

// The figures a reader looks for first, by tier.
export function headline(run) {
  const m = run.metrics || {};
  const found = [];
  if (m.avg_speedup !== undefined) found.push(speedup(m.avg_speedup));
  if (m.total_passed !== undefined) found.push(`${number(m.total_passed)} passed`);
  if (m.total_failed) found.push(`${number(m.total_failed)} failed`);
  for (const [key, label, unit] of [["ttft_ms", "TTFT", "ms"], ["mean_ttft_ms", "TTFT", "ms"], ["tpot_ms", "TPOT", "ms"],
    ["tokens_per_second", "", "tok/s"], ["macro_score", "score", ""], ["avg_latency", "latency", "s"]])
    if (m[key] !== undefined && found.length < 3) found.push([label, number(m[key]), unit].filter(Boolean).join(" "));
  if (!found.length) for (const [key, value] of Object.entries(m).slice(0, 2)) found.push(`${key} ${number(value)}`);
  return found.join(" · ");
}

export const runText = (r) =>
  [r.id, r.name, r.tier, r.mode, r.status, r.commit, r.branch, r.device, r.device_name, r.host, ...Object.entries(r.tags || {}).flat(), ...Object.values(r.params || {})].join(" ");

export function runsTable(runs, { sort, tools = true } = {}) {
  const chosen = new Set();
  const compare = h("button", { type: "button", disabled: true, onclick: () => { location.hash = link("compare", [], { runs: [...chosen].join(",") }); } }, "Compare");

  function choose(id, on) {
    if (on) chosen.add(id);
    else chosen.delete(id);
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
    compare.classList.toggle("primary", chosen.size > 1);
  }

  const view = table("runs", [
    { key: "pick", title: "", sortable: false, value: () => "", cell: (r) => h("input", {
      type: "checkbox", "aria-label": `Choose ${r.name} for comparison`, checked: chosen.has(r.id), onchange: (e) => choose(r.id, e.target.checked) }) },
    { key: "time", title: "Time", value: (r) => r.time_ms, cell: (r) => h("span", { title: when(r.time_ms), class: "nowrap" }, ago(r.time_ms)) },
    { key: "name", title: "Run", value: (r) => r.name, class: "name", cell: (r) => [h("a", { href: runLink(r.id) }, r.name || r.id), r.tags.note && h("div", { class: "muted small" }, r.tags.note)] },
    { key: "tier", title: "Tier", value: (r) => r.tier, cell: (r) => r.tier },
    { key: "figures", title: "Key figures", number: false, value: (r) => r.metrics.avg_speedup ?? r.metrics.tokens_per_second, cell: headline },
    { key: "device", title: "Device", class: "wide-only", value: (r) => r.device_name || r.device },
    { key: "commit", title: "Commit", class: "wide-only", value: (r) => r.commit, cell: (r) => h("code", {}, commit(r.commit, r.dirty)) },
    { key: "status", title: "Status", value: (r) => r.status, cell: (r) => (r.status === "finished" ? h("span", { class: "muted" }, "finished") : badge(r.status, verdictTone(r.status))) },
  ], runs, { text: runText, sort, caption: "Runs", rowClass: (r) => (r.status === "failed" ? "failed" : null) });
  return { element: view.element, tools: tools ? [view.count, view.filter, compare] : [] };
}
