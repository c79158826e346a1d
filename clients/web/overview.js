// The overview: current activity, recent jobs, and where compilations spend their time.

import {address, get} from "/web/api.js";
import {empty, h, panel, show, table} from "/web/dom.js";
import {ago, median, ms, number, percent} from "/web/format.js";
import {aboutOf, badge, bars, jobLink, kindOf, progressOf, targetOf, specOf} from "/web/parts.js";

const LIVING = {filter: "state = QUEUED OR state = RUNNING", pageSize: 200, orderBy: "create_time"};
const LATEST = {filter: "state = SUCCEEDED OR state = FAILED OR state = CANCELLED", pageSize: 200};
const WORKERS = {pageSize: 1000};

const figure = (what, value, more, href) =>
  h(
    href ? "a" : "div",
    {class: "figure", href},
    h("span", {class: "what"}, what),
    h("span", {class: "value"}, value),
    h("span", {class: "more"}, more),
  );

export async function overview(context) {
  await context.every(2000, async () => {
    const [living, latest, workers] = await Promise.all([
      get("/v1/jobs", LIVING, context.signal),
      get("/v1/jobs", LATEST, context.signal),
      get("/v1/workers", WORKERS, context.signal),
    ]);
    render(context.view, living.jobs ?? [], latest.jobs ?? [], workers.workers ?? [], Boolean(living.nextPageToken));
  });
}

function render(view, living, latest, workers, more) {
  const running = living.filter(({state}) => state === "RUNNING").length;
  const queued = living.length - running;
  const compiled = latest.filter((job) => job.compile && job.state === "SUCCEEDED");
  const cached = compiled.filter((job) => job.cached).length;
  const built = compiled.filter((job) => !job.cached).map((job) => job.compileResult ?? {});
  const reused = built.reduce((sum, result) => sum + number(result.workloadsReused), 0);
  const workloads = built.reduce((sum, result) => sum + number(result.workloads), 0);
  const failed = latest.filter(({state}) => state === "FAILED").length;
  const able = workers.filter(({state}) => state === "IDLE" || state === "BUSY");
  const count = (n) => (more ? `${n}+` : String(n));
  show(
    view,
    h("h1", {}, "Overview"),
    h(
      "div",
      {class: "figures"},
      figure("Running", count(running), queued ? `${count(queued)} more wait` : "nothing waits", "/jobs?state=RUNNING"),
      figure(
        "Workers",
        able.length,
        able.length
          ? `${workers.filter(({state}) => state === "BUSY").length} busy, ${workers.length - able.length} unavailable`
          : "no task runs without one",
        "/workers",
      ),
      figure(
        "Cache hits",
        compiled.length ? percent(cached / compiled.length) : "–",
        compiled.length ? `${cached} of the last ${compiled.length} compilations` : "no compilation yet",
        "/jobs?kind=COMPILE",
      ),
      figure(
        "Kernels reused",
        workloads ? percent(reused / workloads) : "–",
        workloads ? `${reused} of ${workloads}, in jobs that built something` : "nothing was built yet",
      ),
      figure(
        "Failed",
        failed,
        latest.length ? `of the last ${latest.length} that ended` : "nothing has ended yet",
        "/jobs?state=FAILED",
      ),
    ),
    panel(
      "Now",
      {json: address("/v1/jobs", LIVING)},
      living.length
        ? table(
            "Jobs that wait or run",
            [
              {title: "Job", cell: (job) => jobLink(job.id, aboutOf(job) || job.id)},
              {title: "Kind", cell: kindOf},
              {title: "State", cell: (job) => badge(job.state)},
              {title: "Progress", cell: progressOf},
              {title: "Since", cell: (job) => ago(job.startTimeUs ?? job.createTimeUs)},
            ],
            living.slice(0, 12),
          )
        : empty("No job waits or runs. To compile a model:", "tessera compile model.onnx --target host"),
    ),
    h("div", {class: "two"}, phases(compiled), ended(latest)),
  );
}

function phases(compiled) {
  const times = new Map();
  const cold = compiled.filter((job) => !job.cached);
  for (const job of cold) {
    for (const {phase, wallMs} of job.phases ?? []) times.set(phase, [...(times.get(phase) ?? []), number(wallMs)]);
  }
  const items = [...times].map(([name, all]) => ({name, value: median(all), text: ms(median(all))}));
  return panel(
    "Where compilations spend their time",
    {json: address("/v1/jobs", {...LATEST, filter: "kind = COMPILE"})},
    items.length
      ? [bars(items), h("p", {class: "note"}, `Medians of ${cold.length} compilations that were not answered from the cache.`)]
      : empty("Phases appear with the first compilation that is not answered from the cache."),
  );
}

function ended(latest) {
  return panel(
    "Ended last",
    {json: address("/v1/jobs", LATEST)},
    latest.length
      ? table(
          "Jobs that ended last",
          [
            {title: "Job", cell: (job) => jobLink(job.id, aboutOf(job) || job.id)},
            {title: "State", cell: (job) => badge(job.state)},
            {title: "Kind", cell: kindOf},
            {title: "Target", cell: (job) => targetOf(specOf(job))},
            {title: "Took", num: true, cell: (job) => ms((number(job.endTimeUs) - number(job.createTimeUs)) / 1000)},
          ],
          latest.slice(0, 8),
        )
      : empty("Nothing has ended yet."),
  );
}
