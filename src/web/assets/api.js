// Loads the data: from the server, or from the JSON in an offline file under the same paths.
const carried = document.getElementById("fk-data");
const embedded = carried ? JSON.parse(carried.textContent) : null;
export const offline = embedded !== null;

const kept = new Map();  // cached replies; cleared when the history changes

export async function get(path) {
  if (embedded) {
    if (path in embedded) return embedded[path];
    throw new Error("This file does not carry it; `fastkernels dashboard` shows every run.");
  }
  if (!kept.has(path))
    kept.set(path, load(path).catch((error) => {
      kept.delete(path);
      throw error;
    }));
  return kept.get(path);
}

async function load(path) {
  const response = await fetch(path, {headers: {Accept: "application/json"}});
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error || `The server answered ${response.status}.`);
  return body;
}

export function forget() { kept.clear(); }

export const has = (path) => !embedded || path in embedded;
export const startRoute = () => (embedded ? embedded["start"] : null);

// Encodes one part of a path.
export const part = encodeURIComponent;

// Artifact names keep their slashes.
export const artifactPath = (prefix, run, name) => `${prefix}/${part(run)}/${name.split("/").map(part).join("/")}`;

// Explicit actions; the token proves that the request comes from our own page.
export const canAct = !offline && document.querySelector("meta[name=\"fk-token\"]") !== null;

export async function act(path, body) {
  const token = document.querySelector("meta[name=\"fk-token\"]").content;
  const response = await fetch(path, {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-Fastkernels-Token": token},
    body: JSON.stringify(body || {}),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
  forget();
  return answer;
}
