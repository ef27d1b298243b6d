// One value per path of one run: horizontal bars with their numbers at the end, failed paths named as such.
import {chart} from "./chart.js";
import {kCharacter, shorten} from "./colour_scale.js";

// bars: [{name, value, failed, tone}]
export function barChart(name, bars, {format} = {}) {
  const rowHeight = 28;
  return chart(
      name, 8 + bars.length * rowHeight, draw,
      {label: `${name}: ${bars.map((b) => `${b.name} ${b.failed || format(b.value)}`).join(", ")}`});

  function draw(svg, width) {
    const left = Math.min(width * 0.34, (d3.max(bars, (b) => b.name.length) || 1) * kCharacter + 12);
    const x = d3.scaleLinear().domain([0, d3.max(bars, (b) => b.value || 0) || 1]).range([
      0, Math.max(20, width - left - 84)
    ]);
    const rows = svg.selectAll("g")
                     .data(bars)
                     .enter()
                     .append("g")
                     .attr("class", (b) => b.tone)
                     .attr("transform", (b, i) => `translate(0,${4 + i * rowHeight})`);
    rows.append("text")
        .attr("x", left - 10)
        .attr("y", rowHeight / 2)
        .attr("text-anchor", "end")
        .attr("dominant-baseline", "central")
        .text((b) => shorten(b.name, (left - 10) / kCharacter));
    rows.filter((b) => !b.failed)
        .append("rect")
        .attr("class", "bar-mark")
        .attr("data-mark", "bar")
        .attr("x", left)
        .attr("y", 4)
        .attr("height", rowHeight - 8)
        .attr("rx", 2)
        .attr("width", (b) => Math.max(1, x(b.value)));
    rows.append("text")
        .attr("class", (b) => (b.failed ? "bad" : "bar-value"))
        .attr("dominant-baseline", "central")
        .attr("y", rowHeight / 2)
        .attr("x", (b) => left + (b.failed ? 0 : x(b.value)) + 8)
        .text((b) => (b.failed ? "failed" : format(b.value)));
  }
}
