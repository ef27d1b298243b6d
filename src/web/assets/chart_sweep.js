// A value over search budgets (logarithmic), a line per run: the newest strong, older ones fading.
import {airy, axisBottom, axisLeft, chart} from "./chart.js";
import {mark, when} from "./format.js";
import {describe} from "./tip.js";

const kRuns = 8;

// sweeps: [{column: {id, time_ms, commit, dirty}, points: [{budget, value}]}], oldest first.
export function sweepLines(name, sweeps, {format, title, tone = "s1"} = {}) {
  const shown = sweeps.slice(-kRuns);
  return chart(name, 320, draw, {label: `${name} over search budgets, ${shown.length} runs`});

  function draw(svg, width, tall) {
    const left = 62, right = width - 92, top = 22, bottom = tall - 42;
    const budgets = [...new Set(shown.flatMap((s) => s.points.map((p) => p.budget)))].sort(d3.ascending);
    const x = d3.scaleLog().domain(budgets.length > 1 ? d3.extent(budgets) : [budgets[0] / 2, budgets[0] * 2]).range([
      left + 8, right - 8
    ]);
    const y =
        d3.scaleLinear().domain(airy(shown.flatMap((s) => s.points.map((p) => p.value)))).nice(5).range([bottom, top]);
    axisLeft(svg, y, {left, right, format, title});
    axisBottom(svg, x, {bottom, title: "search budget", right})
        .call(d3.axisBottom(x).tickValues(budgets).tickFormat((b) => String(b)).tickSize(4));
    shown.forEach((s, i) => {
      const newest = i === shown.length - 1;
      const points = s.points.slice().sort((a, b) => a.budget - b.budget);
      const group = svg.append("g")
                        .attr("class", newest ? tone : "s6")
                        .attr("opacity", newest ? 1 : 0.25 + (0.5 * (i + 1)) / shown.length);
      group.append("path")
          .attr("class", "line")
          .attr("data-mark", "run")
          .attr("d", d3.line().x((p) => x(p.budget)).y((p) => y(p.value))(points));
      const dots = group.selectAll("circle")
                       .data(points)
                       .enter()
                       .append("circle")
                       .attr("class", "dot")
                       .attr("data-mark", "point")
                       .attr("r", newest ? 4.5 : 3)
                       .attr("cx", (p) => x(p.budget))
                       .attr("cy", (p) => y(p.value));
      describe(dots, (p) => [`${mark(s.column)} · ${when(s.column.time_ms)}`, [
                       ["budget", String(p.budget)], ["value", format(p.value)]
                     ]]);
      if (newest && points.length)
        svg.append("text")
            .attr("class", "strong")
            .attr("x", right + 6)
            .attr("dominant-baseline", "central")
            .attr("y", y(points[points.length - 1].value))
            .text(mark(s.column));
    });
  }
}
