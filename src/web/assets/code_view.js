// Source as a table of numbered lines; the difference of two as one, with far-away equal lines folded.
import {diffLines} from "./diff.js";
import {h} from "./dom.js";
import {colouredLines} from "./highlight.js";

const coloured = (line) => line.map(([kind, text]) => (kind ? h("span", {class: kind}, text) : text));

export function codeView(source) {
  return h(
      "div", {class: "code", tabindex: "0", role: "region", "aria-label": "Source"},
      h("table", {},
        h("tbody", {},
          colouredLines(source).map(
              (line, i) => h("tr", {}, h("td", {class: "at"}, i + 1), h("td", {}, coloured(line)))))));
}

const kContext = 3;

export function diffView(before, after) {
  const [left, right] = [colouredLines(before), colouredLines(after)];
  const text = (lines) => lines.map((line) => line.map(([, t]) => t).join(""));
  const edits = diffLines(text(left), text(right));
  if (edits.every((e) => e.kind === "same")) return h("p", {class: "empty"}, "The two sources are the same.");
  const near = edits.map(() => false);
  edits.forEach((e, i) => {
    if (e.kind !== "same")
      for (let j = Math.max(0, i - kContext); j <= Math.min(edits.length - 1, i + kContext); j += 1) near[j] = true;
  });
  const rows = [];
  for (let i = 0; i < edits.length; i += 1) {
    const e = edits[i];
    if (!near[i]) {
      let n = 0;
      while (i + n < edits.length && !near[i + n]) n += 1;
      rows.push(h("tr", {class: "fold"}, h("td", {colspan: 4}, `${n} equal line${n > 1 ? "s" : ""}`)));
      i += n - 1;
      continue;
    }
    rows.push(
        h("tr", {class: e.kind === "same" ? null : e.kind}, h("td", {class: "at"}, e.kind === "come" ? "" : e.a + 1),
          h("td", {class: "at"}, e.kind === "gone" ? "" : e.b + 1),
          h("td", {class: "sign"}, {gone: "−", come: "+", same: " "}[e.kind]),
          h("td", {}, coloured(e.kind === "gone" ? left[e.a] : right[e.b]))));
  }
  return h(
      "div", {class: "code", tabindex: "0", role: "region", "aria-label": "Difference"},
      h("table", {}, h("tbody", {}, rows)));
}
