// Results of `kernels` as rows: one scenario each, its verdict with its sentence, its times, its place on the machine.
import { badge, h } from "./dom.js";
import { interval, nanoseconds, percent, ratio, speedup, verdictTone } from "./format.js";
import { link, operatorLink } from "./router.js";
import { table } from "./table.js";

export function kernelTable(run, results, at, page = "run") {
  return table("results", [
    results.some((r) => r.op !== results[0].op) && { key: "op", title: "Operator", value: (r) => r.op, cell: (r) => h("a", { href: operatorLink(r.op) }, r.op) },
    { key: "scenario", title: "Scenario", value: (r) => r.scenario, class: "name long", cell: (r) => [h("a", { href: link(page, [run.id], { at: `${r.op}|${r.scenario}` }) }, r.scenario), r.sentence && h("div", { class: r.skipped ? "muted small" : "why" }, r.sentence)] },
    { key: "verdict", title: "Verdict", value: (r) => r.verdict, cell: (r) => badge(r.verdict, r.skipped ? "" : verdictTone(r.verdict)) },
    { key: "err", title: "Error ratio", number: true, value: (r) => r.err_ratio, cell: (r) => ratio(r.err_ratio) },
    { key: "baseline", title: "Baseline", number: true, value: (r) => r.baseline_ns, cell: (r) => nanoseconds(r.baseline_ns) },
    { key: "candidate", title: "Candidate", number: true, value: (r) => r.candidate_ns, cell: (r) => nanoseconds(r.candidate_ns) },
    { key: "speedup", title: "Speed-up", number: true, value: (r) => r.speedup, cell: (r) => [speedup(r.speedup), h("span", { class: "interval" }, interval(r.low, r.high))] },
    { key: "speed", title: "Speed", value: (r) => r.speed_verdict, cell: (r) => (r.speed_verdict ? badge(r.invalid ? "INVALID" : r.speed_verdict, verdictTone(r.invalid ? "INVALID" : r.speed_verdict)) : "–") },
    { key: "floor", title: "Of floor", number: true, value: (r) => r.of_floor, cell: (r) => percent(r.of_floor) },
  ].filter(Boolean), results, { text: (r) => `${r.op} ${r.scenario} ${r.verdict} ${r.speed_verdict} ${r.sentence}`, caption: "Results", tall: results.length > 16,
    rowClass: (r) => (r.verdict !== "PASSED" && !r.skipped ? "failed" : r === at ? "at" : null) });
}
