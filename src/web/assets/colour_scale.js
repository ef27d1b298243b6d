// Colours of cells by value, readable text colours on them, and labels that fit.

// Blue is faster, orange slower, both by the logarithm: twice as fast is as strong as half as fast.
export function heatColour(speedups) {
  const most = Math.max(0.15, d3.max(speedups, (s) => Math.abs(Math.log(s))) || 0);
  return (s) => {
    const t = Math.max(-1, Math.min(1, Math.log(s) / most));
    return t >= 0 ? d3.interpolateRgb("#eceff4", "#2460c4")(t ** 0.8) :
                    d3.interpolateRgb("#f3efe9", "#c2590c")((-t) ** 0.8);
  };
}

// Black or white, whichever has more contrast: at least 4.58 to 1 on any colour; WCAG AA requires 4.5.
export function inkOn(colour) {
  const {r, g, b} = d3.rgb(colour);
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

// Width of a label's average character; a wide font must still fit.
export const kCharacter = 6.9;

export function shorten(text, most) {
  const room = Math.max(4, Math.floor(most));
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
}
