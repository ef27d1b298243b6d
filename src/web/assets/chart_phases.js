// What the time to search was spent with: a bar per path, or per kind of pass, divided into phases.
import {chart} from "./chart.js";
import {kCharacter, shorten} from "./colour_scale.js";
import {milliseconds} from "./format.js";
import {describe} from "./tip.js";

const kPhases = [
  ["find_ms", "finding kernels", "s1"], ["compile_ms", "compiling", "s2"], ["trial_ms", "measuring", "s3"],
  ["capture_ms", "recording graphs", "s4"], ["steps_ms", "timing whole steps", "s5"], ["rest", "the rest", "s6"]
];

// rows: [{name, total, phases: {find_ms, ...}}]
export function phaseChart(name, rows) {
  const rowHeight = 28;
  const bars = rows.map((r) => {
    const known = d3.sum(kPhases, ([key]) => r.phases[key] || 0);
    let at = 0;
    const parts = kPhases
                      .map(([key, title, tone]) => {
                        const value = key === "rest" ? Math.max(0, r.total - known) : r.phases[key] || 0;
                        at += value;
                        return {title, tone, value, from: at - value, row: r.name};
                      })
                      .filter((p) => p.value > 0);
    return {name: r.name, total: at, parts};
  });
  const used = kPhases.filter(([, title]) => bars.some((b) => b.parts.some((p) => p.title === title)));
  return chart(name, 8 + bars.length * rowHeight, draw, {
    label: `${name}: ${bars.map((b) => `${b.name} ${milliseconds(b.total)}`).join(", ")}`,
    legend: used.map(([, title, tone]) => [title, tone])
  });

  function draw(svg, width) {
    const left = Math.min(width * 0.34, (d3.max(bars, (b) => b.name.length) || 1) * kCharacter + 12);
    const x =
        d3.scaleLinear().domain([0, d3.max(bars, (b) => b.total) || 1]).range([0, Math.max(20, width - left - 84)]);
    const lines = svg.selectAll("g").data(bars).enter().append("g").attr(
        "transform", (b, i) => `translate(0,${4 + i * rowHeight})`);
    lines.append("text")
        .attr("x", left - 10)
        .attr("y", rowHeight / 2)
        .attr("text-anchor", "end")
        .attr("dominant-baseline", "central")
        .text((b) => shorten(b.name, (left - 10) / kCharacter));
    const parts = lines.selectAll("rect")
                      .data((b) => b.parts)
                      .enter()
                      .append("g")
                      .attr("class", (p) => p.tone)
                      .append("rect")
                      .attr("class", "bar-mark")
                      .attr("data-mark", "phase")
                      .attr("x", (p) => left + x(p.from))
                      .attr("y", 4)
                      .attr("height", rowHeight - 8)
                      .attr("width", (p) => Math.max(0.5, x(p.value)));
    describe(parts, (p) => [`${p.row}: ${p.title}`, [["takes", milliseconds(p.value)]]]);
    lines.append("text")
        .attr("class", "bar-value")
        .attr("dominant-baseline", "central")
        .attr("y", rowHeight / 2)
        .attr("x", (b) => left + x(b.total) + 8)
        .text((b) => milliseconds(b.total));
  }
}
