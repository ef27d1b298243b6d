// The candidates that were measured: each one's source, and the difference between any two.
import {get, has} from "./api.js";
import {codeView, diffView} from "./code_view.js";
import {card, empty, h, select} from "./dom.js";
import {ago, commit, plural, speedup} from "./format.js";
import {update} from "./router.js";

export const sourceText = async (sha) => (await get(`/api/source/${sha}`)).text;

// sources: [{sha256, candidate, path, run_id, time_ms, commit, speedup, runs}], newest first.
export async function sourcesCard(sources, query) {
  const readable = sources.filter((s) => s.sha256 && has(`/api/source/${s.sha256}`));
  if (!readable.length)
    return card("Source", {}, empty("No source kept", "Runs of a candidate keep its source; a self-test has none."));
  const find = (key, otherwise) => readable.find((s) => s.sha256 === query.get(key)) || otherwise;
  const shown = find("source", readable[0]);
  const against = find("against", null);
  const label = (s) =>
      `${s.sha256.slice(0, 8)} · ${speedup(s.speedup)} · ${s.commit ? commit(s.commit) + " · " : ""}${ago(s.time_ms)}`;
  const options = readable.map((s) => [s.sha256, label(s)]);
  const tools = [
    select("Source", options, shown.sha256, (v) => update({source: v})),
    readable.length > 1 &&
        [
          h("span", {class: "muted"}, "against"),
          select(
              "Compare with", [["", "nothing"], ...options], against ? against.sha256 : "", (v) => update({against: v}))
        ],
  ];
  const body = against && against !== shown ?
      diffView(await sourceText(against.sha256), await sourceText(shown.sha256)) :
      codeView(await sourceText(shown.sha256));
  return card(
      "Source", {
        flush: true,
        tools,
        id: "source",
        note: `${plural(readable.length, "version")} measured; this one in ${plural(shown.runs, "run")}.`
      },
      body);
}
