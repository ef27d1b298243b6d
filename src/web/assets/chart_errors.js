// The worst error of each scenario as a share of the allowed error: everything to the right of 1 is wrong.
import {axisBottom, chart, logTicks} from "./chart.js";
import {kCharacter, shorten} from "./colour_scale.js";
import {ratio} from "./format.js";
import {describe} from "./tip.js";

export function errorChart(name, results) {
  const points = results.filter((r) => Number.isFinite(r.err_ratio));
  if (!points.length) return null;
  const rowHeight = 22;
  return chart(name, 58 + points.length * rowHeight, draw, {label: `Error ratios of ${points.length} scenarios`});

  function draw(svg, width, tall) {
    const longest = d3.max(points, (r) => r.scenario.length);
    const left = Math.min(width * 0.45, longest * kCharacter + 14), right = width - 16, bottom = tall - 42;
    const least = Math.max(1e-4, d3.min(points, (r) => r.err_ratio || 1e-4));
    const x = d3.scaleLog()
                  .domain([Math.min(least / 1.5, 0.1), Math.max(2, d3.max(points, (r) => r.err_ratio) * 1.5)])
                  .range([left, right])
                  .clamp(true);
    axisBottom(svg, x, {bottom, title: "largest error, of what is allowed", right})
        .call(d3.axisBottom(x)
                  .tickValues(logTicks(x, 5))
                  .tickFormat((v) => String(Number(v.toPrecision(2))))
                  .tickSize(4));
    svg.append("line").attr("class", "limit").attr("x1", x(1)).attr("x2", x(1)).attr("y1", 4).attr("y2", bottom);
    const row = (i) => 8 + (i + 0.5) * rowHeight;
    svg.selectAll(".name")
        .data(points)
        .enter()
        .append("text")
        .attr("x", left - 10)
        .attr("text-anchor", "end")
        .attr("y", (d, i) => row(i))
        .attr("dominant-baseline", "central")
        .text((d) => shorten(d.scenario, (left - 12) / kCharacter));
    svg.selectAll(".stem")
        .data(points)
        .enter()
        .append("line")
        .attr("class", "drop")
        .attr("x1", left)
        .attr("x2", (d) => x(d.err_ratio || least))
        .attr("y1", (d, i) => row(i))
        .attr("y2", (d, i) => row(i));
    const dots = svg.append("g")
                     .selectAll("circle")
                     .data(points)
                     .enter()
                     .append("g")
                     .attr("class", (d) => (d.err_ratio > 1 ? "s5" : "s1"))
                     .append("circle")
                     .attr("class", "dot")
                     .attr("data-mark", "error")
                     .attr("r", 4.5)
                     .attr("cx", (d) => x(d.err_ratio || least))
                     .attr("cy", (d, i) => row(i));
    describe(dots, (d) => [d.scenario, [["error ratio", ratio(d.err_ratio)], ["verdict", d.verdict]]]);
  }
}
