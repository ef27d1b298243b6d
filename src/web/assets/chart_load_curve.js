// Throughput over latency of several loads, as a line: what a server gives up of one for the other.
import {airy, axisBottom, axisLeft, chart} from "./chart.js";
import {milliseconds, number} from "./format.js";
import {describe} from "./tip.js";

// points: [{label, latency_ms, throughput, pairs: [[name, text]]}], in the order measured.
export function loadCurve(name, points, {latencyTitle}) {
  return chart(
      name, 300, draw, {label: `${name}: ${points.map((p) => `${p.label} ${number(p.throughput)}`).join(", ")}`});

  function draw(svg, width, tall) {
    const left = 62, right = width - 16, top = 22, bottom = tall - 42;
    const x = d3.scaleLinear().domain(airy(points.map((p) => p.latency_ms), 0)).nice(5).range([left + 8, right - 8]);
    const y = d3.scaleLinear().domain(airy(points.map((p) => p.throughput), 0)).nice(5).range([bottom, top]);
    axisLeft(svg, y, {left, right, format: number, title: "output tokens per second"});
    axisBottom(svg, x, {bottom, right, format: milliseconds, title: latencyTitle});
    const group = svg.append("g").attr("class", "s1");
    group.append("path")
        .attr("class", "line")
        .attr("data-mark", "curve")
        .attr("d", d3.line().x((p) => x(p.latency_ms)).y((p) => y(p.throughput))(points));
    const dots = group.selectAll("circle")
                     .data(points)
                     .enter()
                     .append("circle")
                     .attr("class", "dot")
                     .attr("data-mark", "load")
                     .attr("r", 5)
                     .attr("cx", (p) => x(p.latency_ms))
                     .attr("cy", (p) => y(p.throughput));
    describe(dots, (p) => [p.label, p.pairs]);
    svg.selectAll(".load-label")
        .data(points)
        .enter()
        .append("text")
        .attr("class", "strong load-label")
        .attr("text-anchor", (p) => (x(p.latency_ms) > (left + right) / 2 ? "end" : "start"))
        .attr("x", (p) => x(p.latency_ms) + (x(p.latency_ms) > (left + right) / 2 ? -9 : 9))
        .attr("y", (p) => Math.max(top, y(p.throughput) - 9))
        .text((p) => p.label);
  }
}
