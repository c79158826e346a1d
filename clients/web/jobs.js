// The list of jobs. Filters, sorting and page are in the address.

import {address, get, quoted} from "/web/api.js";
import {empty, h, panel, show, table} from "/web/dom.js";
import {ago, clock, ms, number} from "/web/format.js";
import {aboutOf, badge, filters, jobLink, kindOf, pager, progressOf, specOf, tag, targetOf} from "/web/parts.js";

const STATES = [
  ["", "any"],
  ["QUEUED", "queued"],
  ["RUNNING", "running"],
  ["SUCCEEDED", "succeeded"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
];
const KINDS = [
  ["", "any"],
  ["COMPILE", "compile"],
  ["EXECUTE", "execute"],
  ["PROFILE", "profile"],
  ["ANALYZE", "analyze"],
  ["TUNE", "tune"],
];
const FIELDS = [
  {name: "state", title: "State", options: STATES},
  {name: "kind", title: "Kind", options: KINDS},
  {name: "name", title: "Name", hint: "resnet*"},
  {name: "target", title: "Target", hint: "cascadelake"},
  {name: "filter", title: "Filter", hint: 'cached = true AND create_time > "2026-01-31T00:00:00Z"', wide: true},
];

function filterOf(query) {
  const parts = ["state", "kind"].filter((name) => query.get(name)).map((name) => `${name} = ${query.get(name)}`);
  for (const name of ["name", "target"]) {
    if (query.get(name)) parts.push(`${name} = ${quoted(query.get(name))}`);
  }
  if (query.get("filter")) parts.push(`(${query.get("filter")})`);
  return parts.join(" AND ");
}

const took = (job) => (number(job.endTimeUs) ? ms((number(job.endTimeUs) - number(job.createTimeUs)) / 1000) : "");

export async function jobs(context) {
  const order = context.query.get("order") ?? "create_time desc";
  const asked = {
    filter: filterOf(context.query),
    orderBy: order === "create_time desc" ? "" : order,
    pageSize: 50,
    pageToken: context.query.get("page"),
  };
  const list = h("div", {class: "view"});
  show(context.view, h("h1", {}, "Jobs"), filters(context, FIELDS), list);
  const look = async () => {
    const answer = await get("/v1/jobs", asked, context.signal);
    const found = answer.jobs ?? [];
    show(
      list,
      panel(
        "Jobs",
        {json: address("/v1/jobs", asked)},
        found.length
          ? [
              table(
                "Jobs",
                [
                  {title: "Job", sort: "name", cell: (job) => jobLink(job.id, aboutOf(job) || job.id)},
                  {
                    title: "State",
                    sort: "state",
                    cell: (job) => [badge(job.state), job.cached && " ", job.cached && tag("cached")],
                  },
                  {title: "Kind", sort: "kind", cell: kindOf},
                  {title: "Target", sort: "target", cell: (job) => targetOf(specOf(job))},
                  {title: "Progress", cell: (job) => (job.endTimeUs ? "" : progressOf(job))},
                  {title: "Client", cell: (job) => job.client ?? ""},
                  {
                    title: "Made",
                    sort: "create_time",
                    first: "create_time desc",
                    cell: (job) => h("time", {title: clock(job.createTimeUs)}, ago(job.createTimeUs)),
                  },
                  {title: "Took", num: true, cell: took},
                ],
                found,
                {order, sortBy: (next) => context.set({order: next, page: ""})},
              ),
            ]
          : empty(
              asked.filter
                ? "No job matches the filter. To compile a model:"
                : "There are no jobs yet. To compile a model:",
              "tessera compile model.onnx --target host",
            ),
      ),
      pager(context, answer.nextPageToken, found.length, "jobs"),
    );
  };
  // Later pages do not refresh while the user reads.
  return asked.pageToken ? look() : context.every(3000, look);
}
