// The pages that list everything of a kind: runs, operators, models.
import {get} from "./api.js";
import {card, empty, h} from "./dom.js";
import {number} from "./format.js";
import {bestTable, modelsTable} from "./page_overview.js";
import {runsTable} from "./runs_table.js";

const heading = (title, sub) => h("div", {class: "head"}, h("h1", {}, title), sub && h("p", {class: "sub"}, sub));

export async function runsPage() {
  const data = await get("/api/runs");
  const view = runsTable(data.runs, {});
  const left_out = data.total > data.runs.length ?
      `the newest ${number(data.runs.length)} of ${number(data.total)}; \`fastkernels history\` searches all` :
      `${number(data.total)} in all`;
  return [heading("Runs", left_out), card("Runs", {flush: true, tools: view.tools}, view.element)];
}

export async function operatorsPage() {
  const {best} = await get("/api/overview");
  if (!best.length)
    return [
      heading("Operators"),
      card(
          "No kernels measured yet", {},
          empty(
              "No operator has results.", "Write a candidate, or judge the examples:",
              "fastkernels create-stubs --target rms_norm\nfastkernels kernels --target rms_norm"))
    ];
  const view = bestTable(best);
  return [
    heading("Operators", `${best.length} with results`),
    card("Operators", {flush: true, tools: [view.count, view.filter]}, view.element)
  ];
}

export async function modelsPage() {
  const {models} = await get("/api/overview");
  if (!models.length)
    return [
      heading("Models"),
      card(
          "No model timed yet", {},
          empty(
              "No model has results.",
              "Time one to its first token:", "fastkernels ttft --model tiny-llama --load-format dummy"))
    ];
  return [
    heading("Models", "The newest result of each path"), card("Models", {flush: true}, modelsTable(models).element)
  ];
}
