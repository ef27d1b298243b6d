// Samples as distributions: a curve for the shape, a dot for each pair, a bar from quartile to quartile with the
// median.
import {axisBottom, chart, tone} from "./chart.js";
import {describe} from "./tip.js";

// groups: [{name, values: [{v, launch, dropped}], mark: {low, high}}]; values beyond the 99th percentile are drawn at
// the edge, so that one outlier does not compress the rest.
export function samplesChart(name, groups, {format, reference, title, slim = false} = {}) {
  const lane = slim ? 34 : 84;  // slim: only dots and the median
  return chart(
      name, 44 + groups.length * lane, draw,
      {label: `${name}: ${groups.map((g) => `${g.values.length} ${g.name}`).join(", ")}`});

  function draw(svg, width, tall) {
    const left = slim ? Math.min(width * 0.36, 120) : Math.min(120, width * 0.28), right = width - 16,
          bottom = tall - 40;
    const all = groups.flatMap((g) => g.values);
    const counted = all.some((d) => !d.dropped) ? all.filter((d) => !d.dropped) : all;
    const kept = counted.map((d) => d.v).sort(d3.ascending);
    const low = d3.quantile(kept, 0.005), high = d3.quantile(kept, 0.99);
    const air = (high - low || Math.abs(high) || 1) * 0.08;
    const x = d3.scaleLinear().domain([low - air, high + air]).range([left, right]).clamp(true);
    if (reference !== undefined)
      x.domain([Math.min(x.domain()[0], reference - air), Math.max(x.domain()[1], reference + air)]);
    axisBottom(svg, x, {bottom, format, title, right, ticks: Math.max(3, Math.floor((right - left) / 90))});
    if (reference !== undefined)
      svg.append("line")
          .attr("class", "reference")
          .attr("x1", x(reference))
          .attr("x2", x(reference))
          .attr("y1", 4)
          .attr("y2", bottom);
    groups.forEach(
        (g, i) => drawLane(
            svg.append("g").attr("class", g.tone || tone(i)).attr("transform", `translate(0,${i * lane})`), g, x,
            left));
  }

  function drawLane(group, g, x, left) {
    const values = g.values.filter((d) => !d.dropped).map((d) => d.v).sort(d3.ascending);
    if (slim) return drawSlim(group, g, x, left, values);
    const base = 48;
    group.append("text").attr("class", "strong").attr("x", 0).attr("y", base - 8).text(g.name);
    group.append("text").attr("x", 0).attr("y", base + 8).text(`${values.length} samples`);
    if (values.length) {
      const curve = density(values, x);
      const height = d3.scaleLinear().domain([0, d3.max(curve, (d) => d[1])]).range([0, 40]);
      group.append("path")
          .attr("class", "band")
          .attr("d", d3.area().x((d) => d[0]).y0(base).y1((d) => base - height(d[1]))(curve));
      const [q1, q2, q3] = [0.25, 0.5, 0.75].map((q) => d3.quantile(values, q));
      group.append("line")
          .attr("class", "line")
          .attr("x1", x(q1))
          .attr("x2", x(q3))
          .attr("y1", base)
          .attr("y2", base)
          .attr("stroke-width", 4);
      group.append("line")
          .attr("class", "line")
          .attr("x1", x(q2))
          .attr("x2", x(q2))
          .attr("y1", base - 44)
          .attr("y2", base + 4);
      group.append("text").attr("class", "strong").attr("x", x(q2) + 5).attr("y", base - 36).text(format(q2));
    }
    const launches = d3.max(g.values, (d) => d.launch) || 0;
    const dots = group.selectAll(".dot")
                     .data(g.values)
                     .enter()
                     .append("circle")
                     .attr("class", (d) => (d.dropped ? "dot hollow" : "dot"))
                     .attr("data-mark", g.name)
                     .attr("r", 2.5)
                     .attr("cx", (d) => x(d.v))
                     .attr("cy", (d) => base + 9 + (launches ? (d.launch / launches) * 16 : 8))
                     .attr("opacity", 0.75);
    if (g.values.length <= 400)
      describe(dots, (d) => [format(d.v), [["launch", String(d.launch + 1)], ["left out", d.dropped || ""]]]);
    dots.attr("tabindex", null);  // hundreds of tab stops would make keyboard navigation slow
    if (g.mark && Number.isFinite(g.mark.low)) {
      group.append("line")
          .attr("class", "whisker")
          .attr("x1", x(g.mark.low))
          .attr("x2", x(g.mark.high))
          .attr("y1", base - 22)
          .attr("y2", base - 22)
          .attr("stroke-width", 2);
      for (const end of [g.mark.low, g.mark.high])
        group.append("line")
            .attr("class", "whisker")
            .attr("x1", x(end))
            .attr("x2", x(end))
            .attr("y1", base - 27)
            .attr("y2", base - 17);
    }
    group.append("line")
        .attr("class", "drop")
        .attr("x1", left)
        .attr("x2", x.range()[1])
        .attr("y1", base + 32)
        .attr("y2", base + 32);
  }
}

function drawSlim(group, g, x, left, values) {
  const median = d3.quantile(values, 0.5);
  group.append("text")
      .attr("x", left - 10)
      .attr("y", 17)
      .attr("text-anchor", "end")
      .attr("dominant-baseline", "central")
      .text(g.name);
  group.append("line").attr("class", "drop").attr("x1", left).attr("x2", x.range()[1]).attr("y1", 17).attr("y2", 17);
  group.append("line").attr("class", "line").attr("x1", x(median)).attr("x2", x(median)).attr("y1", 8).attr("y2", 26);
  group.selectAll("circle")
      .data(g.values)
      .enter()
      .append("circle")
      .attr("class", "dot")
      .attr("data-mark", g.name)
      .attr("r", 4)
      .attr("cx", (d) => x(d.v))
      .attr("cy", 17)
      .attr("opacity", 0.8);
}

// Gaussian kernel with Silverman's bandwidth, at 120 points.
function density(values, x) {
  const [q1, q3] = [d3.quantile(values, 0.25), d3.quantile(values, 0.75)];
  const spread = Math.min(d3.deviation(values) || 0, (q3 - q1) / 1.34 || Infinity);
  const [from, to] = x.domain();
  const width = 0.9 * (Number.isFinite(spread) && spread > 0 ? spread : (to - from) / 50) * values.length ** -0.2;
  return d3.range(121).map((i) => {
    const at = from + ((to - from) * i) / 120;
    return [x(at), d3.mean(values, (v) => Math.exp(-0.5 * ((v - at) / width) ** 2))];
  });
}
