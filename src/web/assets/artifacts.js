// The files of a run, to read here or to download.
import {artifactPath, get, has, offline} from "./api.js";
import {codeView} from "./code_view.js";
import {breakable, card, empty, h} from "./dom.js";
import {bytes} from "./format.js";
import {download} from "./save.js";
import {table} from "./table.js";

const kSource = /\.(cpp|cc|cu|cuh|h|hpp|c)$/;

export function artifactsCard(run, artifacts) {
  if (!artifacts.length)
    return card("Artifacts", {}, empty("Nothing kept", "This run left no source, log or result file."));
  const shelf = h("div");

  async function read(a) {
    try {
      const {text, truncated} = await get(`/api/source/${a.sha256}`);
      shelf.replaceChildren(
          h("header", {class: "pad"}, h("h3", {}, a.path),
            truncated && h("span", {class: "muted"}, " the first part; download it for all")),
          kSource.test(a.path) ? codeView(text) : h("pre", {class: "log", tabindex: "0"}, text));
    } catch (error) {
      shelf.replaceChildren(h("p", {class: "pad bad"}, error.message));
    }
  }

  const fetchIt = (a) =>
      (offline ?
           has(`/api/source/${a.sha256}`) &&
               h("button", {
                 type: "button",
                 class: "quiet",
                 onclick: async () => download(
                     "data:application/octet-stream," + encodeURIComponent((await get(`/api/source/${a.sha256}`)).text),
                     a.path.split("/").pop())
               },
                 "Download") :
           h("a", {href: artifactPath("/artifact", run.id, a.path), download: a.path.split("/").pop()}, "Download"));

  const view = table(
      "artifacts",
      [
        {
          key: "path",
          title: "File",
          value: (a) => a.path,
          class: "name",
          cell: (a) => h("code", {}, breakable(a.path))
        },
        {key: "size", title: "Size", number: true, value: (a) => a.size_bytes, cell: (a) => bytes(a.size_bytes)},
        {
          key: "sha",
          title: "SHA-256",
          value: (a) => a.sha256,
          class: "wide-only",
          cell: (a) => h("code", {class: "muted", title: a.sha256}, a.sha256.slice(0, 12))
        },
        {
          key: "do",
          title: "",
          sortable: false,
          value: () => "",
          cell: (a) =>
              [has(`/api/source/${a.sha256}`) &&
                   h("button", {type: "button", class: "quiet", onclick: () => read(a)}, "Read"),
               " ", fetchIt(a)]
        },
      ],
      artifacts, {caption: "Artifacts"});
  return card("Artifacts", {flush: true, id: "artifacts"}, view.element, shelf);
}
