// A sparkline: shape only, with a line at "no change" where useful.
export function sparkline(values, {width = 96, height = 22, reference = 1} = {}) {
  const known = values.filter((v) => Number.isFinite(v));
  const svg = d3.create("svg")
                  .attr("class", "spark")
                  .attr("width", width)
                  .attr("height", height)
                  .attr("viewBox", `0 0 ${width} ${height}`)
                  .attr("role", "img")
                  .attr("aria-label", `${known.length} runs`);
  if (!known.length) return svg.node();
  const x = d3.scaleLinear().domain([0, Math.max(1, known.length - 1)]).range([3, width - 4]);
  const y = d3.scaleLinear().domain(d3.extent([...known, reference])).range([height - 3, 3]);
  svg.append("line").attr("x1", 0).attr("x2", width).attr("y1", y(reference)).attr("y2", y(reference));
  svg.append("path").attr("d", d3.line().x((d, i) => x(i)).y((d) => y(d))(known));
  svg.append("circle").attr("cx", x(known.length - 1)).attr("cy", y(known[known.length - 1])).attr("r", 2.5);
  return svg.node();
}
