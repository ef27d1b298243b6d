// h("td", {class: "number"}, "1.2x"): elements from data. Children that are not nodes become text nodes, never markup:
// names of runs, candidates and files cannot inject HTML.
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on"))
      element.addEventListener(name.slice(2), value);
    else
      element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// A name that may break after its slashes and underscores.
export function breakable(path) {
  return String(path).split(/(?<=[/_])/).flatMap((piece, i) => (i ? [document.createElement("wbr"), piece] : [piece]));
}

// A card with a heading, an optional sentence under it and tools at its right.
export function card(title, {note, tools, flush, alarm, id} = {}, ...children) {
  return h(
      "section", {class: ["card", flush && "flush", alarm && "alarm"].filter(Boolean).join(" "), id},
      h("header", {}, h("h2", {}, title), tools && h("div", {class: "tools"}, tools), note && h("p", {}, note)),
      children);
}

// A note that something does not exist yet, with the command that creates it.
export function empty(title, sentence, command) {
  return h(
      "div", {class: "empty"}, h("strong", {}, title), h("span", {}, sentence),
      command && h("div", {}, h("pre", {}, command)));
}

export function facts(pairs) {
  return h(
      "dl", {class: "facts"},
      pairs.filter(([, value]) => value !== undefined && value !== null && value !== "")
          .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// The key figures of a page.
export function keyFigures(pairs) {
  return h(
      "dl", {class: "key"},
      pairs.filter(Boolean).map(
          ([name, value, detail, tone]) =>
              h("div", {}, h("dt", {}, name), h("dd", {class: tone}, value, detail && h("small", {}, " ", detail)))));
}

export function badge(text, tone) { return h("span", {class: tone ? `badge ${tone}` : "badge"}, text); }

export function select(label, options, value, change) {
  return h(
      "select", {"aria-label": label, onchange: (event) => change(event.target.value)},
      options.map(([key, text]) => h("option", {value: key, selected: key === value}, text)));
}
