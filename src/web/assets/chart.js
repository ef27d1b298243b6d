// The common part of all charts: a responsive frame, axes, a label for screen readers, and buttons that save the chart.
import {h} from "./dom.js";
import {saveChart} from "./save.js";

const drawers = new Map();  // figure -> draw again, after the theme or the width changed

const observer = new ResizeObserver((entries) => {
  for (const {target, contentRect} of entries) {
    const draw = drawers.get(target);
    if (draw && Math.abs(contentRect.width - target.drawnWidth) > 1) draw();
  }
});

// draw(svg, width, height): fills an empty d3 selection. The figure redraws itself while it is in the document.
export function chart(name, height, draw, {label, legend} = {}) {
  const svgNode = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const figure = h(
      "figure", {class: "chart", "data-chart": name},
      legend && h("ul", {class: "legend"}, legend.map(([text, tone]) => h("li", {class: tone}, h("i"), text))), svgNode,
      h("div", {class: "chart-save"},
        ["SVG", "PNG"].map(
            (kind) =>
                h("button", {
                  type: "button",
                  class: "quiet",
                  title: `Save this chart as ${kind}`,
                  onclick: () => saveChart(svgNode, name, kind)
                },
                  kind))));
  svgNode.setAttribute("role", "group");
  svgNode.setAttribute("aria-label", label || name);

  function redraw() {
    const width = Math.max(260, Math.round(figure.clientWidth || 720));
    figure.drawnWidth = figure.clientWidth || width;
    const tall = typeof height === "function" ? height(width) : height;
    const svg = d3.select(svgNode).attr("viewBox", `0 0 ${width} ${tall}`).attr("width", width).attr("height", tall);
    svg.selectAll("*").remove();
    draw(svg, width, tall);
  }
  drawers.set(figure, redraw);
  observer.observe(figure);
  redraw();
  return figure;
}

// Figures that were removed from the page are not redrawn.
export function dropCharts() {
  for (const figure of drawers.keys()) {
    if (figure.isConnected) continue;
    observer.unobserve(figure);
    drawers.delete(figure);
  }
}

export function redrawCharts() {
  dropCharts();
  for (const draw of drawers.values()) draw();
}

// Labels of one axis in one unit, where the format knows units.
const tickFormat = (scale, format) => (format && format.axis ? format.axis(d3.max(scale.domain())) : format || null);

export function axisLeft(svg, scale, {left, right, ticks = 5, format, title}) {
  const axis = svg.append("g")
                   .attr("class", "axis")
                   .attr("transform", `translate(${left},0)`)
                   .call(d3.axisLeft(scale)
                             .ticks(ticks)
                             .tickFormat(tickFormat(scale, format))
                             .tickSize(-(right - left))
                             .tickPadding(8));
  axis.select(".domain").remove();
  if (title) svg.append("text").attr("class", "axis-title").attr("x", 0).attr("y", 10).text(title);
  return axis;
}

export function axisBottom(svg, scale, {bottom, ticks = 6, format, title, right}) {
  const axis =
      svg.append("g")
          .attr("class", "axis")
          .attr("transform", `translate(0,${bottom})`)
          .call(d3.axisBottom(scale).ticks(ticks).tickFormat(tickFormat(scale, format)).tickSize(4).tickPadding(6));
  if (title)
    svg.append("text")
        .attr("class", "axis-title")
        .attr("x", right)
        .attr("y", bottom + 34)
        .attr("text-anchor", "end")
        .text(title);
  return axis;
}

// Powers of ten and values between them, but no more labels than fit.
export function logTicks(scale, most = 6) {
  const [low, high] = scale.domain();
  const span = Math.log10(high / low);
  const steps = span > most ? [1] : span > most / 2 ? [1, 3] : span > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
  const ticks = [];
  const skip = Math.ceil(span / most);
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
    if (skip > 1 && e % skip) continue;
    for (const s of steps)
      if (s * 10 ** e >= low * 0.999 && s * 10 ** e <= high * 1.001) ticks.push(s * 10 ** e);
  }
  return ticks;
}

// A linear domain with padding on both sides that includes the given values.
export function airy(values, ...also) {
  const all = values.concat(also).filter((v) => Number.isFinite(v));
  if (!all.length) return [0, 1];
  const [low, high] = d3.extent(all);
  const air = (high - low || Math.abs(high) || 1) * 0.08;
  return [low >= 0 && low - air < 0 ? 0 : low - air, high + air];
}

export const tone = (index) => `s${(index % 6) + 1}`;
