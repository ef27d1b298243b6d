// Speed-up of each scenario: a column per number of tokens, a row per model (and position in it).
import {chart} from "./chart.js";
import {heatColour, inkOn, kCharacter, shorten} from "./colour_scale.js";
import {nanoseconds, percent, scenarioParts, speedup} from "./format.js";
import {describe, hideTip} from "./tip.js";

export function heatMap(name, results, {open} = {}) {
  const cells = results.map((r) => {
    const parts = scenarioParts(r.scenario);
    const tokens = parts.tokens || r.tokens;  // those of the step; an operator may see fewer rows
    return {
      r,
      row: parts.place ? `${parts.model} · ${parts.place}` : parts.model,
      column: parts.model === "contract" || !tokens ? parts.step : String(tokens)
    };
  });
  // Prefill and decode of the same number of tokens are two columns only if both exist.
  const steps = new Map();
  for (const c of cells) {
    const step = scenarioParts(c.r.scenario).step;
    if (!steps.has(c.column)) steps.set(c.column, new Set());
    steps.get(c.column).add(step);
  }
  for (const c of cells)
    if (steps.get(c.column).size > 1) c.column = scenarioParts(c.r.scenario).step;
  const rows = [...new Set(cells.map((c) => c.row))].sort();
  const columns = [...new Set(cells.map((c) => c.column))].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
  const ranked = (r) => r.verdict === "PASSED" && r.speedup && !r.invalid;
  const rowHeight = 30;
  return chart(
      name, 26 + rows.length * rowHeight, draw, {label: `Speed-up by model and tokens, ${cells.length} scenarios`});

  function draw(svg, width) {
    const longest = d3.max(rows, (r) => r.length) || 1;
    const left = Math.min(width * 0.42, longest * kCharacter + 14);
    const x = d3.scaleBand().domain(columns).range([left, width]).paddingInner(0.02);
    const colour = heatColour(cells.map((c) => c.r.speedup).filter((v) => v > 0));
    svg.selectAll(".row")
        .data(rows)
        .enter()
        .append("text")
        .attr("x", left - 10)
        .attr("text-anchor", "end")
        .attr("y", (d, i) => 26 + (i + 0.5) * rowHeight)
        .attr("dominant-baseline", "central")
        .text((d) => shorten(d, (left - 12) / kCharacter));
    svg.selectAll(".column")
        .data(columns)
        .enter()
        .append("text")
        .attr("text-anchor", "middle")
        .attr("x", (d) => x(d) + x.bandwidth() / 2)
        .attr("y", 14)
        .text((d) => shorten(d, x.bandwidth() / kCharacter));
    if (columns.every((c) => /^\d+$/.test(c)))
      svg.append("text").attr("x", left - 10).attr("y", 14).attr("text-anchor", "end").text("tokens");
    const groups = svg.selectAll(".place").data(cells).enter().append("g").attr(
        "transform", (d) => `translate(${x(d.column)},${26 + rows.indexOf(d.row) * rowHeight})`);
    const rects =
        groups.append("rect")
            .attr("data-mark", "cell")
            .attr("width", x.bandwidth())
            .attr("height", rowHeight)
            .attr("rx", 3)
            .attr(
                "class",
                (d) =>
                    (d.r.verdict !== "PASSED" ?
                         (d.r.verdict === "INVALID_TASK" || d.r.verdict === "REFUSED" ? "cell none" : "cell broken") :
                         ranked(d.r) ? "cell" :
                                       "cell none"));
    rects.filter((d) => ranked(d.r)).attr("fill", (d) => colour(d.r.speedup));
    groups.filter((d) => ranked(d.r) && x.bandwidth() > 34)
        .append("text")
        .attr("class", "cell-text")
        .style("fill", (d) => inkOn(colour(d.r.speedup)))
        .attr("x", x.bandwidth() / 2)
        .attr("y", rowHeight / 2)
        .attr("dominant-baseline", "central")
        .text((d) => d.r.speedup.toFixed(2));
    groups.filter((d) => d.r.verdict !== "PASSED")
        .append("text")
        .attr(
            "class",
            (d) => d.r.verdict === "INVALID_TASK" || d.r.verdict === "REFUSED" ? "cell-text none" : "cell-text broken")
        .attr("text-anchor", "middle")
        .attr("x", x.bandwidth() / 2)
        .attr("y", rowHeight / 2)
        .attr("dominant-baseline", "central")
        .text((d) => (d.r.verdict === "INVALID_TASK" || d.r.verdict === "REFUSED" ? "n/a" : "✕"));
    groups.filter((d) => d.r.verdict === "PASSED" && !ranked(d.r) && x.bandwidth() > 44)
        .append("text")
        .attr("class", "cell-text none")
        .attr("x", x.bandwidth() / 2)
        .attr("y", rowHeight / 2)
        .attr("dominant-baseline", "central")
        .text("no time");
    describe(rects, (d) => [d.r.scenario, [
                      ["speed-up", ranked(d.r) ? speedup(d.r.speedup) : "–"],
                      ["verdict", d.r.verdict === "PASSED" && !ranked(d.r) ? "PASSED, not timed" : d.r.verdict],
                      ["baseline", nanoseconds(d.r.baseline_ns)], ["candidate", nanoseconds(d.r.candidate_ns)],
                      ["of floor", percent(d.r.of_floor)]
                    ]]);
    if (open)
      rects.style("cursor", "pointer")
          .on("click",
              (d) => {
                hideTip();
                open(d.r);
              })
          .on("keydown", (d) => d3.event.key === "Enter" && open(d.r));
  }
}

function order(column) {
  const n = /(\d+)$/.exec(column);
  return (n ? Number(n[1]) : 1e9) + (column.startsWith("prefill") ? 0.5 : 0);
}
