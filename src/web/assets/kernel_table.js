// Results of `kernels` as rows: one scenario each, its verdict with its sentence, its times, its share of the floor.
import {badge, breakable, h} from "./dom.js";
import {interval, nanoseconds, percent, ratio, speedup, verdictTone} from "./format.js";
import {link, operatorLink} from "./router.js";
import {table} from "./table.js";

const where = (page, run, r) => link(page, [run.id], {at: `${r.op}|${r.scenario}`});

// A candidate that does not build fails every scenario with the same sentence; the card below shows that of `at`.
function firstToSay(results, at) {
  const said = new Map([[at && at.sentence, null]]);
  for (const r of results)
    if (!said.has(r.sentence)) said.set(r.sentence, r);
  return (r) => said.get(r.sentence) === r;
}

function name(page, run, r, says) {
  return [
    h("a", {href: where(page, run, r)}, breakable(r.scenario)),
    r.sentence && says(r) && h("div", {class: r.skipped ? "muted small" : "why"}, r.sentence),
  ];
}

function speed(r) {
  const verdict = r.invalid ? "INVALID" : r.speed_verdict;
  return r.speed_verdict ? badge(verdict, verdictTone(verdict)) : "–";
}

const number = (key, title, value, cell) => ({key, title, number: true, value, cell});
const words = (key, title, value, cell, kind) => ({key, title, class: kind, value, cell});

export function kernelTable(run, results, at, page = "run") {
  const says = firstToSay(results, at);
  const several = results.some((r) => r.op !== results[0].op);
  const columns = [
    several && words("op", "Operator", (r) => r.op, (r) => h("a", {href: operatorLink(r.op)}, r.op)),
    words("scenario", "Scenario", (r) => r.scenario, (r) => name(page, run, r, says), "name long"),
    words("verdict", "Verdict", (r) => r.verdict, (r) => badge(r.verdict, r.skipped ? "" : verdictTone(r.verdict))),
    number("err", "Error ratio", (r) => r.err_ratio, (r) => ratio(r.err_ratio)),
    number("baseline", "Baseline", (r) => r.baseline_ns, (r) => nanoseconds(r.baseline_ns)),
    number("candidate", "Candidate", (r) => r.candidate_ns, (r) => nanoseconds(r.candidate_ns)),
    number(
        "speedup", "Speed-up", (r) => (r.invalid ? null : r.speedup),
        (r) =>
            (r.invalid ? h("span", {class: "muted"}, "not timed") :
                         [speedup(r.speedup), h("span", {class: "interval"}, interval(r.low, r.high))])),
    words("speed", "Speed", (r) => r.speed_verdict, speed),
    number("floor", "Of floor", (r) => r.of_floor, (r) => percent(r.of_floor)),
  ];
  return table("results", columns.filter(Boolean), results, {
    text: (r) => `${r.op} ${r.scenario} ${r.verdict} ${r.speed_verdict} ${r.sentence}`,
    caption: "Results",
    tall: results.length > 16,
    rowClass: (r) =>
        (r.verdict !== "PASSED" && !r.skipped ? "failed" :
             r === at                         ? "at" :
                                                null),
  });
}
