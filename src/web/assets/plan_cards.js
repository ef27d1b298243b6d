// The plan of a run whose model was compiled, and what its search spent its time with.
import {get, has} from "./api.js";
import {phaseChart} from "./chart_phases.js";
import {planChart} from "./chart_plan.js";
import {card, h} from "./dom.js";
import {milliseconds} from "./format.js";

const kFiles = ["results/ttft.json", "results/ttft_paths.json", "results/search.json", "results/e2e.json"];

// Nothing where no plan ran, and where the file is not carried along.
export async function planCards(artifacts) {
  const file = artifacts.find((a) => kFiles.includes(a.path));
  if (!file || !has(`/api/source/${file.sha256}`)) return null;
  const {text, truncated} = await get(`/api/source/${file.sha256}`);
  if (truncated) return null;
  let plan = null;
  try {
    const result = JSON.parse(text);
    plan = result.plan || (result.comparisons || []).map((c) => c.plan).find((p) => p);
    return plan ? [planCard(plan), timelineCard(plan)] : null;
  } catch (error) {  // of another program, or another version
    return plan ? card("Plan", {}, h("p", {}, `The plan in ${file.path} cannot be drawn: ${error.message}`)) : null;
  }
}

// "prefill of 64 tokens", "decode step 3", "4 texts": the phase that the pass is of.
const phaseOf = (pass) => (/^(prefill|decode|mixed)/.exec(pass) || ["encode"])[0];

function planCard(plan) {
  const passes = new Map();
  for (const p of plan.passes || []) passes.set(phaseOf(p.pass), p);
  return card(
      "Plan", {id: "plan", note: "The steps of a pass. Layers with the same steps are drawn once, with their mean times."},
      h("p", {}, plan.text), left(plan),
      [...passes].map(([phase, p]) => h("div", {}, h("h3", {}, p.pass),
                                        planChart(`plan-${phase}`, p.steps, (plan.kernels || {})[phase] || []))));
}

// Phases whose plan is not known to be as fast as the tree.
function left(plan) {
  const slower = Object.entries(plan.whole_steps || {}).filter(([, s]) => s.left_to_tree).map(([phase]) => phase);
  return slower.length ?
      h("p", {class: "bad"}, `Left to the tree, because the plan is slower or was not timed well enough: ${slower.join(", ")}.`) :
      null;
}

function timelineCard(plan) {
  const rows = (plan.timeline || []).map((r) => ({name: r.name, total: r.total_ms, phases: r.phases || {}}));
  if (plan.steps_ms > 0) rows.push({name: "whole steps", total: plan.steps_ms, phases: {steps_ms: plan.steps_ms}});
  return rows.length ?
      card(
          "Search timeline", {id: "search-timeline", note: `Planned in ${milliseconds(plan.plan_ms)}.`},
          phaseChart("search-timeline", rows)) :
      null;
}
