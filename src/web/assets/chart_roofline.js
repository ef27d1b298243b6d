// Each scenario on the roofline: work per byte across, work per second up. The roof is what the machine's floor allows
// at that intensity; a point on it cannot be made faster by any program.
import { axisBottom, axisLeft, chart, logTicks } from "./chart.js";
import { nanoseconds, percent, rate } from "./format.js";
import { describe } from "./tip.js";

export function roofline(name, results) {
  const points = results.filter((r) => r.candidate_ns > 0 && r.bytes > 0 && r.floor_ns > 0).map((r) => {
    const flops = r.matrix_flops + r.vector_flops;
    const work = flops > 0 ? flops : r.bytes;  // an operator that only moves data: one byte is one unit of work
    return { r, intensity: work / r.bytes, achieved: work / (r.candidate_ns * 1e-9), before: work / (r.baseline_ns * 1e-9), roof: work / (r.floor_ns * 1e-9) };
  });
  if (!points.length) return null;
  const unit = results.some((r) => r.matrix_flops + r.vector_flops > 0) ? "FLOP" : "B";
  return chart(name, 300, draw, { label: `Roofline of ${points.length} scenarios`,
    legend: [["candidate", "s1"], ["baseline", "s6"], ["floor of the machine", "s2"]] });

  function draw(svg, width, tall) {
    const left = 70, right = width - 14, top = 22, bottom = tall - 42;
    const pad = (list, f) => { const [a, b] = d3.extent(list); return [a / f, b * f]; };
    const x = d3.scaleLog().domain(pad(points.map((p) => p.intensity), 1.6)).range([left, right]);
    const y = d3.scaleLog().domain(pad(points.flatMap((p) => [p.achieved, p.before, p.roof]), 1.6)).range([bottom, top]);
    const left_axis = axisLeft(svg, y, { left, right, title: `achieved ${unit}/s` });
    left_axis.call(d3.axisLeft(y).tickValues(logTicks(y, 5)).tickFormat((v) => rate(v, "").replace(/\.0+ /, " ").trim()).tickSize(-(right - left)).tickPadding(8));
    left_axis.select(".domain").remove();
    axisBottom(svg, x, { bottom, title: `${unit} per byte`, right }).call(
      d3.axisBottom(x).tickValues(logTicks(x, 6)).tickFormat((v) => String(Number(v.toPrecision(2)))).tickSize(4).tickPadding(6));

    const roofs = points.slice().sort((a, b) => a.intensity - b.intensity);
    const g = svg.append("g");
    g.append("g").attr("class", "s2").selectAll(".roof-tick").data(roofs).enter().append("line").attr("class", "line roof-tick").attr("data-mark", "floor")
      .attr("x1", (p) => x(p.intensity) - 7).attr("x2", (p) => x(p.intensity) + 7).attr("y1", (p) => y(p.roof)).attr("y2", (p) => y(p.roof));
    g.selectAll(".reach").data(points).enter().append("line").attr("class", "drop")
      .attr("x1", (p) => x(p.intensity)).attr("x2", (p) => x(p.intensity)).attr("y1", (p) => y(p.achieved)).attr("y2", (p) => y(p.roof));
    // The upper hull of the floors: the roof as far as these scenarios show it.
    g.append("path").attr("class", "line s2").attr("d", d3.line().x((p) => x(p.intensity)).y((p) => y(p.roof))(hull(roofs, x, y)));
    g.append("g").attr("class", "s6").selectAll("circle").data(points).enter().append("circle").attr("class", "dot hollow").attr("data-mark", "baseline")
      .attr("cx", (p) => x(p.intensity)).attr("cy", (p) => y(p.before)).attr("r", 4);
    const dots = g.append("g").attr("class", "s1").selectAll("circle").data(points).enter().append("circle").attr("class", "dot").attr("data-mark", "candidate")
      .attr("cx", (p) => x(p.intensity)).attr("cy", (p) => y(p.achieved)).attr("r", 5);
    describe(dots, (p) => [p.r.scenario, [["achieved", rate(p.achieved, `${unit}/s`)], ["floor allows", rate(p.roof, `${unit}/s`)],
      ["of floor", percent(p.r.of_floor, 1)], ["time", nanoseconds(p.r.candidate_ns)], ["bytes moved", rate(p.r.bytes, "B")]]]);
  }
}

function hull(points, x, y) {
  const kept = [];
  for (const p of points) {
    while (kept.length > 1) {
      const [a, b] = kept.slice(-2);
      const cross = (x(b.intensity) - x(a.intensity)) * (y(p.roof) - y(a.roof)) - (y(b.roof) - y(a.roof)) * (x(p.intensity) - x(a.intensity));
      if (cross > 0) break;
      kept.pop();
    }
    kept.push(p);
  }
  return kept;
}
