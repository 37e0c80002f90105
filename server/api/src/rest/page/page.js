// The page for the HTTP API. It is made from /openapi.json, holds what is typed in its memory only, and
// writes what it shows as text, never as markup.
"use strict";

const FOCUS_SENDS = "Enter";
// What stands for a credential wherever a request is shown, so that it can be passed on.
const HIDDEN = "\u2022\u2022\u2022\u2022\u2022\u2022";
const find = (selector, inside = document) => inside.querySelector(selector);

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// Descriptions are plain words with `code` in them.
function words(text) {
  return text.split("`").map((part, at) => (at % 2 ? make("code", { textContent: part }) : part));
}

function fail(why) {
  find("#failure").textContent = why;
  find("#failure").hidden = false;
}

// One reference deep is all that the description has.
function resolved(described, value) {
  if (!value?.$ref) return value;
  return value.$ref.slice(2).split("/").reduce((inside, key) => inside[key], described);
}

// Objects of the description are in order of the alphabet; where another one is meant, it says so.
function ordered(object) {
  return Object.entries(object).sort(([, a], [, b]) => (a["x-order"] ?? 0) - (b["x-order"] ?? 0));
}

// ---- Credentials ------------------------------------------------------------------------------------

// The security schemes by name: which header, what goes before the value, which variable curl takes it from.
function credentialRows(described) {
  return ordered(described.components.securitySchemes).map(([name, scheme]) => ({
    name,
    about: scheme.description,
    header: scheme.type === "http" ? "authorization" : scheme.name,
    prefix: scheme.type === "http" ? "Bearer " : "",
    variable: name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase()),
    value: "",
  }));
}

function showCredentials(rows) {
  for (const row of rows) {
    const id = `credential-${row.name}`;
    const input = make("input", { id, type: "password", autocomplete: "off", spellcheck: false });
    input.setAttribute("aria-describedby", `${id}-hint`);
    input.addEventListener("input", () => { row.value = input.value.trim(); });
    const toggle = make("button", { type: "button", textContent: "Show" });
    toggle.setAttribute("aria-label", `Show ${row.header}`);
    toggle.setAttribute("aria-pressed", "false");
    toggle.addEventListener("click", () => {
      const shows = input.type === "password";
      input.type = shows ? "text" : "password";
      toggle.setAttribute("aria-pressed", String(shows));
    });
    find("#credential-fields").append(make("div", { className: "field" },
      make("label", { htmlFor: id, textContent: row.header }),
      make("div", { className: "line" }, input, toggle),
      make("p", { id: `${id}-hint`, className: "hint" }, ...words(row.about))));
  }
  find("#credentials").hidden = false;
}

// ---- Fields of a body -------------------------------------------------------------------------------

function typesOf(schema) {
  return [schema.type].flat();
}

function bounds(schema) {
  const says = [];
  if (schema.minimum !== undefined) says.push(`${schema.minimum} to ${schema.maximum}`);
  if (schema.default !== undefined && schema.default !== null) says.push(`default ${schema.default}`);
  return says.length ? ` (${says.join(", ")})` : "";
}

// One field of the form; `read` gives its value, or undefined where it is left out.
function field(prefix, name, schema, required) {
  const id = `${prefix}-${name}`;
  const types = typesOf(schema);
  const hint = make("p", { id: `${id}-hint`, className: "hint" }, ...words((schema.description ?? "") + bounds(schema)));
  const label = make("label", { htmlFor: id, textContent: name });
  if (required) label.append(make("span", { className: "need", textContent: " required" }));
  if (types.includes("boolean")) {
    const box = make("input", { id, type: "checkbox", checked: schema.default === true });
    box.setAttribute("aria-describedby", hint.id);
    const line = make("div", { className: "line" }, box, label);
    return { element: make("div", { className: "field flag" }, line, hint), read: () => box.checked };
  }
  const number = types.includes("integer") || types.includes("number");
  const input = make("input", { id, type: number ? "number" : "text", autocomplete: "off" });
  if (number) {
    input.min = schema.minimum;
    input.max = schema.maximum;
    input.placeholder = schema.default ?? "";
  } else if (types.includes("null")) {
    input.placeholder = "null";
  }
  input.required = required;
  input.setAttribute("aria-describedby", hint.id);
  const read = () => {
    if (input.value === "") return required ? "" : undefined;
    return number ? Number(input.value) : input.value;
  };
  const wide = required ? " wide" : "";
  return { element: make("div", { className: `field${wide}` }, label, input, hint), read, input };
}

