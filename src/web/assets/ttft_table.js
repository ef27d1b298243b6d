// Results of `ttft` as rows; failed ones tinted, with their message.
import {h} from "./dom.js";
import {ago, bytes, milliseconds, number, percent} from "./format.js";
import {modelLink, runLink} from "./router.js";
import {table} from "./table.js";

// Of a suite's configuration, which several of one model can be told apart by.
const ownName = (r) => (r.config && r.config !== r.model ? r.config : null);
const spreadOf = (r) => {
  const spread = (r.details || {}).spread || {};
  return spread.tpot ?? spread.ttft;
};
const outputsOf = (r) => (r.details || {}).outputs || {};

// "same", or from which token on they differ; the sentence is the tip.
function outputs(r) {
  const o = outputsOf(r);
  if (o.equal === undefined) return "–";
  const from = o.first_difference ? `from token ${o.first_difference.step + 1}` : "differ";
  return h("span", {class: o.equal ? null : "bad", title: `${o.reference}: ${o.text}`}, o.equal ? "same" : from);
}

export function ttftTable(name, rows, {ofRun = false} = {}) {
  const time = (key, title) => ({key, title, number: true, value: (r) => r[key], cell: (r) => milliseconds(r[key])});
  // Columns of what only some ways to measure give.
  const rare = ["config", "search_iters", "ttft_sequential_ms", "compile_ms", "spread", "outputs", "floor"];
  const known = (c) => !rare.includes(c.key) || rows.some((r) => (c.value(r) ?? null) !== null);
  return table(
      name,
      [
        ofRun ? {
          key: "model",
          title: "Model",
          value: (r) => r.model,
          class: "name",
          cell: (r) => h("a", {href: modelLink(r.model)}, r.model)
        } :
                {
                  key: "time",
                  title: "Run",
                  value: (r) => r.time_ms,
                  class: "nowrap",
                  cell: (r) => h("a", {href: runLink(r.run_id)}, ago(r.time_ms))
                },
        {key: "config", title: "Configuration", value: ownName, cell: (r) => ownName(r) ?? "–"},
        {key: "path", title: "Path", value: (r) => r.path},
        {
          key: "search_iters",
          title: "Budget",
          number: true,
          value: (r) => r.search_iters,
          cell: (r) => (r.search_iters === null ? "–" : number(r.search_iters))
        },
        time("ttft_ms", "TTFT"),
        time("ttft_sequential_ms", "Token by token"),
        time("tpot_ms", "TPOT"),
        {
          key: "tps",
          title: "tok/s",
          number: true,
          value: (r) => r.throughput_tps,
          cell: (r) => number(r.throughput_tps)
        },
        time("compile_ms", "Search"),
        {key: "spread", title: "Spread", number: true, value: spreadOf, cell: (r) => percent(spreadOf(r), 1)},
        {key: "outputs", title: "Outputs", value: (r) => outputsOf(r).text, cell: outputs},
        {
          key: "floor",
          title: "Decode of floor",
          number: true,
          value: (r) => r.decode_floor_share,
          cell: (r) => percent(r.decode_floor_share, 1)
        },
        {
          key: "memory",
          title: "Peak memory",
          number: true,
          value: (r) => r.peak_memory_bytes,
          cell: (r) => bytes(r.peak_memory_bytes)
        },
        {
          key: "note",
          title: "Note",
          value: (r) => r.error || r.note,
          class: "sentence",
          cell: (r) => (r.error ? h("span", {class: "bad"}, r.error) : r.note)
        },
      ].filter(known),
      rows, {
        text: (r) => `${r.model} ${r.config} ${r.path} ${r.note} ${r.error} ${r.run_name}`,
        rowClass: (r) => (r.error ? "failed" : null),
        caption: "Results",
        tall: rows.length > 20
      });
}
