// Formats numbers and times. Unknown values are a dash, never 0.
const known = (x) => typeof x === "number" && Number.isFinite(x);
const dash = "–";

export function speedup(x) { return known(x) && x > 0 ? `${x.toFixed(x >= 100 ? 1 : 3)}x` : dash; }

export function interval(low, high) {
  return known(low) && known(high) ? `${low.toFixed(3)} .. ${high.toFixed(3)}` : "";
}

// How much longer it takes now: "17 % slower", and beyond twice as long "209x slower".
const slow = (ratio) => (ratio < 2 ? `${Math.round(100 * (ratio - 1))} %` : `${ratio.toFixed(ratio < 10 ? 1 : 0)}x`);
export const slower = (ratio) => (known(ratio) ? `${slow(ratio)} slower` : "slower");

export function slowerRange(ratios) {
  const [least, most] = [slow(Math.min(...ratios)), slow(Math.max(...ratios))];
  return least === most ? `${most} slower` : `${least} to ${most} slower`;
}

// Three significant digits, in a fitting unit.
function scaled(x, units) {
  if (!known(x)) return dash;
  let [factor, unit] = units[0];
  for (const [f, u] of units)
    if (Math.abs(x) >= f) [factor, unit] = [f, u];
  const value = x / factor;
  return `${value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)} ${unit}`;
}

// A scale of times, with `axis(largest)`: one unit for all labels of an axis.
function times(units) {
  const format = (x) => scaled(x, units);
  format.axis = (largest) => {
    let [factor, unit] = units[0];
    for (const [f, u] of units)
      if (largest >= 2 * f) [factor, unit] = [f, u];
    return (x) => `${Number((x / factor).toPrecision(4))} ${unit}`;
  };
  return format;
}

export const nanoseconds = times([[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]]);
export const milliseconds = times([[1e-6, "ns"], [1e-3, "µs"], [1, "ms"], [1e3, "s"]]);
export const bytes = (x) =>
    (known(x) && x < 1024 ? `${x} B` : scaled(x, [[1024, "KiB"], [1024 ** 2, "MiB"], [1024 ** 3, "GiB"]]));
export const rate = (x, unit) =>
    scaled(x, [[1, unit], [1e3, `k${unit}`], [1e6, `M${unit}`], [1e9, `G${unit}`], [1e12, `T${unit}`]]);

export function percent(x, digits = 0) { return known(x) ? `${(100 * x).toFixed(digits)} %` : dash; }

// An error as a share of the allowed error.
export const ratio = (x) => (known(x) ? x.toFixed(x < 0.01 && x > 0 ? 4 : x < 10 ? 2 : 1) : dash);

export function number(x) {
  if (!known(x)) return dash;
  if (Number.isInteger(x)) return x.toLocaleString("en-US");
  if (Math.abs(x) >= 1000 && Math.abs(x) < 1e9) return Math.round(x).toLocaleString("en-US");
  return Math.abs(x) >= 1000 || Math.abs(x) < 1e-3 ? x.toPrecision(4) : String(Number(x.toPrecision(4)));
}

export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

export function commit(hash, dirty) { return hash ? hash.slice(0, 9) + (dirty ? "+" : "") : dash; }

// The label of a run on an axis or in a list: its commit, or its time if there is none.
export const mark = (run) => (run.commit ? commit(run.commit, run.dirty) : when(run.time_ms).slice(5));

const two = (n) => String(n).padStart(2, "0");

// Local time, sortable as text: the same order on the page as in the history.
export function when(ms) {
  if (!known(ms)) return dash;
  const t = new Date(ms);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}`;
}

// Labels of an axis of runs: the hour for one day, the date for many days, both in between.
export function timeLabels(times) {
  const [first, last] = d3.extent(times.filter(known));
  const days = (last - first) / 86400e3;
  if (when(first).slice(0, 10) === when(last).slice(0, 10)) return (ms) => when(ms).slice(11);
  return (ms) => (days > 60 ? when(ms).slice(0, 10) : days > 20 ? when(ms).slice(5, 10) : when(ms).slice(5));
}

export function ago(ms, now = Date.now()) {
  const s = Math.max(0, (now - ms) / 1000);
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    const n = Math.floor(s / size);
    if (n >= 1) return n > 60 ? when(ms).slice(0, 10) : `${n} ${unit}${n > 1 ? "s" : ""} ago`;
  }
  return "just now";
}

// "llama-3.2-1b/tp1/decode-8/input_layernorm" -> its parts; "contract/odd-tail" has no model.
export function scenarioParts(name) {
  const parts = String(name).split("/");
  const step =
      parts.find((p) => /^(decode|prefill|mixed)[-\d]/.test(p)) || parts[parts.length > 2 ? 2 : parts.length - 1] || "";
  const tokens = /(\d+)$/.exec(step);
  return {model: parts[0] || "", step, tokens: tokens ? Number(tokens[1]) : null, place: parts.slice(3).join("/")};
}

export function verdictTone(verdict) {
  if (verdict === "PASSED" || verdict === "FASTER" || verdict === "finished") return "good";
  if (["SAME", "UNRESOLVED", "INVALID", "INVALID_TASK", "running"].includes(verdict))
    return verdict === "running" ? "warn" : "";
  return verdict === "SLOWER" ? "warn" : "bad";
}
