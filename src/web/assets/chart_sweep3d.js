// The sweep as a 3-D chart: x is the budget, y the value, z the run. A line joins the budgets of a run, a coloured one
// joins equal budgets across runs. Dragging or the arrow keys turn it.
import {chart, tone} from "./chart.js";
import {mark, when} from "./format.js";
import {describe} from "./tip.js";

const kRuns = 24;

export function sweepSpace(name, sweeps, {format, title} = {}) {
  const shown = sweeps.slice(-kRuns);
  const budgets = [...new Set(shown.flatMap((s) => s.points.map((p) => p.budget)))].sort(d3.ascending);
  let yaw = -0.62;
  let pitch = 0.5;
  let draw_again = () => {};
  const figure = chart(name, (width) => Math.min(360, Math.max(260, width * 0.62)), draw, {
    label: `${name}: ${budgets.length} budgets by ${shown.length} runs in three dimensions; the arrow keys turn it`,
    legend: budgets.map((b, i) => [`budget ${b}`, tone(i)])
  });
  return figure;

  function draw(svg, width, tall) {
    const values = shown.flatMap((s) => s.points.map((p) => p.value));
    const high = d3.max(values) * 1.05;
    const x = d3.scalePoint().domain(budgets).range([-1, 1]);
    const z = d3.scalePoint().domain(d3.range(shown.length)).range([-1, 1]);  // the newest run is in front
    const y = d3.scaleLinear().domain([0, high]).nice(4).range([0, 1.15]);
    const size = Math.min(width / 3.3, tall / 2.3);
    const node = svg.attr("class", "turn").attr("tabindex", 0).node();
    svg.on("keydown", () => {
      const turn = {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.08], ArrowDown: [
                      0, -0.08
                    ]}[d3.event.key];
      if (!turn) return;
      d3.event.preventDefault();
      turnBy(...turn);
    });
    svg.call(d3.drag().on("drag", () => turnBy(d3.event.dx / 160, d3.event.dy / 220)));
    draw_again = paint;
    paint();

    function turnBy(dx, dy) {
      yaw = Math.max(-1.5, Math.min(1.5, yaw + dx));
      pitch = Math.max(0.08, Math.min(1.3, pitch + dy));
      draw_again();
    }

    // Orthographic: equal values have equal heights everywhere.
    function project(px, py, pz) {
      const across = px * Math.cos(yaw) - pz * Math.sin(yaw);
      const depth = px * Math.sin(yaw) + pz * Math.cos(yaw);
      return [
        width / 2 + size * across,
        tall * 0.66 - size * (py * Math.cos(pitch) - depth * Math.sin(pitch) * 0.9) + size * 0.1
      ];
    }

    function paint() {
      d3.select(node).selectAll("*").remove();
      const at = (budget, run, value) =>
          project(x(budget) === undefined ? 0 : x(budget), y(value), shown.length > 1 ? z(run) : 0);
      const poly = (list) => d3.line()(list);
      svg.append("path").attr("class", "floor-plane").attr("d", `${poly([
                                                             [-1, -1], [1, -1], [1, 1], [-1, 1]
                                                           ].map(([a, b]) => project(a * 1.08, 0, b * 1.08)))}Z`);
      const corner = yaw < 0 ? -1.08 : 1.08;
      for (const tick of y.ticks(4)) {
        const from = project(corner, y(tick), -1.08), to = project(corner, y(tick), 1.08);
        svg.append("path").attr("class", "wire").attr("d", poly([from, to]));
        svg.append("text")
            .attr("x", from[0] + (from[0] < to[0] ? -6 : 6))
            .attr("y", from[1])
            .attr("text-anchor", from[0] < to[0] ? "end" : "start")
            .attr("dominant-baseline", "central")
            .text((format.axis ? format.axis(y.domain()[1]) : format)(tick));
      }
      svg.append("text").attr("x", 0).attr("y", 10).text(title || "");
      shown.forEach((s, run) => {
        const points = s.points.slice().sort((a, b) => a.budget - b.budget);
        svg.append("path")
            .attr("class", "wire")
            .attr("data-mark", "run")
            .attr("d", poly(points.map((p) => at(p.budget, run, p.value))));
      });
      budgets.forEach((budget, i) => {
        const column =
            shown.map((s, run) => ({s, run, p: s.points.find((q) => q.budget === budget)})).filter((d) => d.p);
        const group = svg.append("g").attr("class", tone(i));
        group.append("path")
            .attr("class", "wire budget")
            .attr("data-mark", "budget")
            .attr("d", poly(column.map((d) => at(budget, d.run, d.p.value))));
        const foot = project(x(budget) === undefined ? 0 : x(budget), 0, 1.25);
        group.append("text").attr("x", foot[0]).attr("y", foot[1] + 8).attr("text-anchor", "middle").text(budget);
        group.selectAll("line").data(column).enter().append("line").attr("class", "drop").each(function(d) {
          const [a, b] = [at(budget, d.run, d.p.value), at(budget, d.run, 0)];
          d3.select(this).attr("x1", a[0]).attr("y1", a[1]).attr("x2", b[0]).attr("y2", b[1]);
        });
        const dots = group.selectAll("circle")
                         .data(column)
                         .enter()
                         .append("circle")
                         .attr("class", "dot")
                         .attr("data-mark", "point")
                         .attr("r", 4)
                         .attr("cx", (d) => at(budget, d.run, d.p.value)[0])
                         .attr("cy", (d) => at(budget, d.run, d.p.value)[1]);
        describe(dots, (d) => [`${mark(d.s.column)} · ${when(d.s.column.time_ms)}`, [
                         ["budget", String(budget)], ["value", format(d.p.value)]
                       ]]);
        dots.attr("tabindex", null);
      });
      const near = project(1.12, 0, shown.length > 1 ? z(shown.length - 1) : 0),
            far = project(1.12, 0, shown.length > 1 ? z(0) : 0);
      if (shown.length) svg.append("text").attr("x", near[0] + 4).attr("y", near[1]).text("newest");
      if (shown.length > 1) svg.append("text").attr("x", far[0] + 4).attr("y", far[1]).text("oldest");
    }
  }
}