// ---- Requests and answers ---------------------------------------------------------------------------

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// The request as curl, with credentials from the environment.
function asCurl(request) {
  const lines = [`curl -sS -X ${request.method} ${quoted(request.url)}`];
  for (const row of request.credentials) {
    lines.push(`-H "${row.header}: ${row.prefix}$${row.variable}"`);
  }
  if (request.body !== undefined) {
    lines.push(`-H ${quoted("content-type: application/json")}`, `--data-raw ${quoted(request.body)}`);
  }
  return lines.join(" \\\n  ");
}

function asHttp(request) {
  const url = new URL(request.url);
  const lines = [`${request.method} ${url.pathname} HTTP/1.1`, `host: ${url.host}`];
  for (const row of request.credentials) lines.push(`${row.header}: ${row.prefix}${HIDDEN}`);
  if (request.body !== undefined) lines.push("content-type: application/json", "", request.body);
  return lines.join("\n");
}

function prettied(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function exchange(request, signal) {
  const headers = {};
  for (const row of request.credentials) headers[row.header] = row.prefix + row.value;
  if (request.body !== undefined) headers["content-type"] = "application/json";
  const began = performance.now();
  const answer = await fetch(request.url, {
    method: request.method, headers, body: request.body, signal,
    credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
  });
  const bytes = await answer.arrayBuffer();
  return {
    status: answer.status, reason: answer.statusText, took: performance.now() - began, size: bytes.byteLength,
    head: [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n"),
    body: prettied(new TextDecoder().decode(bytes)),
  };
}

// ---- One operation ----------------------------------------------------------------------------------

class Operation {
  constructor(described, path, method, operation, rows) {
    this.path = path;
    this.method = method.toUpperCase();
    this.rows = rows.filter((row) => operation.security.some((needed) => row.name in needed));
    this.element = find("#operation-template").content.cloneNode(true).firstElementChild;
    this.element.id = operation.operationId;
    this.way = "fields";
    this.as = "http";
    this.find(".method").textContent = this.method;
    this.find(".path").textContent = path;
    this.find(".summary").textContent = operation.summary;
    this.find(".description").append(...words(operation.description));
    const needs = this.rows.map((row) => row.header).join(", ");
    this.find(".gate").textContent = needs ? `Needs ${needs}.` : "Needs no credentials.";
    this.showBody(described, operation);
    this.showAnswers(described, operation);
    this.listen();
  }

  find(selector) { return find(selector, this.element); }

  all(selector) { return this.element.querySelectorAll(selector); }

  showBody(described, operation) {
    const content = operation.requestBody?.content["application/json"];
    this.takesBody = content !== undefined;
    this.find(".ways").hidden = !this.takesBody;
    this.fields = [];
    if (!this.takesBody) return;
    const schema = resolved(described, content.schema);
    for (const [name, property] of ordered(schema.properties)) {
      const required = schema.required.includes(name);
      const one = field(operation.operationId, name, property, required);
      this.fields.push([name, one]);
      this.find(".fields").append(one.element);
      if (required && one.input) one.input.value = content.example?.[name] ?? "";
    }
    const area = this.find("textarea");
    area.id = `${operation.operationId}-raw`;
    area.value = JSON.stringify(content.example, null, 2);
    this.find(".raw label").htmlFor = area.id;
    this.find(".raw label").textContent = "Body, sent as it is";
  }

  showAnswers(described, operation) {
    for (const [status, answer] of Object.entries(operation.responses)) {
      const about = resolved(described, answer).description;
      this.find(".answers dl").append(make("dt", { textContent: status }), make("dd", {}, ...words(about)));
    }
  }

  listen() {
    this.find("form").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    this.find("form").addEventListener("keydown", (event) => {
      if (event.key === FOCUS_SENDS && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.send(); }
    });
    this.find(".stop").addEventListener("click", () => this.stopper?.abort());
    this.all(".way").forEach((button) => button.addEventListener("click", () => this.giveBody(button.dataset.way)));
    this.all(".as").forEach((button) => button.addEventListener("click", () => this.showRequest(button.dataset.as)));
    this.all(".copy").forEach((button) => button.addEventListener("click", () => this.copy(button)));
  }

  press(buttons, key, value) {
    this.all(buttons).forEach((button) => button.setAttribute("aria-pressed", String(button.dataset[key] === value)));
  }

  giveBody(way) {
    if (way === "raw" && this.way === "fields") this.find("textarea").value = JSON.stringify(this.fromFields(), null, 2);
    this.way = way;
    this.find(".fields").hidden = way !== "fields";
    this.find(".raw").hidden = way !== "raw";
    this.press(".way", "way", way);
  }

  fromFields() {
    const read = this.fields.map(([name, one]) => [name, one.read()]);
    return Object.fromEntries(read.filter(([, value]) => value !== undefined));
  }

  body() {
    if (!this.takesBody) return undefined;
    return this.way === "raw" ? this.find("textarea").value : JSON.stringify(this.fromFields());
  }

  async send() {
    this.stopper?.abort();
    const stopper = new AbortController();
    this.stopper = stopper;
    const credentials = this.rows.filter((row) => row.value !== "").map((row) => ({ ...row }));
    this.request = { method: this.method, url: location.origin + this.path, credentials, body: this.body() };
    this.find(".exchange").hidden = false;
    this.find(".stop").hidden = false;
    this.showRequest(this.as);
    this.showOutcome("Waiting for the answer", "");
    this.find(".shown-head").hidden = this.find(".shown-answer").hidden = true;
    this.element.setAttribute("aria-busy", "true");
    try {
      const answer = await exchange(this.request, stopper.signal);
      if (this.stopper === stopper) this.showAnswer(answer);
    } catch (error) {
      if (this.stopper === stopper) {
        const why = stopper.signal.aborted ? "Stopped" : `No answer: ${error.message}`;
        this.showOutcome(why, "bad");
      }
    } finally {
      if (this.stopper === stopper) {
        this.stopper = undefined;
        this.find(".stop").hidden = true;
        this.element.removeAttribute("aria-busy");
      }
    }
  }

  showRequest(as) {
    this.as = as;
    this.press(".as", "as", as);
    this.find(".shown-request").textContent = as === "curl" ? asCurl(this.request) : asHttp(this.request);
  }

  showOutcome(text, kind) {
    this.find(".outcome").textContent = text;
    this.find(".outcome").className = `outcome ${kind}`;
  }

  showAnswer(answer) {
    const took = `${answer.took.toFixed(0)} ms, ${answer.size} bytes`;
    this.showOutcome(`${answer.status} ${answer.reason}, ${took}`, answer.status < 300 ? "good" : "bad");
    this.find(".shown-head").textContent = answer.head;
    this.find(".shown-answer").textContent = answer.body;
    this.find(".shown-head").hidden = this.find(".shown-answer").hidden = false;
    this.find(".answer").scrollIntoView({ block: "nearest" });
  }

  async copy(button) {
    const shown = this.find(button.dataset.of === "request" ? ".shown-request" : ".shown-answer");
    try {
      await navigator.clipboard.writeText(shown.textContent);
      button.textContent = "Copied";
    } catch {
      // Without permission the text is at least marked, and the keyboard copies it.
      getSelection().selectAllChildren(shown);
      button.textContent = "Marked";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
}

async function begin() {
  const answer = await fetch("/openapi.json", { credentials: "omit" });
  if (!answer.ok) throw new Error(`/openapi.json was answered with ${answer.status}`);
  const described = await answer.json();
  find("#title").textContent = described.info.title;
  find("#about").append(...words(described.info.description));
  find("#version").textContent = `Version ${described.info.version}`;
  const rows = credentialRows(described);
  showCredentials(rows);
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const one = new Operation(described, path, method, operation, rows);
      find("#operations").append(one.element);
      find("#index").append(make("a", { href: `#${one.element.id}`, textContent: `${one.method} ${path}` }));
    }
  }
  find("#index").hidden = false;
}

begin().catch((error) => fail(`The description could not be read: ${error.message}`));
