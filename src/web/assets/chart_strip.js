// Speed-ups of all operators: a row per operator, a cell per run, the newest first. A row has only runs over the same
// scenarios on the same device.
import {chart} from "./chart.js";
import {heatColour, inkOn, kCharacter, shorten} from "./colour_scale.js";
import {interval, mark, speedup, when} from "./format.js";
import {operatorLink, runLink} from "./router.js";
import {describe, hideTip} from "./tip.js";

const kRow = 26;
const kTop = 20;

// operators: [{op, strip: [{run_id, run_name, time_ms, commit, speedup, low, high, passed, failed, verdict}]}]
export function stripChart(name, operators) {
  const rows = operators.filter((o) => o.strip.length)
                   .sort((a, b) => b.strip[0].time_ms - a.strip[0].time_ms || a.op.localeCompare(b.op));
  if (!rows.length) return null;
  return chart(
      name, kTop + rows.length * kRow, draw, {label: `Speed-ups of ${rows.length} operators over their newest runs`});

  function draw(svg, width) {
    const longest = d3.max(rows, (r) => r.op.length);
    const left = Math.min(width * 0.4, longest * kCharacter + 14);
    const newest = 58;  // the first cell has its value written in it
    const most = d3.max(rows, (r) => r.strip.length);
    const step = Math.max(8, Math.min(34, (width - left - newest - 4) / Math.max(1, most - 1)));
    const room = 1 + Math.floor((width - left - newest - 4) / step);
    const x = (i) => (i === 0 ? left : left + newest + 4 + (i - 1) * step);
    const wide = (i) => (i === 0 ? newest : step - 2);
    const speeds = rows.flatMap((r) => r.strip.slice(0, room).map((c) => c.speedup)).filter((v) => v > 0);
    const colour = heatColour(speeds);
    const head = (at, text) => svg.append("text").attr("x", at).attr("y", 11).text(text);
    head(left, "newest");
    if (most > 1 && width - left > 200) head(left + newest + 4, "→ older");
    const names = svg.selectAll(".row-name")
                      .data(rows)
                      .enter()
                      .append("a")
                      .attr("href", (r) => operatorLink(r.op))
                      .append("text")
                      .attr("class", "strong")
                      .attr("x", left - 10)
                      .attr("text-anchor", "end")
                      .attr("dominant-baseline", "central")
                      .attr("y", (r, i) => kTop + (i + 0.5) * kRow - 1)
                      .text((r) => shorten(r.op, (left - 12) / kCharacter));
    names.append("title").text((r) => r.op);
    const cells = rows.flatMap((r, row) => r.strip.slice(0, room).map((c, i) => ({r, row, c, i})));
    const groups = svg.selectAll(".place").data(cells).enter().append("g").attr(
        "transform", (d) => `translate(${x(d.i)},${kTop + d.row * kRow})`);
    const rects = groups.append("rect")
                      .attr("data-mark", (d) => kMarks[d.c.verdict] || "run")
                      .attr("width", (d) => wide(d.i))
                      .attr("height", kRow - 3)
                      .attr("rx", 3)
                      .attr(
                          "class",
                          (d) =>
                              (d.c.failed      ? "cell broken" :
                                   d.c.speedup ? "cell" :
                                                 "cell none"))
                      .attr("fill", (d) => (d.c.speedup && !d.c.failed ? colour(d.c.speedup) : null))
                      .style("cursor", "pointer");
    groups.filter((d) => d.i === 0 || (d.c.failed && step > 11))
        .append("text")
        .attr(
            "class",
            (d) =>
                (d.c.failed      ? "cell-text broken" :
                     d.c.speedup ? "cell-text" :
                                   "cell-text none"))
        .style("fill", (d) => (d.c.speedup && !d.c.failed ? inkOn(colour(d.c.speedup)) : null))
        .attr("x", (d) => wide(d.i) / 2)
        .attr("y", (kRow - 3) / 2)
        .attr("dominant-baseline", "central")
        .text(
            (d) =>
                (d.c.failed ? (d.i === 0 ? `${d.c.failed} wrong` : "✕") :
                     d.c.speedup         ? `${d.c.speedup.toFixed(2)}x` :
                                           "no time"));
    describe(
        rects,
        (d) => [`${d.r.op} · ${mark(d.c)} · ${when(d.c.time_ms)}`, [
          ["speed-up", d.c.speedup ? speedup(d.c.speedup) : "–"], ["99 % interval", interval(d.c.low, d.c.high)],
          ["verdict", d.c.verdict], ["passed", `${d.c.passed} of ${d.c.passed + d.c.failed}`], ["run", d.c.run_name]
        ].filter(([, v]) => v)]);
    const open = (d) => {
      hideTip();
      location.hash = runLink(d.c.run_id);
    };
    rects.on("click", open).on("keydown", (d) => d3.event.key === "Enter" && open(d));
  }
}

const kMarks = {
  FAILED: "failed",
  "NOT TIMED": "not-timed",
  "NO CREDIT": "not-timed"
};
