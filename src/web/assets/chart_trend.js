// Values over runs: one evenly spaced column per run, so that ten runs of one day are ten columns and not one.
import {airy, axisBottom, axisLeft, chart, tone} from "./chart.js";
import {mark, timeLabels, when} from "./format.js";
import {hideTip, showTip} from "./tip.js";

const kMost = 200;  // columns; older runs are left out, and the chart says so

// columns: [{id, time_ms, commit, dirty, name}], oldest first. series: [{name, tone, points: {id: {y, low, high,
// failed, untimed}}}]: the last two are texts for a run that failed, or that passed without a valid time. A series
// without a tone takes the next colour.
export function trendChart(name, columns, series, {format, reference, height = 260, title, open, label} = {}) {
  const shown = columns.slice(-kMost);
  const toneOf = (s, i) => s.tone || tone(i);
  const legend = series.length > 1 ? series.map((s, i) => [s.name, toneOf(s, i)]) : null;
  return chart(name, height, draw, {label: label || `${name} over ${shown.length} runs`, legend});

  function draw(svg, width, tall) {
    const left = 58, right = width - 12, top = 22, bottom = tall - 34;
    const x = d3.scalePoint().domain(d3.range(shown.length)).range([left, right]).padding(0.5);
    const all = series.flatMap(
        (s) => shown.map((c) => s.points[c.id]).filter(Boolean).flatMap((p) => (p.failed || p.untimed ? [] : [
                                                                          p.y, p.low, p.high
                                                                        ].filter((v) => Number.isFinite(v)))));
    const y = d3.scaleLinear().domain(airy(all, ...(reference === undefined ? [] : [reference]))).nice(5).range([
      bottom, top
    ]);
    axisLeft(svg, y, {left, right, format, title});
    const label = timeLabels(shown.map((c) => c.time_ms));
    const every = Math.max(1, Math.ceil(shown.length / Math.floor((right - left) / 88)));
    const bottomAxis =
        axisBottom(svg, x, {bottom, format: (i) => ((shown.length - 1 - i) % every ? "" : label(shown[i].time_ms))});
    bottomAxis.selectAll(".tick").filter((i) => (shown.length - 1 - i) % every).remove();
    if (reference !== undefined)
      svg.append("line")
          .attr("class", "reference")
          .attr("x1", left)
          .attr("x2", right)
          .attr("y1", y(reference))
          .attr("y2", y(reference));
    if (columns.length > shown.length)
      svg.append("text")
          .attr("x", right)
          .attr("y", 10)
          .attr("text-anchor", "end")
          .text(`the last ${kMost} of ${columns.length} runs`);

    const guide = svg.append("line").attr("class", "guide").attr("y1", top).attr("y2", bottom).attr("display", "none");
    series.forEach((s, i) => drawSeries(svg.append("g").attr("class", toneOf(s, i)), s, x, y, bottom));
    listen(svg, x, guide, left, right);
  }

  function drawSeries(group, s, x, y, bottom) {
    const points = shown.map((c, i) => ({i, c, p: s.points[c.id]})).filter((d) => d.p);
    const good = points.filter((d) => !d.p.failed && Number.isFinite(d.p.y));
    const line = d3.line().x((d) => x(d.i)).y((d) => y(d.p.y));
    group.append("path").attr("class", "line").attr("d", line(good));
    group.selectAll(".whisker")
        .data(good.filter((d) => Number.isFinite(d.p.low) && Number.isFinite(d.p.high)))
        .enter()
        .append("line")
        .attr("class", "whisker")
        .attr("x1", (d) => x(d.i))
        .attr("x2", (d) => x(d.i))
        .attr("y1", (d) => y(d.p.low))
        .attr("y2", (d) => y(d.p.high));
    group.selectAll(".dot")
        .data(good)
        .enter()
        .append("circle")
        .attr("class", "dot")
        .attr("data-mark", s.name)
        .attr("cx", (d) => x(d.i))
        .attr("cy", (d) => y(d.p.y))
        .attr("r", shown.length > 80 ? 2.5 : 4);
    group.selectAll(".not-timed")
        .data(points.filter((d) => d.p.untimed))
        .enter()
        .append("circle")
        .attr("class", "not-timed")
        .attr("data-mark", "not-timed")
        .attr("cx", (d) => x(d.i))
        .attr("cy", bottom - 6)
        .attr("r", 4);
    group.selectAll(".cross")
        .data(points.filter((d) => d.p.failed))
        .enter()
        .append("path")
        .attr("class", "cross")
        .attr("data-mark", "failed")
        .attr("d", (d) => `M${x(d.i) - 4},${bottom - 10}l8,8m0,-8l-8,8`);
  }

  // One target for mouse and keyboard: the column under the pointer, or the one selected with the arrow keys.
  function listen(svg, x, guide, left, right) {
    let at = shown.length - 1;
    const node = svg.node();
    function show(i, client) {
      at = Math.max(0, Math.min(shown.length - 1, i));
      const c = shown[at];
      guide.attr("display", null).attr("x1", x(at)).attr("x2", x(at));
      const pairs = series.map((s) => [s.name, text(s.points[c.id])]).filter(([, v]) => v);
      const box = node.getBoundingClientRect();
      showTip(
          `${mark(c)} · ${when(c.time_ms)}`, [...pairs, ["run", c.name]],
          client || {x: box.left + (x(at) * box.width) / node.viewBox.baseVal.width, y: box.top + 20});
    }
    function hide() {
      guide.attr("display", "none");
      hideTip();
    }
    svg.attr("tabindex", 0)
        .on("mousemove",
            () => {
              const [px] = d3.mouse(node);
              if (px < left || px > right) return hide();
              show(Math.round((px - x(0)) / (x.step() || 1)), {x: d3.event.clientX, y: d3.event.clientY});
            })
        .on("mouseleave", hide)
        .on("blur", hide)
        .on("focus",
            () => {
              if (node.matches(":focus-visible")) show(at);
            })
        .on("click", () => open && shown.length && open(shown[at]))
        .on("keydown", () => {
          const move = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[d3.event.key];
          if (move !== undefined) {
            d3.event.preventDefault();
            show(move === -Infinity ? 0 : move === Infinity ? shown.length - 1 : at + move);
          } else if (d3.event.key === "Enter" && open)
            open(shown[at]);
          else if (d3.event.key === "Escape")
            hide();
        });
  }

  function text(p) {
    if (!p) return "";
    if (p.failed || p.untimed) return p.failed || p.untimed;
    const range = Number.isFinite(p.low) && Number.isFinite(p.high) ? ` (${format(p.low)} .. ${format(p.high)})` : "";
    return format(p.y) + range;
  }
}
