// A table that sorts and filters, with its state in the address. Rows after the first hundred are shown by a button.
import {h} from "./dom.js";
import {parse, update} from "./router.js";

const kPage = 100;

// columns: {key, title, value(row), cell(row), number, sortable, class}; `name` separates tables of one page.
export function table(
    name, columns, rows, {text, rowClass, sort, flush = true, tall = false, caption, kSteps = kPage} = {}) {
  const query = parse().query;
  let [by, direction] = (query.get(`${name}.sort`) || sort || "").split(":");
  let words = query.get(`${name}.q`) || "";
  let shown = kSteps;
  const body = h("tbody");
  const more = h("div", {class: "more", hidden: true});
  const count = h("span", {class: "muted small", role: "status"});

  function visible() {
    const needles = words.toLowerCase().split(/\s+/).filter(Boolean);
    const found = needles.length ? rows.filter((row) => {
      const hay = text(row).toLowerCase();
      return needles.every((needle) => hay.includes(needle));
    }) :
                                   rows.slice();
    const column = columns.find((c) => c.key === by);
    if (column) {
      const sign = direction === "desc" ? -1 : 1;
      found.sort((a, b) => order(column.value(a), column.value(b), sign));
    }
    return found;
  }

  function draw() {
    const found = visible();
    body.replaceChildren(...found.slice(0, shown).map(
        (row) =>
            h("tr", {class: rowClass && rowClass(row)},
              columns.map(
                  (c) =>
                      h("td", {class: [c.number && "number", c.class].filter(Boolean).join(" ") || null},
                        c.cell ? c.cell(row) : c.value(row))))));
    if (!found.length)
      body.append(h("tr", {}, h("td", {colspan: columns.length, class: "empty"}, "Nothing matches this filter.")));
    count.textContent = words ? `${found.length} of ${rows.length}` : "";
    more.hidden = found.length <= shown;
    more.replaceChildren(
        `${Math.min(shown, found.length).toLocaleString("en-US")} of ${found.length.toLocaleString("en-US")}`,
        h("button", {
          type: "button",
          onclick: () => {
            shown += 5 * kSteps;
            draw();
          }
        },
          "Show more"));
    for (const th of head.children)
      th.setAttribute("aria-sort", th.dataset.key !== by ? "none" : direction === "desc" ? "descending" : "ascending");
  }

  function sortBy(column) {
    if (by === column.key)
      direction = direction === "desc" ? "asc" : "desc";
    else
      [by, direction] = [column.key, column.number ? "desc" : "asc"];
    update({[`${name}.sort`]: `${by}:${direction}`}, {quiet: true});
    draw();
  }

  const head =
      h("tr", {},
        columns.map(
            (c) =>
                h("th", {
                  scope: "col",
                  class: [c.number && "number", c.class].filter(Boolean).join(" ") || null,
                  "data-key": c.key
                },
                  c.sortable === false ? c.title : h("button", {type: "button", onclick: () => sortBy(c)}, c.title))));

  const filter = text && h("input", {
                   type: "search",
                   placeholder: "Filter",
                   "aria-label": `Filter ${caption || name}`,
                   value: words,
                   oninput: (event) => {
                     words = event.target.value;
                     shown = kSteps;
                     update({[`${name}.q`]: words}, {quiet: true});
                     draw();
                   },
                 });
  const element =
      h("div", {class: flush ? "" : "inset"},
        h("div", {class: tall ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": caption || name},
          h("table", {id: `table-${name}`}, h("thead", {}, head), body)),
        more);
  draw();
  return {element, filter, count, redraw: draw};
}

// Unknown values come last whichever way it sorts.
function order(a, b, sign) {
  const none = (x) => x === null || x === undefined || Number.isNaN(x);
  if (none(a) || none(b)) return none(a) - none(b);
  return sign *
      (typeof a === "number" && typeof b === "number" ? a - b :
                                                        String(a).localeCompare(String(b), "en", {numeric: true}));
}
