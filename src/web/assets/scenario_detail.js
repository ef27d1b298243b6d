// One scenario of a run: the verdict with its sentence, the samples as distributions, and the control.
import {get, has, part} from "./api.js";
import {mismatchChart} from "./chart_mismatch.js";
import {samplesChart} from "./chart_samples.js";
import {badge, card, empty, facts, h} from "./dom.js";
import {bytes, interval, nanoseconds, number, percent, rate, ratio, speedup, verdictTone} from "./format.js";

export async function scenarioCard(run, r) {
  const path = `/api/samples/${part(run.id)}/${part(r.op)}/${part(r.scenario)}`;
  const more = has(path) ? await get(path) : null;
  const flops = r.matrix_flops + r.vector_flops;
  return card(
      `${r.op} · ${r.scenario}`, {
        id: "scenario",
        tools: [
          badge(r.verdict, r.skipped ? "" : verdictTone(r.verdict)),
          r.speed_verdict &&
              badge(r.invalid ? "INVALID" : r.speed_verdict, verdictTone(r.invalid ? "INVALID" : r.speed_verdict))
        ],
        note: r.sentence || (more && more.detail.judgement && more.detail.judgement.sentence) || ""
      },
      facts([
        ["speed-up", r.speedup && `${speedup(r.speedup)} (${interval(r.low, r.high)})`],
        ["baseline, candidate", r.candidate_ns && `${nanoseconds(r.baseline_ns)}, ${nanoseconds(r.candidate_ns)}`],
        ["floor", r.floor_ns && `${nanoseconds(r.floor_ns)}, ${percent(r.of_floor, 1)} reached`],
        ["error ratio", Number.isFinite(r.err_ratio) && ratio(r.err_ratio)],
        ["moved at least", bytes(r.bytes)],
        ["work", flops > 0 && rate(flops, "FLOP")],
        ["counts as different from", r.delta && percent(r.delta, 2)],
        ["models", r.models.join(", ")],
        ["dtype", r.dtype],
        ["candidate", r.candidate],
        ["took", r.seconds && `${number(r.seconds)} s`],
      ]),
      more ? [wrongPlaces(r, more), samples(r, more)] :
             empty(
                 "Samples left out",
                 "This file carries the samples of its newest runs only; `fastkernels dashboard` shows all."));
}

// Where elements are wrong, if the run stored it.
function wrongPlaces(r, more) {
  const mismatch = more.detail?.mismatch || more.detail?.judgement?.mismatch;
  const picture = mismatchChart(`${r.op}-${r.scenario}-mismatch`, mismatch);
  if (!picture) return null;
  const shape = `${number(mismatch.rows)} × ${number(mismatch.cols)}`;
  return [
    h("h3", {}, `Where ${mismatch.output || "the output"} is wrong`),
    h("p", {class: "muted small"},
      [`${shape} elements; the redder, the more of them are wrong.`, mismatch.pattern].filter(Boolean).join(" ")),
    picture,
  ];
}

const flat = (launches, value) =>
    (launches ||
     []).flatMap((pairs, launch) => pairs.map((p) => ({v: value(p), launch, dropped: p[2] === "kept" ? "" : p[2]})));

function samples(r, more) {
  const name = `${r.op}-${r.scenario}`;
  const detail = more.detail || {};
  const parts = [];
  if ((more.samples || []).some((launch) => launch.length)) {
    parts.push(
        h("h3", {}, "Times"),
        h("p", {class: "muted small"},
          "A dot per timed sample, one line of dots a launch; the bar spans the quartiles, the tick is the median. Hollow dots were left out."),
        samplesChart(
            `${name}-samples`,
            [
              {name: "baseline", tone: "s6", values: flat(more.samples, (p) => p[0])},
              {name: "candidate", tone: "s1", values: flat(more.samples, (p) => p[1])}
            ],
            {format: nanoseconds, title: "time of one call"}));
    const lanes = [
      {name: "speed-up", tone: "s1", values: flat(more.samples, (p) => p[0] / p[1]), mark: {low: r.low, high: r.high}}
    ];
    if ((more.control_samples || []).some((launch) => launch.length))
      lanes.push({name: "A/A control", tone: "s6", values: flat(more.control_samples, (p) => p[0] / p[1])});
    parts.push(
        h("h3", {}, "Pairs, and the control"),
        h("p", {class: "muted small"},
          lanes.length > 1 ?
              [
                "Each pair's ratio. The control times the baseline against itself: it should be 1, and is off by ",
                percent(r.control_error, 2), "."
              ].join("") :
              "Each pair's ratio; the bar with ends is the 99 % interval.",
          r.invalid && h("span", {class: "warn"}, " ", r.invalid)),
        samplesChart(
            `${name}-pairs`, lanes,
            {format: (v) => `${v.toFixed(3)}x`, reference: 1, title: "baseline over candidate"}));
  } else {
    parts.push(
        r.speedup ? empty("No samples", "This run kept its figures only.") :
                    empty("Not timed", r.verdict === "PASSED" ? "No time was taken." : "Only what passes is timed."));
  }
  if (detail.explanation)
    parts.push(
        h("details", {open: true}, h("summary", {}, "What the machine allows"),
          h("pre", {class: "log"}, detail.explanation)));
  if (detail.repro) parts.push(h("p", {}, "Again, call by call: ", h("code", {class: "say"}, detail.repro)));
  const protections = detail.timing && detail.timing.protections;
  if (protections)
    parts.push(
        h("p", {class: "muted small"},
          "Judged behind: ", protections.map((p) => `${p.name}${p.on ? "" : ` (off: ${p.why})`}`).join(", "), "."));
  return parts;
}
