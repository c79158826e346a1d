// Parts shared by several pages: states, links, bars, filters stored in the address.

import {h, newId, sized} from "/web/dom.js";
import {number, percent, short, words} from "/web/format.js";

const TONES = {
  SUCCEEDED: "good",
  IDLE: "good",
  RUNNING: "busy",
  BUSY: "busy",
  FAILED: "bad",
  LOST: "bad",
  QUEUED: "rest",
  CANCELLED: "rest",
  DRAINING: "warn",
  SUSPENDED: "warn",
};

export const badge = (state) => h("span", {class: `badge ${TONES[state] ?? "rest"}`}, words(state) || "unknown");
export const tag = (text) => h("span", {class: "badge plain"}, text);

// A job's kind is the name of the field with its request, so that new kinds need no change here.
const OTHER = new Set([
  "id",
  "state",
  "requestId",
  "actionKey",
  "failure",
  "cached",
  "joinedJobId",
  "createTimeUs",
  "startTimeUs",
  "endTimeUs",
  "queueDeadlineUs",
  "runTimeoutUs",
  "progress",
  "phases",
  "priority",
  "deadlineUs",
  "client",
  "project",
  "labels",
]);
export const kindOf = (job) => Object.keys(job).find((key) => !OTHER.has(key) && !key.endsWith("Result")) ?? "job";
export const specOf = (job) => job[kindOf(job)] ?? {};
export const resultOf = (job) => Object.entries(job).find(([key]) => key.endsWith("Result"))?.[1];

/** One line about a compile or analyze job. */
export function aboutOf(job) {
  const spec = specOf(job);
  const compile = spec.compile ?? spec;
  return (
    compile.name ||
    (spec.artifactId
      ? `artifact ${short(spec.artifactId)}`
      : compile.model
        ? `model ${short(compile.model.sha256)}`
        : "")
  );
}
export function targetOf(spec) {
  const target = (spec.compile ?? spec).target;
  return target?.name ?? target?.inline?.name ?? "";
}

/** A target that was described in the request has no page. */
export const targetLink = (spec) =>
  (spec.compile ?? spec).target?.name
    ? h("a", {href: `/targets/${encodeURIComponent(targetOf(spec))}`}, targetOf(spec))
    : targetOf(spec);

export const jobLink = (id, text) =>
  h("a", {href: `/jobs/${encodeURIComponent(id)}`, class: text ? undefined : "mono"}, text ?? id);
export const artifactLink = (id, text) =>
  id ? h("a", {href: `/artifacts/${id}`, class: text ? undefined : "mono"}, text ?? short(id)) : "";

export function bar(share, label) {
  return h("div", {class: "bar", role: "img", "aria-label": label ?? percent(share)}, sized(h("span"), "width", share));
}
export function progressOf(job) {
  const {phase = "", done = 0, total = 0, detail = ""} = job.progress ?? {};
  if (!phase) return "";
  const count = total ? ` ${done}/${total}` : "";
  return h(
    "div",
    {title: detail},
    h("span", {class: "note"}, `${phase}${count}`),
    total ? bar(done / total, `${phase}: ${done} of ${total}`) : null,
  );
}
/** Labelled bars next to each other: [{name, value, text}]. */
export function bars(items) {
  const most = Math.max(...items.map(({value}) => value), 1e-12);
  return h(
    "div",
    {class: "bars"},
    items.map(({name, value, text}) => [
      h("span", {}, name),
      bar(value / most, `${text}`),
      h("span", {class: "num"}, text),
    ]),
  );
}

/** Input fields whose values are parameters of the address. */
export function filters(context, fields, ...more) {
  const apply = (form) =>
    context.set({...Object.fromEntries(fields.map(({name}) => [name, form.elements[name].value.trim()])), page: ""});
  const form = h(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Filters",
      onsubmit: (event) => {
        event.preventDefault();
        apply(form);
      },
    },
    fields.map(({name, title, options, hint, wide}) =>
      h(
        "label",
        {class: wide && "grow"},
        title,
        options
          ? h(
              "select",
              {name, id: `filter-${name}`, onchange: () => apply(form)},
              options.map(([value, text]) =>
                h("option", {value, selected: value === (context.query.get(name) ?? "")}, text),
              ),
            )
          : h("input", {
              name,
              id: `filter-${name}`,
              type: "search",
              placeholder: hint,
              value: context.query.get(name) ?? "",
              spellcheck: "false",
            }),
      ),
    ),
    h("button", {type: "submit"}, "Apply"),
    more,
  );
  return form;
}

export function pager(context, nextToken, count, what) {
  const first = context.query.get("page");
  return h(
    "div",
    {class: "pager"},
    h("span", {}, `${count} ${what}${nextToken || first ? " on this page" : ""}`),
    h(
      "span",
      {class: "buttons"},
      first && h("button", {type: "button", id: "first-page", onclick: () => context.set({page: ""})}, "First page"),
      nextToken &&
        h("button", {type: "button", id: "next-page", onclick: () => context.set({page: nextToken})}, "Next page"),
    ),
  );
}

export function failureBox(failure) {
  if (!failure) return null;
  const lines = [
    ["Where", [failure.node, failure.opType, failure.attribute].filter(Boolean).join(" · ")],
    ["Found", failure.found],
    ["Accepted", failure.accepted],
    ["What to do", failure.fix],
    ["Signal", number(failure.signal) || ""],
    [
      "To run it again",
      failure.reproducer && h("code", {}, `tessera fetch ${failure.reproducer.sha256} -o reproducer.pb`),
    ],
  ];
  const id = newId("failure");
  return h(
    "section",
    {class: "problem", "aria-labelledby": id},
    h("h2", {id}, words(failure.reason) || "failed"),
    h("p", {}, failure.message),
    h(
      "dl",
      {class: "facts"},
      lines.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
  );
}
