// The two things the page may change: a note on a run, and its removal. Both ask first and carry the page's token.
import {act, canAct, part} from "./api.js";
import {h} from "./dom.js";

export function actionsFor(run) {
  if (!canAct) return null;
  return [
    " ",
    h("button", {type: "button", class: "quiet", onclick: () => note(run)}, run.tags.note ? "Edit note" : "Add note"),
    h("button", {type: "button", class: "quiet danger", onclick: () => remove(run)}, "Delete")
  ];
}

async function note(run) {
  const text = prompt("Note on this run", run.tags.note || "");
  if (text === null) return;
  await attempt(() => act(`/api/run/${part(run.id)}/note`, {text}));
  dispatchEvent(new Event("fk-route"));
}

async function remove(run) {
  if (!confirm(`Delete ${run.name || run.id} with its results and files? This cannot be undone.`)) return;
  // Away from its page first: a live update must not ask for a run that is gone.
  location.hash = "#/";
  await attempt(() => act(`/api/run/${part(run.id)}/delete`));
  dispatchEvent(new Event("fk-route"));
}

async function attempt(action) {
  try {
    await action();
    return true;
  } catch (error) {
    alert(error.message);
    return false;
  }
}
