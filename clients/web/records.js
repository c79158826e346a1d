// The tuning database: all measurements, the best schedule of each workload, and the history of the best.

import {address, get, quoted} from "/web/api.js";
import {empty, h, panel, show, table} from "/web/dom.js";
import {ago, clock, ms, number, scaled, short, words} from "/web/format.js";
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
      ["confirmed", "confirmed"],
      ["choice", "choice"],
    ],
  },
  {name: "job", title: "Job", hint: "job-…"},
  {name: "filter", title: "Filter", hint: "median_ms > 0.1 AND threads = 1", wide: true},
];

function filterOf(query) {
  const parts = ["summary", "target", "host", "mode", "job", "workload"]
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
  // The best of all records; a filter shows single measurements instead.
  const best = {targetName: query.get("target"), pageSize: 100};
  const all = filter === filterOf(new URLSearchParams({target: query.get("target") ?? ""}));
  const [answer, bests] = await Promise.all([
    get("/v1/records", asked, context.signal),
    all && get("/v1/records:best", best, context.signal),
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
              ? "No record matches the filter."
              : "There are no records yet. To measure:",
            filter ? null : "tessera profile ARTIFACT\ntessera tune model.onnx --budget 5m",
          ),
        )
      : [
          workload && (await curve(context, filter)),
          (bests.groups ?? []).length > 0 && bestOf(bests, address("/v1/records:best", best)),
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
                {
                  title: "Median",
                  num: true,
                  sort: "median_ms",
                  cell: (record) => (number(record.medianMs) ? ms(record.medianMs) : ""),
                },
                {title: "Speed", num: true, cell: speed},
                {title: "Runs", num: true, cell: (record) => (record.timesMs ?? []).length},
                {title: "Threads", num: true, cell: (record) => record.threads ?? 1},
                {title: "Mode", cell: (record) => record.mode ?? ""},
                {title: "Target", sort: "target", cell: (record) => record.targetName},
                {title: "Machine", cell: (record) => record.hostname},
                {title: "Checked", cell: outcome},
                {
                  title: "Made",
                  sort: "create_time",
                  first: "create_time desc",
                  cell: (record) => h("time", {title: clock(record.createTimeUs)}, ago(record.createTimeUs)),
                },
                {
                  title: "From",
                  cell: (record) =>
                    record.artifactId
                      ? artifactLink(record.artifactId)
                      : record.jobId
                        ? jobLink(record.jobId, `job ${record.jobId.slice(-8)}`)
                        : "",
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

const UNTIMED = new Set(["WRONG_RESULT", "REFUSED", "BUILD_FAILED", "CRASHED", "TIMED_OUT"]);
const outcome = (record) =>
  UNTIMED.has(record.outcome)
    ? h("span", {class: "worse", title: record.reason ?? ""}, words(record.outcome))
    : (record.validation ?? "");

/** The fastest correct record of each workload, chip and number of threads. */
function bestOf({groups, nextPageToken}, json) {
  return panel(
    "Best of each workload",
    {json},
    table(
      "Best of each workload",
      [
        {
          title: "Workload",
          class: "wide",
          cell: (best) =>
            h(
              "a",
              {href: address("/records", {workload: best.workloadHash})},
              best.workloadSummary || short(best.workloadHash),
            ),
        },
        {title: "Best", num: true, cell: (best) => ms(best.medianMs)},
        {title: "Speed", num: true, cell: speed},
        {
          title: "Over the default",
          num: true,
          cell: (best) =>
            number(best.baselineMs) ? `${(number(best.baselineMs) / number(best.medianMs)).toFixed(2)} ×` : "",
        },
        {title: "Threads", num: true, cell: (best) => best.threads ?? 1},
        {title: "Target", cell: (best) => best.targetName},
        {title: "Machine", cell: (best) => best.hostname ?? ""},
        {title: "Found by", cell: (best) => best.method || best.mode || ""},
      ],
      groups.map(({records: [first]}) => first).sort((one, other) => number(other.medianMs) - number(one.medianMs)),
    ),
    nextPageToken && h("p", {class: "note"}, "The first hundred; choose a target to narrow the list."),
  );
}

async function curve(context, filter) {
  const asked = {filter: `${filter} AND median_ms > 0`, orderBy: "create_time", pageSize: 1000};
  const {records: timed = [], nextPageToken} = await get("/v1/records", asked, context.signal);
  return panel(
    "Best so far",
    {json: address("/v1/records", asked)},
    bestSoFar(
      timed.map((record) => ({
        value: number(record.medianMs),
        label: `${ms(record.medianMs)}, ${record.mode}, ${clock(record.createTimeUs)}`,
      })),
    ),
    nextPageToken && h("p", {class: "note"}, "The first thousand trials; tessera curve draws all of them."),
  );
}
