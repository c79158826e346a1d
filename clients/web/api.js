// Calls of the service's JSON API. If the service requires a token, asks for one and keeps it for this tab only.

const KEY = "tessera-token";
let asked = null; // the promise of the open dialog
let declined = false; // the user declined to give a token: pages that poll must not ask repeatedly

export const token = () => sessionStorage.getItem(KEY) ?? "";

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `the service answered ${status}`);
    this.status = status;
    this.code = error?.status ?? "";
    this.failure = error?.details?.[0];
  }
}

function headers(more) {
  const sent = {"X-Tessera": "page", ...more};
  if (token()) sent.Authorization = `Bearer ${token()}`;
  return sent;
}

async function failed(response) {
  let error;
  try {
    error = (await response.json()).error;
  } catch {
    error = undefined;
  }
  return new ApiError(response.status, error);
}

async function request(path, options, signal) {
  for (;;) {
    let response;
    try {
      response = await fetch(path, {...options, headers: headers(options.headers), signal, credentials: "same-origin"});
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, {
        message: "the service does not answer; is tesserad running? This page retries automatically",
      });
    }
    if (response.status !== 401) return response;
    const error = await failed(response);
    if (declined || !(await askForToken(error.message))) {
      declined = true;
      throw error;
    }
  }
}

/** A GET request; empty `parameters` are omitted. */
export async function get(path, parameters, signal) {
  const response = await request(address(path, parameters), {method: "GET"}, signal);
  if (!response.ok) throw await failed(response);
  return response.json();
}

export async function post(path, body = {}) {
  const response = await request(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: {"Content-Type": "application/json"},
  });
  if (!response.ok) throw await failed(response);
  return response.json();
}

export function address(path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters ?? {}).filter(([, value]) => value));
  return query.size > 0 ? `${path}?${query}` : path;
}

/** Quotes a value of a filter; wildcards keep their meaning. */
export const quoted = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

/** Resolves when the page is visible, or at the signal. */
function looked(signal) {
  return new Promise((done) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      done();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check, {once: true});
    check();
  });
}

/**
 * Passes events of a job from `cursor` on to `onEvent`, until its end or the signal; reconnects after a broken connection.
 * Streams only while the page is visible: a browser has six connections to a service for all its tabs, and each stream occupies
 * one.
 */
export async function watch(job, cursor, onEvent, onState, signal) {
  while (!signal.aborted) {
    await looked(signal);
    const left = new AbortController();
    const leave = () => (document.hidden || signal.aborted) && left.abort();
    document.addEventListener("visibilitychange", leave);
    signal.addEventListener("abort", leave, {once: true});
    leave();
    try {
      onState("connecting");
      const response = await request(
        `/v1/jobs/${encodeURIComponent(job)}:watch`,
        {method: "GET", headers: cursor ? {"Last-Event-ID": String(cursor)} : {}},
        left.signal,
      );
      if (!response.ok) throw await failed(response);
      onState("live");
      for await (const event of events(response.body)) {
        if (event.name === "end") return onState("ended");
        if (event.name === "failed") throw new ApiError(0, JSON.parse(event.data).error);
        cursor = Math.max(cursor, Number(event.id) || 0);
        onEvent(JSON.parse(event.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if ([403, 404].includes(error.status)) throw error;
    } finally {
      document.removeEventListener("visibilitychange", leave);
      signal.removeEventListener("abort", leave);
    }
    onState("lost");
    await new Promise((done) => setTimeout(done, 1000));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fields = Object.fromEntries(
        text
          .slice(0, end)
          .split("\n")
          .filter((line) => !line.startsWith(":"))
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
      );
      text = text.slice(end + 2);
      if (fields.data) yield {id: fields.id, name: fields.event, data: fields.data};
    }
  }
}

/** Asks for a token; resolves to whether there is a new one. All waiting requests share one dialog. */
export function askForToken(why) {
  asked ??= new Promise((answered) => {
    const dialog = document.getElementById("ask");
    const field = Object.assign(document.createElement("input"), {
      type: "password",
      id: "token",
      autocomplete: "off",
      required: true,
      spellcheck: false,
    });
    const form = document.createElement("form");
    form.method = "dialog";
    const part = (tag, text, properties = {}) =>
      Object.assign(document.createElement(tag), {textContent: text, ...properties});
    const buttons = part("p", "", {className: "buttons"});
    const close = part("button", token() ? "Forget it" : "Not now", {type: "button", className: "quiet"});
    buttons.append(close, part("button", "Use this token", {type: "submit"}));
    form.append(
      part("h2", "Who are you?", {id: "ask-title"}),
      part("p", why),
      part("label", "Token", {htmlFor: "token"}),
      field,
      part(
        "p",
        "An operator creates one: tessera --operator-of DATA-FOLDER admin token create --name you --role client. " +
          "This tab keeps it until it is closed.",
        {className: "note"},
      ),
      buttons,
    );
    const end = (got) => {
      asked = null;
      if (got) declined = false;
      dialog.close();
      dialog.replaceChildren();
      answered(got);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, field.value.trim());
      document.dispatchEvent(new Event("tessera-token"));
      end(true);
    });
    close.addEventListener("click", () => {
      if (token()) {
        sessionStorage.removeItem(KEY);
        document.dispatchEvent(new Event("tessera-token"));
      }
      end(false);
    });
    dialog.addEventListener(
      "cancel",
      (event) => {
        event.preventDefault();
        end(false);
      },
      {once: true},
    );
    dialog.replaceChildren(form);
    if (!dialog.open) dialog.showModal(); // the list of keys may be open
    field.focus();
  });
  return asked;
}
