// A chart as a file of its own: styles become attributes, so that it looks the same without our style sheets.
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
  const ground = document.createElementNS(svg.namespaceURI, "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("x", "-12");
  ground.setAttribute("y", "-12");
  ground.setAttribute(
      "fill",
      getComputedStyle(document.documentElement).getPropertyValue("color-scheme").includes("dark") && isDark() ?
          "#1a1c1f" :
          "#ffffff");
  copy.prepend(ground);
  copy.setAttribute("xmlns", svg.namespaceURI);
  copy.setAttribute("viewBox", `-12 -12 ${width + 24} ${height + 24}`);
  copy.setAttribute("width", width + 24);
  copy.setAttribute("height", height + 24);
  return new XMLSerializer().serializeToString(copy);
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
