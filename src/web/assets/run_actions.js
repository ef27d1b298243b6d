// The two things the page may change: a note on a run, and its removal. Both carry the page's token.
import {act, canAct, part} from "./api.js";
import {h} from "./dom.js";

export function actionsFor(run) {
  if (!canAct) return null;
  return [
    " ",
    h("button", {type: "button", class: "quiet", "aria-expanded": "false", onclick: (event) => toggle(event, run)},
      run.tags.note ? "Edit note" : "Add note"),
    h("button", {type: "button", class: "quiet danger", onclick: () => remove(run)}, "Delete")
  ];
}

// The form opens under the heading of the run; a second click, or Escape, closes it.
function toggle(event, run) {
  const button = event.currentTarget;
  const head = button.closest(".head");
  const open = head.querySelector(".note-form");
  if (open) return void open.close();
  const form = noteForm(run, () => {
    button.setAttribute("aria-expanded", "false");
    button.focus();
  });
  button.setAttribute("aria-expanded", "true");
  head.append(form);
  form.querySelector("textarea").focus();
}

function noteForm(run, closed) {
  const text = h("textarea", {"aria-label": "Note on this run", maxlength: "4000", rows: "3"});
  text.value = run.tags.note || "";
  const trouble = h("span", {class: "bad small", role: "alert"});
  const form =
      h("form", {
        class: "note-form",
        onsubmit: async (event) => {
          event.preventDefault();
          try {
            await act(`/api/run/${part(run.id)}/note`, {text: text.value.trim()});
            form.remove();
            dispatchEvent(new Event("fk-route"));
          } catch (error) {
            trouble.textContent = error.message;
          }
        },
        onkeydown: (event) => {
          if (event.key === "Escape") form.close();
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
        }
      },
        text,
        h("div", {class: "row"}, h("button", {class: "primary"}, "Save note"),
          h("button", {type: "button", class: "quiet", onclick: () => form.close()}, "Cancel"), trouble));
  form.close = () => {
    form.remove();
    closed();
  };
  return form;
}

async function remove(run) {
  if (!confirm(`Delete ${run.name || run.id} with its results and files? This cannot be undone.`)) return;
  // Leave the page first: a live update must not request a deleted run.
  location.hash = "#/";
  try {
    await act(`/api/run/${part(run.id)}/delete`);
  } catch (error) {
    alert(error.message);
  }
  dispatchEvent(new Event("fk-route"));
}
