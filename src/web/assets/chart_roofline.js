// Each scenario on the roofline: operations per byte on the x axis, operations per second on the y axis. The roof is
// the limit of the machine at that intensity.
import {axisBottom, axisLeft, chart, logTicks} from "./chart.js";
import {nanoseconds, percent, rate, scenarioParts} from "./format.js";
import {describe} from "./tip.js";

export function roofline(name, results) {
  const points = results.filter((r) => r.candidate_ns > 0 && r.bytes > 0 && r.floor_ns > 0).map((r) => {
    const flops = r.matrix_flops + r.vector_flops;
    const work = flops > 0 ? flops : r.bytes;  // an operator that only moves data: one byte is one unit of work
    return {
      r,
      intensity: work / r.bytes,
      achieved: work / (r.candidate_ns * 1e-9),
      before: work / (r.baseline_ns * 1e-9),
      roof: work / (r.floor_ns * 1e-9)
    };
  });
  if (!points.length) return null;
  const unit = results.some((r) => r.matrix_flops + r.vector_flops > 0) ? "FLOP" : "B";
  return chart(name, 300, draw, {
    label: `Roofline of ${points.length} scenarios`,
    legend: [["candidate", "s1"], ["baseline", "s6"], ["floor of the machine", "s2"]]
  });

  function draw(svg, width, tall) {
    const left = 70, right = width - 14, top = 22, bottom = tall - 42;
    const pad = (list, f) => {
      const [a, b] = d3.extent(list);
      return [a / f, b * f];
    };
    const x = d3.scaleLog().domain(pad(points.map((p) => p.intensity), 4)).range([left, right]);
    const y =
        d3.scaleLog().domain(pad(points.flatMap((p) => [p.achieved, p.before, p.roof]), 2.2)).range([bottom, top]);
    const left_axis = axisLeft(svg, y, {left, right, title: `achieved ${unit}/s`});
    left_axis.call(d3.axisLeft(y)
                       .tickValues(logTicks(y, 5))
                       .tickFormat((v) => rate(v, "").replace(/\.0+ /, " ").trim())
                       .tickSize(-(right - left))
                       .tickPadding(8));
    left_axis.select(".domain").remove();
    axisBottom(svg, x, {bottom, title: `${unit} per byte`, right})
        .call(d3.axisBottom(x)
                  .tickValues(logTicks(x, 6))
                  .tickFormat((v) => String(Number(v.toPrecision(2))))
                  .tickSize(4)
                  .tickPadding(6));

    // The fastest floors give the roof: bytes per second and operations per second. Caches are faster than memory, so
    // each scenario also has a mark at its own floor.
    const bandwidth = d3.max(points, (p) => p.roof / p.intensity), peak = d3.max(points, (p) => p.roof);
    const [from, to] = x.domain();
    const ridge = Math.min(to, Math.max(from, peak / bandwidth));
    const g = svg.append("g");
    g.append("path")
        .attr("class", "line s2")
        .attr("data-mark", "roof")
        .attr("d", d3.line().x((d) => x(d)).y((d) => y(Math.max(y.domain()[0], Math.min(peak, bandwidth * d))))([
          Math.max(from, y.domain()[0] / bandwidth), ridge, to
        ].sort(d3.ascending)));
    g.append("g")
        .attr("class", "s2")
        .selectAll(".roof-tick")
        .data(points)
        .enter()
        .append("line")
        .attr("class", "line roof-tick")
        .attr("data-mark", "floor")
        .attr("x1", (p) => x(p.intensity) - 7)
        .attr("x2", (p) => x(p.intensity) + 7)
        .attr("y1", (p) => y(p.roof))
        .attr("y2", (p) => y(p.roof));
    g.selectAll(".reach")
        .data(points)
        .enter()
        .append("line")
        .attr("class", "drop")
        .attr("x1", (p) => x(p.intensity))
        .attr("x2", (p) => x(p.intensity))
        .attr("y1", (p) => y(p.achieved))
        .attr("y2", (p) => y(p.roof));
    g.append("g")
        .attr("class", "s6")
        .selectAll("circle")
        .data(points)
        .enter()
        .append("circle")
        .attr("class", "dot hollow")
        .attr("data-mark", "baseline")
        .attr("cx", (p) => x(p.intensity))
        .attr("cy", (p) => y(p.before))
        .attr("r", 4);
    const dots = g.append("g")
                     .attr("class", "s1")
                     .selectAll("circle")
                     .data(points)
                     .enter()
                     .append("circle")
                     .attr("class", "dot")
                     .attr("data-mark", "candidate")
                     .attr("cx", (p) => x(p.intensity))
                     .attr("cy", (p) => y(p.achieved))
                     .attr("r", 5);
    labelRoof(g, x, y, {bandwidth, peak, ridge, from, to, right});
    labelPoints(g, points.map((p) => ({name: pointName(p.r), x: x(p.intensity), y: y(p.achieved)})), left, right);
    describe(dots, (p) => [p.r.scenario, [
                     ["achieved", rate(p.achieved, `${unit}/s`)], ["floor allows", rate(p.roof, `${unit}/s`)],
                     ["of floor", percent(p.r.of_floor, 1)], ["time", nanoseconds(p.r.candidate_ns)],
                     ["bytes moved", rate(p.r.bytes, "B")]
                   ]]);
  }
  // Labels of the two lines of the roof, above each line if it is drawn.
  function labelRoof(g, x, y, {bandwidth, peak, ridge, from, to, right}) {
    const say = (at, height, text, anchor) => g.append("text")
                                                  .attr("class", "note")
                                                  .attr("data-mark", "roof-label")
                                                  .attr("x", at)
                                                  .attr("y", Math.max(20, height - 6))
                                                  .attr("text-anchor", anchor)
                                                  .text(text);
    if (ridge < to) say(right, y(peak), `at most ${rate(peak, `${unit}/s`)}`, "end");
    const start = Math.max(from, y.domain()[0] / bandwidth);
    if (ridge > start * 1.5)
      say(x(Math.sqrt(start * Math.min(ridge, to))) - 6, y(bandwidth * Math.sqrt(start * Math.min(ridge, to))),
          `${rate(bandwidth, "B/s")} moved`, "end");
  }
}

// "decode-8": points differ little between models, but much between steps.
function pointName(r) {
  const {model, step} = scenarioParts(r.scenario);
  return step || model;
}

// Names beside the points, the highest first; a name that would overlap another is only in the tooltip.
function labelPoints(g, points, left, right) {
  const taken = [];
  const free = (box) => box[0] >= left && box[2] <= right &&
      !taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3]);
  for (const p of points) taken.push([p.x - 5, p.y - 5, p.x + 5, p.y + 5]);
  const said = new Set();
  for (const p of points.slice().sort((a, b) => a.y - b.y)) {
    if (said.has(p.name)) continue;
    const wide = p.name.length * 6.2;
    const places = [[p.x + 8, "start", p.x + 7], [p.x - 8, "end", p.x - 8 - wide]];
    const place = places.find(([, , from]) => free([from, p.y - 7, from + wide, p.y + 6]));
    if (!place) continue;
    taken.push([place[2], p.y - 7, place[2] + wide, p.y + 6]);
    said.add(p.name);
    g.append("text")
        .attr("class", "note")
        .attr("data-mark", "label")
        .attr("x", place[0])
        .attr("y", p.y)
        .attr("text-anchor", place[1])
        .attr("dominant-baseline", "central")
        .text(p.name);
  }
}
