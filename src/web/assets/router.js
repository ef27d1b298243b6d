// The address is the state: "#/operator/rms_norm?run=…&sort=speedup". What a page shows can be sent as a link.
export function parse(hash = location.hash) {
  const text = hash.replace(/^#/, "") || "/";
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  const parts = path.split("/").filter(Boolean).map(decode);
  return {
    page: parts[0] || "overview",
    args: parts.slice(1),
    query: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1))
  };
}

// A hand-made link may hold a stray "%".
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(page, args = [], query = {}) {
  const path = "#/" + [page === "overview" ? "" : page, ...args].map((part) => encodeURIComponent(part)).join("/");
  const search = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== ""))
                     .toString();
  return search ? `${path}?${search}` : path;
}

export const runLink = (id) => link("run", [id]);
export const operatorLink = (name) => link("operator", [name]);
export const modelLink = (name) => link("model", [name]);

// Changes parts of the query; `push` adds a history entry, so that the back button undoes it. An empty value is left
// out.
export function update(changes, {push = false, quiet = false} = {}) {
  const route = parse();
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined || value === null || value === "")
      route.query.delete(key);
    else
      route.query.set(key, value);
  }
  const target = link(route.page, route.args, Object.fromEntries(route.query));
  if (target === location.hash) return;
  history[push ? "pushState" : "replaceState"](null, "", target);
  if (!quiet) dispatchEvent(new Event("fk-route"));
}
