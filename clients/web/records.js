// The tuning database: every measurement, the best of each workload, and how the best came about.

import {address, get, quoted} from "/web/api.js";
import {empty, h, panel, show, table} from "/web/dom.js";
import {ago, clock, ms, number, percent, scaled, short} from "/web/format.js";
import {bestSoFar} from "/web/charts.js";
import {artifactLink, filters, jobLink, pager, tag} from "/web/parts.js";

const FIELDS = [
  {name: "summary", title: "Workload", hint: "*conv*"},
  {name: "target", title: "Target", hint: "cascadelake"},
  {name: "host", title: "Machine", hint: "build-1"},
  {
    name: "mode",
    title: "Mode",
    options: [
      ["", "any"],
      ["profile", "profile"],
      ["search", "search"],
    ],
  },
  {name: "filter", title: "Filter", hint: "median_ms > 0.1 AND threads = 1", wide: true},
];

function filterOf(query) {
  const parts = ["summary", "target", "host", "mode", "workload"]
    .filter((name) => query.get(name))
    .map((name) => `${name} = ${quoted(query.get(name))}`);
  if (query.get("filter")) parts.push(`(${query.get("filter")})`);
  return parts.join(" AND ");
}

export async function records(context) {
  const {query} = context;
  const filter = filterOf(query),
    order = query.get("order") ?? "create_time desc";
  const asked = {filter, orderBy: order, pageSize: 50, pageToken: query.get("page")};
  const fastest = {filter, orderBy: "median_ms", pageSize: 1000};
  const [answer, best] = await Promise.all([
    get("/v1/records", asked, context.signal),
    get("/v1/records", fastest, context.signal),
  ]);
  const found = answer.records ?? [];
  const workload = query.get("workload");
  show(
    context.view,
    h(
      "div",
      {class: "title"},
      h("h1", {}, "Records"),
      workload && tag(`workload ${short(workload)}`),
      workload && h("a", {href: "/records"}, "all workloads"),
    ),
    filters(context, FIELDS),
    found.length === 0
      ? panel(
          "Records",
          {json: address("/v1/records", asked)},
          empty(
            filter
              ? "No record is like that. Take something out of the filter."
              : "Nothing was measured yet. Records are made by:",
            filter ? null : "tessera profile ARTIFACT\ntessera tune model.onnx --budget 5m",
          ),
        )
      : [
          workload && (await curve(context, filter)),
          !workload && bestOf(best.records ?? [], address("/v1/records", fastest), Boolean(best.nextPageToken)),
          panel(
            "Measurements",
            {json: address("/v1/records", asked)},
            table(
              "Records",
              [
                {
                  title: "Workload",
                  class: "wide",
                  sort: "summary",
                  cell: (record) =>
                    h(
                      "a",
                      {href: address("/records", {workload: record.workloadHash})},
                      record.workloadSummary || short(record.workloadHash),
                    ),
                },
                {title: "Median", num: true, sort: "median_ms", cell: (record) => ms(record.medianMs)},
                {title: "Speed", num: true, cell: speed},
                {title: "Runs", num: true, cell: (record) => (record.timesMs ?? []).length},
                {title: "Threads", num: true, cell: (record) => record.threads ?? 1},
                {title: "Mode", cell: (record) => record.mode ?? ""},
                {title: "Target", sort: "target", cell: (record) => record.targetName},
                {title: "Machine", cell: (record) => record.hostname},
                {title: "Checked", cell: (record) => record.validation ?? ""},
                {
                  title: "Made",
                  sort: "create_time",
                  first: "create_time desc",
                  cell: (record) => h("time", {title: clock(record.createTimeUs)}, ago(record.createTimeUs)),
                },
                {
                  title: "From",
                  cell: (record) =>
                    record.artifactId ? artifactLink(record.artifactId) : record.jobId ? jobLink(record.jobId) : "",
                },
              ],
              found,
              {order, sortBy: (next) => context.set({order: next, page: ""})},
            ),
          ),
        ],
    pager(context, answer.nextPageToken, found.length, "records"),
  );
}

const speed = (record) =>
  number(record.flops) && number(record.medianMs)
    ? scaled((number(record.flops) / number(record.medianMs)) * 1000, "FLOP/s")
    : "";

/** The fastest of each workload on each target with so many threads; `all` is ordered by time. */
function bestOf(all, json, more) {
  const groups = new Map();
  for (const record of all) {
    const key = [record.workloadHash, record.targetHash, record.threads].join();
    const group = groups.get(key) ?? {best: record, count: 0, worst: record};
    groups.set(key, {...group, count: group.count + 1, worst: record});
  }
  return panel(
    "Best of each workload",
    {json},
    table(
      "Best of each workload",
      [
        {
          title: "Workload",
          class: "wide",
          cell: ({best}) =>
            h(
              "a",
              {href: address("/records", {workload: best.workloadHash})},
              best.workloadSummary || short(best.workloadHash),
            ),
        },
        {title: "Best", num: true, cell: ({best}) => ms(best.medianMs)},
        {title: "Speed", num: true, cell: ({best}) => speed(best)},
        {title: "Measured", num: true, cell: ({count}) => count},
        {
          title: "Best over worst",
          num: true,
          cell: ({best, worst, count}) => (count > 1 ? percent(number(best.medianMs) / number(worst.medianMs)) : ""),
        },
        {title: "Threads", num: true, cell: ({best}) => best.threads ?? 1},
        {title: "Target", cell: ({best}) => best.targetName},
        {title: "Found by", cell: ({best}) => best.mode ?? ""},
      ],
      [...groups.values()].sort((x, y) => number(y.best.medianMs) - number(x.best.medianMs)).slice(0, 25),
    ),
    more && h("p", {class: "note"}, "Of the thousand fastest records; a filter narrows them."),
  );
}

async function curve(context, filter) {
  const asked = {filter, orderBy: "create_time", pageSize: 1000};
  const all = (await get("/v1/records", asked, context.signal)).records ?? [];
  return panel(
    "Best so far",
    {json: address("/v1/records", asked)},
    bestSoFar(
      all.map((record) => ({
        value: number(record.medianMs),
        label: `${ms(record.medianMs)}, ${record.mode}, ${clock(record.createTimeUs)}`,
      })),
    ),
  );
}
