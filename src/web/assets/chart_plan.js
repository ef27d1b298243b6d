// The steps of a plan as boxes, one under the other: calls of operators, and generated kernels with the calls they
// replace. A bar beside each box is its time, where it was run.
import {chart} from "./chart.js";
import {kCharacter, shorten} from "./colour_scale.js";
import {milliseconds, speedup} from "./format.js";
import {describe} from "./tip.js";

const kRow = 30, kHead = 26;
const kTones = {call: "s6", region: "s1"};

// The layer that a step belongs to: of "model.layers.7.mlp.act_fn" it is 7.
const layerOf = (path) => (/(?:^|\.)(\d+)(?:\.|$)/.exec(path) || [])[1];

// steps: [{kind, name, path, implementation, us}] of one pass -> [{title, steps}]. us: null where it was not timed. Layers of the same steps are one
// body, with the mean times of all of them.
export function bodiesOf(steps) {
  const groups = [];
  for (const step of steps) {
    const layer = layerOf(step.path), last = groups[groups.length - 1];
    if (last && last.layer === layer)
      last.steps.push(step);
    else
      groups.push({layer, steps: [step]});
  }
  const bodies = new Map();
  groups.forEach((group, i) => {
    const key = group.layer === undefined ? `once ${i}` : group.steps.map((s) => `${s.kind} ${s.name}`).join("|");
    if (!bodies.has(key)) bodies.set(key, []);
    bodies.get(key).push(group);
  });
  return [...bodies.values()].map((all) => ({
                                    title: all[0].layer === undefined ? "once" :
                                        all.length === 1              ? `layer ${all[0].layer}` :
                                                                        `layer ${all[0].layer}, ${all.length} times`,
                                    steps: all[0].steps.map(
                                        (s, i) => ({...s, us: d3.mean(all, (group) => group.steps[i].us)}))
                                  }));
}

const replaced = (calls) => (calls === 1 ? "1 call" : `${calls} calls`);

// kernels: of the search, [{calls, timings: [{rows, calls_ns, kernel_ns, speedup}]}].
export function planChart(name, steps, kernels) {
  const bodies = bodiesOf(steps);
  const rows = bodies.flatMap((b) => [{head: b.title}, ...b.steps]);
  const longest = d3.max(rows, (r) => r.us || 0) || 1;
  const boxes = rows.filter((r) => !r.head);
  const generated = boxes.filter((r) => r.kind === "region").length;
  let at = 0;
  for (const row of rows) {
    row.top = at;
    at += row.head ? kHead : kRow;
  }
  return chart(name, at + 6, draw, {
    label: `${boxes.length} steps in ${bodies.length} bodies, ${generated} of them generated kernels`,
    legend: [["call of an operator", kTones.call], ["generated kernel", kTones.region]]
  });

  function draw(svg, width) {
    const box = Math.min(width * 0.62, 560), x = d3.scaleLinear().domain([0, longest]).range([0, width - box - 96]);
    svg.selectAll(".plan-head")
        .data(rows.filter((r) => r.head))
        .enter()
        .append("text")
        .attr("class", "plan-head")
        .attr("x", 2)
        .attr("y", (r) => r.top + kHead / 2 + 2)
        .attr("dominant-baseline", "central")
        .text((r) => r.head);
    const lines = svg.selectAll(".plan-step")
                      .data(boxes)
                      .enter()
                      .append("g")
                      .attr("class", (s) => `plan-step ${kTones[s.kind]}`)
                      .attr("transform", (s) => `translate(0,${s.top})`);
    const rects = lines.append("rect")
                      .attr("class", "bar-mark")
                      .attr("data-mark", (s) => (s.kind === "region" ? "kernel" : "call"))
                      .attr("y", 2)
                      .attr("width", box)
                      .attr("height", kRow - 4)
                      .attr("rx", 3)
                      .attr("opacity", (s) => (s.kind === "region" ? 1 : 0.35));
    lines.append("text")
        .attr("class", "cell-text")
        .style("fill", (s) => (s.kind === "region" ? "#fff" : null))
        .style("text-anchor", "start")
        .attr("x", 10)
        .attr("y", kRow / 2)
        .attr("dominant-baseline", "central")
        .text((s) => shorten(s.name, box / kCharacter - 4));
    const timed = lines.filter((s) => s.us > 0);
    timed.append("rect")
        .attr("class", "bar-mark")
        .attr("x", box + 8)
        .attr("y", 8)
        .attr("height", kRow - 16)
        .attr("width", (s) => Math.max(1, x(s.us)));
    timed.append("text")
        .attr("class", "bar-value")
        .attr("x", (s) => box + 14 + Math.max(1, x(s.us)))
        .attr("y", kRow / 2)
        .attr("dominant-baseline", "central")
        .text((s) => milliseconds(s.us / 1e3));
    describe(rects, (s) => [s.name, [
                      ["runs", s.kind === "region" ? "a generated kernel" : s.implementation], ["place", s.path],
                      ["replaces", s.kind === "region" ? replaced(s.name.split(" + ").length) : ""],
                      ["takes", s.us > 0 ? milliseconds(s.us / 1e3) : ""], ...tried(s)
                    ]]);
  }

  // What the search measured of it alone.
  function tried(step) {
    const kernel = step.kind === "region" && kernels.find((k) => k.calls === step.name && k.chosen);
    return (kernel ? kernel.timings : []).map((t) => [
      `alone, ${t.rows} row${t.rows === 1 ? "" : "s"}`,
      `${milliseconds(t.calls_ns / 1e6)} by calls, ${milliseconds(t.kernel_ns / 1e6)} by the kernel, ${speedup(t.speedup)}`
    ]);
  }
}
