// The paths of a model run; each has the same colour on every page.
import {tone} from "./chart.js";

const kPaths = ["eager", "compiled", "candidate", "hf", "torch_compile"];

export function pathTone(path) {
  const known = kPaths.indexOf(path);
  return tone(known < 0 ? kPaths.length : known);
}
