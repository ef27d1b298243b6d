// One step of a model in time: a bar for every call of an operator, a row for every depth of calls.
import {axisBottom, chart} from "./chart.js";
import {kCharacter, shorten} from "./colour_scale.js";
import {milliseconds} from "./format.js";
import {describe} from "./tip.js";

const kRow = 24;
const kLeast = 0.3;  // of a pixel: shorter calls are not drawn
const kTones = 6;

// spans: [{operator, implementation, path, depth, start_ms, duration_ms}]
export function ganttChart(name, spans) {
  const depths = 1 + (d3.max(spans, (s) => s.depth) || 0);
  const length = d3.max(spans, (s) => s.start_ms + s.duration_ms) || 1;
  // Operators that call no others have the colours, those with most time first. Spans are in the order of calls.
  const times = new Map();
  spans.forEach((s, i) => {
    if (i + 1 < spans.length && spans[i + 1].depth > s.depth) return;
    times.set(s.operator, (times.get(s.operator) || 0) + s.duration_ms);
  });
  const leaves = [...times.keys()].sort((a, b) => times.get(b) - times.get(a));
  const toneOf = (op) => (leaves.includes(op) ? `s${1 + (leaves.indexOf(op) % kTones)}` : "s6");
  return chart(name, depths * kRow + 44, draw, {
    label: `${spans.length} calls in ${milliseconds(length)}`,
    legend: leaves.slice(0, kTones).map((op) => [op, toneOf(op)])
  });

  function draw(svg, width, tall) {
    const left = 8, right = width - 8, bottom = tall - 38;
    const x = d3.scaleLinear().domain([0, length]).range([left, right]);
    axisBottom(svg, x, {bottom, right, format: milliseconds, title: "time in the step"});
    const shown = spans.filter((s) => x(s.duration_ms) - left > kLeast);
    const bars = svg.selectAll(".span")
                     .data(shown)
                     .enter()
                     .append("g")
                     .attr("class", (s) => `span ${toneOf(s.operator)}`)
                     .attr("transform", (s) => `translate(${x(s.start_ms)},${s.depth * kRow + 2})`);
    const wide = (s) => Math.max(0.5, x(s.duration_ms) - left - 0.5);
    const rects = bars.append("rect")
                      .attr("class", "bar-mark")
                      .attr("data-mark", "call")
                      .attr("width", wide)
                      .attr("height", kRow - 4)
                      .attr("opacity", (s) => (leaves.includes(s.operator) ? 1 : 0.35));
    bars.filter((s) => wide(s) > 5 * kCharacter)
        .append("text")
        .attr("class", "cell-text")
        .style("fill", (s) => (leaves.includes(s.operator) ? "#fff" : null))
        .attr("x", (s) => wide(s) / 2)
        .attr("y", (kRow - 4) / 2)
        .attr("dominant-baseline", "central")
        .text((s) => shorten(s.operator, wide(s) / kCharacter - 1));
    describe(rects, (s) => [s.operator, [
                      ["implementation", s.implementation], ["place", s.path], ["takes", milliseconds(s.duration_ms)],
                      ["from", milliseconds(s.start_ms)]
                    ]]);
  }
}
