// Routes of the page. The address contains the complete view, so that a link shows the same to another person.

import {ApiError, askForToken, token} from "/web/api.js";
import {add, h, show} from "/web/dom.js";
import {artifact, artifacts} from "/web/artifacts.js";
import {compare} from "/web/compare.js";
import {job} from "/web/job.js";
import {jobs} from "/web/jobs.js";
import {operators} from "/web/operators.js";
import {overview} from "/web/overview.js";
import {records} from "/web/records.js";
import {target, targets} from "/web/targets.js";
import {workers} from "/web/workers.js";

const PAGES = [
  {path: /^\/$/, title: "Overview", view: overview, link: "/"},
  {path: /^\/jobs$/, title: "Jobs", view: jobs, link: "/jobs"},
  {path: /^\/jobs\/([^/]+)$/, title: "Job", view: job, under: "/jobs"},
  {path: /^\/artifacts$/, title: "Artifacts", view: artifacts, link: "/artifacts"},
  {path: /^\/artifacts\/([^/]+)$/, title: "Artifact", view: artifact, under: "/artifacts"},
  {path: /^\/compare$/, title: "Compare", view: compare, link: "/compare"},
  {path: /^\/records$/, title: "Records", view: records, link: "/records"},
  {path: /^\/targets$/, title: "Targets", view: targets, link: "/targets"},
  {path: /^\/targets\/([^/]+)$/, title: "Target", view: target, under: "/targets"},
  {path: /^\/operators$/, title: "Operators", view: operators, link: "/operators"},
  {path: /^\/workers$/, title: "Workers", view: workers, link: "/workers"},
];

const main = document.getElementById("main");
let ended = new AbortController();

/**
 * Opens the view of the current address. A view receives its element, the address's parts, a signal that fires when the view is
 * left, and functions to navigate.
 */
function open({keepFocus = false} = {}) {
  ended.abort();
  ended = new AbortController();
  const {pathname, searchParams} = new URL(location.href);
  const page = PAGES.find(({path}) => path.test(pathname));
  navigation(page);
  document.title = page ? `${page.title} · Tessera` : "Tessera";
  if (!page) {
    return show(
      main,
      h("h1", {}, "Nothing here"),
      h("p", {}, "There is no such page. The ", h("a", {href: "/"}, "overview"), " links to all pages."),
    );
  }
  const signal = ended.signal;
  const [, id] = page.path.exec(pathname);
  const decoded = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // a per cent sign that is no escape sequence
    }
  };
  const view = h("div", {class: "view"}, h("p", {class: "wait"}, "Loading."));
  main.replaceChildren(view);
  main.dataset.state = "loading";
  const context = {
    view,
    signal,
    id: id && decoded(id),
    query: searchParams,
    /** Opens the same page with other parameters. */
    set(changes, replace = false) {
      const next = new URLSearchParams(location.search);
      for (const [name, value] of Object.entries(changes)) value ? next.set(name, value) : next.delete(name);
      go(`${location.pathname}${next.size ? `?${next}` : ""}`, {replace, keepFocus: true});
    },
    go,
    say,
    /** Runs `look` periodically while the page is visible. Errors are shown and do not stop it. */
    async every(period, look) {
      while (!signal.aborted) {
        if (!document.hidden) await guarded(look);
        await new Promise((done) => setTimeout(done, period));
      }
    },
    guarded,
  };
  async function guarded(work) {
    try {
      await work();
      view.querySelector(".problem.passing")?.remove();
      main.dataset.state = "ready";
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (!(error instanceof ApiError)) console.error(error);
      view.querySelector(".problem.passing")?.remove();
      view.querySelector(".wait")?.remove();
      view.prepend(problem(error));
      main.dataset.state = "failed";
    }
  }
  guarded(() => page.view(context));
  if (!keepFocus) {
    main.focus({preventScroll: true});
    scrollTo(0, 0);
  }
}

/** Shows an error and its remedy. */
function problem(error) {
  const told = {
    401: "Use the Token button above.",
    403: "Ask the operator of this service, or use another token.",
    404: "It may have been deleted; its list shows existing ones.",
  }[error.status];
  return h(
    "div",
    {class: "problem passing", role: "alert"},
    h("p", {}, h("strong", {}, "This failed. "), error.message),
    (error.failure?.accepted || told) &&
      h("p", {}, error.failure?.accepted ? `Accepted: ${error.failure.accepted}. ` : "", told),
  );
}

function say(text) {
  document.getElementById("said").textContent = text;
}

function navigation(page) {
  const here = page?.link ?? page?.under;
  show(
    document.getElementById("nav"),
    PAGES.filter(({link}) => link).map(({title, link}) =>
      h("li", {}, h("a", {href: link, "aria-current": link === here ? "page" : undefined}, title)),
    ),
  );
  document.getElementById("nav").querySelector("[aria-current]")?.scrollIntoView({block: "nearest", inline: "nearest"});
}

export function go(address, {replace = false, keepFocus = false} = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  open({keepFocus});
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const to = new URL(link.href, location.href);
  if (to.origin !== location.origin || /^\/(v1|docs|web)(\/|$)/.test(to.pathname) || to.hash) return;
  event.preventDefault();
  go(to.pathname + to.search);
});
window.addEventListener("popstate", () => open());

// Keyboard shortcuts: g and a letter opens a page, / focuses its first filter, ? lists the shortcuts.
const KEYS = {
  o: "/",
  j: "/jobs",
  a: "/artifacts",
  c: "/compare",
  r: "/records",
  t: "/targets",
  p: "/operators",
  w: "/workers",
};
let goes = false;
document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const key = event.key;
  if (goes && KEYS[key]) go(KEYS[key]);
  goes = key === "g";
  if (key === "/") {
    const field = main.querySelector("input, select");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  }
  if (key === "?") help();
});

function help() {
  const dialog = document.getElementById("ask");
  if (dialog.open) return;
  dialog.replaceChildren(
    h(
      "div",
      {},
      h("h2", {id: "ask-title"}, "Keys"),
      h(
        "dl",
        {class: "facts"},
        [
          ["g then o j a c r t p w", "overview, jobs, artifacts, compare, records, targets, operators, workers"],
          ["/", "to the page's first filter"],
          ["?", "this"],
        ].map(([key, what]) => h("div", {}, h("dt", {}, key), h("dd", {}, what))),
      ),
      h("p", {class: "buttons"}, h("button", {type: "button", onclick: () => dialog.close()}, "Close")),
    ),
  );
  dialog.showModal();
}

const THEMES = ["system", "light", "dark"];
function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  button.textContent = {system: "Auto", light: "Light", dark: "Dark"}[name];
  button.setAttribute("aria-label", `Colours: ${name}. Change.`);
}
const kept = localStorage.getItem("tessera-theme");
let now = THEMES.includes(kept) ? kept : "system";
theme(now);
document.getElementById("theme").addEventListener("click", () => {
  now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  localStorage.setItem("tessera-theme", now);
  theme(now);
});

const who = document.getElementById("who");
const tokenShown = () => {
  who.textContent = token() ? "Token set" : "Token";
};
who.addEventListener("click", async () => {
  if (await askForToken("A token identifies you. Without one you see only what this service shows to anonymous callers.")) open();
});
document.addEventListener("tessera-token", tokenShown);
tokenShown();
open();
