// Requests to the service. All of them go to the page's own origin; nothing is kept but the token of a session.
import { workspace } from "/console/whose.js";

const TOKEN_NAME = "recalld-console-token";
const TOKEN_HEADER = "x-recalld-console";

// What the service refused, or that it did not answer.
class Refused extends Error {
  constructor(status, detail, waits) {
    super(detail);
    this.status = status;
    this.waits = waits;
  }
}

async function request(path, { method = "GET", body, signal, headers = {} } = {}) {
  const options = {
    method,
    signal,
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
    headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "The service does not answer. Is it running?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  const detail = typeof told.detail === "string" ? told.detail : `The service answered ${answer.status}.`;
  throw new Refused(answer.status, detail, answer.headers.get("retry-after"));
}

// A call in the workspace that is shown, without arguments that say nothing.
function calling(tool, given = {}) {
  const said = Object.entries(given).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return { tool, arguments: Object.fromEntries(said), workspace: workspace() || undefined };
}

// One call of a tool that reads: its structured result. In a tenant's workspace that takes a session.
export async function call(tool, given, signal) {
  const body = calling(tool, given);
  if (body.workspace) return privileged("/console/call", body, signal);
  const answer = await request("/console/call", { method: "POST", body, signal });
  return answer.json();
}

// One call of a tool that changes an item, or only what it would come to.
export const change = (tool, given, { dryRun = false } = {}) =>
  privileged("/console/change", { ...calling(tool, given), dry_run: dryRun || undefined });

// ---- What is counted --------------------------------------------------------------------------------

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

// The samples of /metrics: name, labels, value.
export async function metrics(signal) {
  const answer = await request("/metrics", { signal });
  const samples = [];
  for (const line of (await answer.text()).split("\n")) {
    const found = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (!found) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]));
    samples.push({ name: found[1], labels, value: Number(found[3].replace("+Inf", "Infinity")) });
  }
  return samples;
}

// ---- Administration ---------------------------------------------------------------------------------

// The token stands with the page's origin, which has a port; the cookie beside it is for the whole host.
function token() {
  try {
    return localStorage.getItem(TOKEN_NAME) ?? "";
  } catch {
    return "";
  }
}

function keep(value) {
  try {
    if (value) localStorage.setItem(TOKEN_NAME, value);
    else localStorage.removeItem(TOKEN_NAME);
  } catch {
    // Then the session lasts as long as the page.
  }
  kept = value;
}

let kept = token();
const signed = () => ({ [TOKEN_HEADER]: kept });
const told = new EventTarget();

// Tells whoever listens that somebody signed in or out.
export const onSession = (listener) => told.addEventListener("session", listener);

export async function isSignedIn(signal) {
  if (!kept) return false;
  const answer = await request("/console/session", { headers: signed(), signal });
  return (await answer.json()).signed_in;
}

export async function signIn(bearer) {
  const answer = await request("/console/session", { method: "POST", body: { bearer } });
  keep((await answer.json()).token);
  told.dispatchEvent(new Event("session"));
}

export async function signOut() {
  await request("/console/session", { method: "DELETE", headers: signed() });
  keep("");
  told.dispatchEvent(new Event("session"));
}

// One act of administration, such as {act: "tenant list"}.
export const admin = (act, signal) => privileged("/console/admin", act, signal);

// What takes a session; one that is over is forgotten.
async function privileged(path, body, signal) {
  try {
    const answer = await request(path, { method: "POST", body, headers: signed(), signal });
    return await answer.json();
  } catch (error) {
    if (error instanceof Refused && error.status === 401 && kept) {
      keep("");
      told.dispatchEvent(new Event("session"));
    }
    throw error;
  }
}
