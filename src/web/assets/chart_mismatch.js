// Where an output is wrong: the matrix in up to 32 by 32 cells; the more wrong elements, the redder.
import {chart} from "./chart.js";
import {kCharacter} from "./colour_scale.js";
import {number, percent} from "./format.js";
import {describe} from "./tip.js";

// mismatch: {output, rows, cols, grid: [[share, ...], ...], pattern}. Nothing for runs without it.
export function mismatchChart(name, mismatch) {
  const grid = mismatch && mismatch.grid;
  if (!Array.isArray(grid) || !grid.length || !Array.isArray(grid[0]) || !grid[0].length) return null;
  const [down, across] = [grid.length, d3.max(grid, (row) => row.length)];
  const side = (width) => Math.max(5, Math.min(18, Math.floor((width - kLeft - 8) / across)));
  const tall = (width) => kTop + Math.max(24, down * side(width)) + 6;
  return chart(name, tall, draw, {label: `Share of wrong elements of ${mismatch.output || "the output"} by place`});

  function draw(svg, width) {
    const size = side(width);
    const cells = grid.flatMap((row, i) => row.map((share, j) => ({share: Number(share) || 0, i, j})));
    const high = Math.max(size, down === 1 ? 24 : size);
    const label = (x, y, text, anchor) =>
        svg.append("text").attr("x", x).attr("y", y).attr("text-anchor", anchor).text(text);
    label(kLeft, 11, "column 0", "start");
    const last = `${number(mismatch.cols - 1)}`;
    if (across * size > kCharacter * (last.length + 11)) label(kLeft + across * size, 11, last, "end");
    label(kLeft - 8, kTop + 9, "row 0", "end");
    if (down * high > 30) label(kLeft - 8, kTop + down * high - 2, number(mismatch.rows - 1), "end");
    const rects = svg.selectAll(".wrong")
                      .data(cells)
                      .enter()
                      .append("rect")
                      .attr("data-mark", (d) => (d.share > 0 ? "wrong" : "right"))
                      .attr("class", (d) => (d.share > 0 ? "wrong-cell" : "right-cell"))
                      .attr("x", (d) => kLeft + d.j * size)
                      .attr("y", (d) => kTop + d.i * high)
                      .attr("width", size - 1)
                      .attr("height", high - 1)
                      // A single wrong element of thousands must still be visible.
                      .attr("fill-opacity", (d) => (d.share > 0 ? 0.35 + 0.65 * Math.sqrt(Math.min(1, d.share)) : 1));
    const span = (at, pieces, whole) => {
      const [from, to] = [Math.floor((at * whole) / pieces), Math.max(Math.ceil(((at + 1) * whole) / pieces) - 1, 0)];
      return from >= to ? number(from) : `${number(from)} to ${number(to)}`;
    };
    describe(
        rects.filter((d) => d.share > 0),
        (d) => [`${percent(d.share, d.share < 0.1 ? 1 : 0)} wrong`, [
          ["rows", span(d.i, down, mismatch.rows)], ["columns", span(d.j, across, mismatch.cols)]
        ]]);
  }
}

const kLeft = 62;
const kTop = 18;
