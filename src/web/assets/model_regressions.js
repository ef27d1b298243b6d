// Paths of models that became slower, or that ran before and fail now.
import {badge, card, h} from "./dom.js";
import {milliseconds, slower} from "./format.js";
import {link, modelLink} from "./router.js";

const kNames = {
  ttft_ms: "TTFT",
  tpot_ms: "TPOT"
};

// range(r): between which runs it happened, as text.
export function modelRegressions(list, range) {
  if (!list.length) return null;
  return card(
      list.length === 1 ? "1 model regression" : `${list.length} model regressions`, {
        flush: true,
        alarm: true,
        id: "model-regressions",
        note: "Newest run of each path against its best, where their samples do not meet and more than 5 % lie between."
      },
      h("ul", {class: "alerts"}, list.map((r) => modelStory(r, range))));
}

export function modelStory(r, range) {
  const fails = r.kind === "fails";
  const path = r.search_iters ? `${r.path} · ${r.search_iters}` : r.path;
  return h(
      "li", {"data-regression": `${r.model} ${path}`},
      badge(fails ? "FAILS" : `${kNames[r.metric]} ${slower(r.after / r.before)}`, r.unlike ? "" : "bad"),
      h("span", {}, h("a", {class: "what", href: modelLink(r.model)}, r.model), " ", h("span", {class: "muted"}, path)),
      h("a", {href: link("compare", [], {runs: `${r.good_run},${r.latest_run}`}), class: "nowrap"}, "compare"),
      h("span", {class: "sentence"}, fails ? "Ran before, does not now; it broke " : "Slower ", range(r),
        r.device_name ? ` on ${r.device_name}` : "", r.unlike ? `, measured with ${r.unlike}` : "",
        fails ? `: ${r.error}` : `: ${milliseconds(r.before)} before, ${milliseconds(r.after)} now.`));
}
