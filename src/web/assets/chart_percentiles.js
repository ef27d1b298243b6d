// A distribution as its percentiles, a line per load or side: how long the slowest tokens take. Logarithmic, since the
// slowest may take a hundred times as long.
import {axisBottom, axisLeft, chart, logTicks, tone} from "./chart.js";
import {milliseconds} from "./format.js";
import {describe} from "./tip.js";

const kTold = [50, 90, 99];

// lines: [{name, values}]: values at 0, 1, ... 100 %.
export function percentileChart(name, lines, {title}) {
  return chart(name, 300, draw, {label: `${title}, by percentile`, legend: lines.map((l, i) => [l.name, tone(i)])});

  function draw(svg, width, tall) {
    const left = 62, right = width - 16, top = 22, bottom = tall - 42;
    const x = d3.scaleLinear().domain([0, 100]).range([left, right]);
    const positive = lines.flatMap((l) => l.values).filter((v) => v > 0);
    const [low, high] = d3.extent(positive.length ? positive : [1]);
    const least = Math.max(low, high / 1e5);
    const y = d3.scaleLog().domain([least / 1.2, high * 1.2]).range([bottom, top]);
    axisLeft(svg, y, {left, right, format: milliseconds, title})
        .call(d3.axisLeft(y).tickValues(logTicks(y)).tickFormat(milliseconds).tickSize(-(right - left)).tickPadding(8))
        .select(".domain")
        .remove();
    axisBottom(svg, x, {bottom, right, format: (p) => `${p} %`, title: "share of all"});
    lines.forEach((l, i) => {
      const group = svg.append("g").attr("class", tone(i));
      const at = (v) => y(Math.max(v, least));
      group.append("path")
          .attr("class", "line")
          .attr("data-mark", "distribution")
          .attr("d", d3.line().x((v, p) => x(p)).y(at)(l.values));
      const dots = group.selectAll("circle")
                       .data(kTold)
                       .enter()
                       .append("circle")
                       .attr("class", "dot")
                       .attr("data-mark", "percentile")
                       .attr("r", 4)
                       .attr("cx", (p) => x(p))
                       .attr("cy", (p) => at(l.values[p]));
      describe(dots, (p) => [l.name, [[`${p} %`, milliseconds(l.values[p])]]]);
    });
  }
}
