// Runs as rows: name, key figures, and a checkbox to compare them.
import {badge, h} from "./dom.js";
import {ago, commit, milliseconds, number, speedup, verdictTone, when} from "./format.js";
import {link, runLink} from "./router.js";
import {table} from "./table.js";

// The key figures, by tier.
function headline(run) {
  const m = run.metrics || {};
  const found = [];
  if (m.avg_speedup !== undefined) found.push(speedup(m.avg_speedup));
  if (m.total_passed !== undefined) found.push(`${number(m.total_passed)} passed`);
  if (m.total_failed) found.push(`${number(m.total_failed)} failed`);
  const time = (label, value) => value !== undefined && found.push(`${label} ${milliseconds(value)}`);
  time("TTFT", m.ttft_ms ?? m.mean_ttft_ms);
  time("TPOT", m.tpot_ms ?? m.mean_tpot_ms);
  if (m.tokens_per_second !== undefined) found.push(`${number(m.tokens_per_second)} tok/s`);
  if (m.macro_score !== undefined) found.push(`score ${number(m.macro_score)}`);
  if (!found.length)
    for (const [key, value] of Object.entries(m).slice(0, 2)) found.push(`${key} ${number(value)}`);
  return found.slice(0, 3).join(" · ");
}

export const runText = (r) => [r.id, r.name, r.tier, r.mode, r.status, r.commit, r.branch, r.device, r.device_name,
                               r.host, ...Object.entries(r.tags || {}).flat(), ...Object.values(r.params || {})]
                                  .join(" ");

// Runs ticked for comparison. Belongs to the page, not the table: a live update redraws the table.
const chosen = new Set();

export function runsTable(runs, {sort, tools = true} = {}) {
  const compare =
      h("button", {
        type: "button",
        disabled: true,
        onclick: () => {
          const runs = [...chosen].join(",");
          chosen.clear();
          location.hash = link("compare", [], {runs});
        }
      },
        "Compare");

  function choose(id, on) {
    if (on)
      chosen.add(id);
    else
      chosen.delete(id);
    label();
  }

  function label() {
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
    compare.classList.toggle("primary", chosen.size > 1);
  }

  const column = (key, title, value, cell, kind) => ({key, title, value, cell, class: kind});
  const box = (r) => h("input", {
    type: "checkbox",
    "aria-label": `Choose ${r.name} for comparison`,
    checked: chosen.has(r.id),
    onchange: (event) => choose(r.id, event.target.checked),
  });
  const name = (r) =>
      [h("a", {href: runLink(r.id)}, r.name || r.id), r.tags.note && h("div", {class: "muted small"}, r.tags.note)];
  const status = (r) =>
      (r.status === "finished" ? h("span", {class: "muted"}, r.status) : badge(r.status, verdictTone(r.status)));
  const columns = [
    {key: "pick", title: "", sortable: false, value: () => "", cell: box},
    column("time", "Time", (r) => r.time_ms, (r) => h("span", {title: when(r.time_ms)}, ago(r.time_ms)), "nowrap"),
    column("name", "Run", (r) => r.name, name, "name"),
    column("tier", "Tier", (r) => r.tier, null, "wide-only"),
    column("figures", "Key figures", (r) => r.metrics.avg_speedup ?? r.metrics.tokens_per_second, headline),
    column("device", "Device", (r) => r.device_name || r.device, null, "wide-only nowrap"),
    column("commit", "Commit", (r) => r.commit, (r) => h("code", {}, commit(r.commit, r.dirty)), "wide-only"),
    column("status", "Status", (r) => r.status, status),
  ];
  const rowClass = (r) => (r.status === "failed" ? "failed" : null);
  const view = table("runs", columns, runs, {text: runText, sort, caption: "Runs", rowClass});
  label();
  return {element: view.element, tools: tools ? [view.count, view.filter, compare] : []};
}
