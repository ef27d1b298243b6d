// The ways a model is run, each in one colour on every page, whichever of them a run has.
import {tone} from "./chart.js";

const kPaths = ["eager", "compiled", "candidate", "hf", "torch_compile"];

export function pathTone(path) {
  const known = kPaths.indexOf(path);
  return tone(known < 0 ? kPaths.length : known);
}
