// Saves a chart as a file: styles become attributes, so that it looks the same without our style sheets.
const kCopied = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family",
  "font-size", "font-weight", "text-anchor", "dominant-baseline", "display"
];

export function standaloneSvg(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, i) => {
    const style = getComputedStyle(original);
    for (const name of kCopied) {
      const value = style.getPropertyValue(name);
      if (value && !(name === "display" && value !== "none")) copies[i].setAttribute(name, value);
    }
    for (const name of ["class", "tabindex", "role", "aria-label", "style"]) copies[i].removeAttribute(name);
  });
  const {width, height} = svg.viewBox.baseVal;
  const above = addHeading(copy, svg.closest(".chart"));
  const box = [-12, -12 - above, width + 24, height + 24 + above];
  copy.prepend(
      make("rect", {x: box[0], y: box[1], width: box[2], height: box[3], fill: isDark() ? "#1a1c1f" : "#ffffff"}));
  copy.setAttribute("xmlns", kSvg);
  copy.setAttribute("viewBox", box.join(" "));
  copy.setAttribute("width", box[2]);
  copy.setAttribute("height", box[3]);
  return new XMLSerializer().serializeToString(copy);
}

const kSvg = "http://www.w3.org/2000/svg";

function make(tag, attributes, text) {
  const element = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

// The file has no card around it, so title and legend become part of the picture. Returns the height they take.
function addHeading(copy, figure) {
  const family = getComputedStyle(figure).fontFamily;
  const [strong, quiet] = isDark() ? ["#e8e8e5", "#a2a5ab"] : ["#1b1c1e", "#5d6066"];
  const legend = [...figure.querySelectorAll(".legend li")];
  const above = legend.length ? 48 : 26;
  copy.append(make(
      "text", {x: 0, y: 8 - above, "font-family": family, "font-size": 13, "font-weight": 600, fill: strong},
      figure.dataset.chart));
  let x = 0;
  for (const item of legend) {
    const colour = getComputedStyle(item.querySelector("i")).backgroundColor;
    copy.append(
        make("rect", {x, y: 20 - above, width: 10, height: 10, rx: 2, fill: colour}),
        make(
            "text", {x: x + 15, y: 29 - above, "font-family": family, "font-size": 11.5, fill: quiet},
            item.textContent));
    x += 32 + 7 * item.textContent.length;
  }
  return above;
}

function isDark() {
  const chosen = document.documentElement.getAttribute("data-theme");
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Twice the size in pixels: sharp on good screens and in documents.
export async function pngUrl(svgText) {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText);
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * image.naturalWidth;
  canvas.height = 2 * image.naturalHeight;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

export async function saveChart(svg, name, kind) {
  const text = standaloneSvg(svg);
  download(
      kind === "PNG" ? await pngUrl(text) : "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text),
      `${name.replace(/[^\w.-]+/g, "-")}.${kind.toLowerCase()}`);
}

export function download(url, name) {
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
}
