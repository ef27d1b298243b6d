// The one tooltip: follows the mouse, a finger or the keyboard's focus, and holds text only.
import {h} from "./dom.js";

const box = () => document.getElementById("tip");

// pairs: [name, value]; at: client coordinates.
export function showTip(title, pairs, at) {
  const tip = box();
  tip.replaceChildren(
      h("strong", {}, title),
      h("dl", {},
        pairs.filter(([, v]) => v !== undefined && v !== null && v !== "")
            .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  const left = at.x + 14 + width > innerWidth ? at.x - width - 14 : at.x + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(at.y + 14, innerHeight - height - 4))}px`;
}

export function hideTip() { box().hidden = true; }

// Mouse and keyboard alike on one mark.
export function describe(selection, content) {
  selection.attr("tabindex", 0)
      .attr("role", "img")
      .attr(
          "aria-label",
          (d) => {
            const [title, pairs] = content(d);
            return `${title}. ${pairs.map((p) => p.join(" ")).join(", ")}`;
          })
      .on("mousemove", (d) => showTip(...content(d), {x: d3.event.clientX, y: d3.event.clientY}))
      .on("focus",
          function(d) {
            const r = this.getBoundingClientRect();
            showTip(...content(d), {x: r.right, y: r.top});
          })
      .on("mouseleave", hideTip)
      .on("blur", hideTip);
}
