// The page of one job. Events appear live; results appear when they are available.

import {get, post, watch} from "/web/api.js";
import {add, facts, h, panel, show, sized, table, tree} from "/web/dom.js";
import {bytes, clock, ms, number, shape, short, words} from "/web/format.js";
import {explanationPanels} from "/web/explanation.js";
import {timelinePanel} from "/web/timeline.js";
import {Search, tuned} from "/web/tuning.js";
import {showVersions} from "/web/versions.js";
import {kernelsOf, kernelTable, latencyOf, latencyText, roofOf} from "/web/kernels.js";
import {
  aboutOf,
  artifactLink,
  badge,
  bars,
  failureBox,
  jobLink,
  kindOf,
  progressOf,
  resultOf,
  specOf,
  tag,
  targetLink,
} from "/web/parts.js";

const MOST_EVENTS = 1000; // limit of listed events; the JSON has all
const ended = ({state}) => ["SUCCEEDED", "FAILED", "CANCELLED"].includes(state);

export async function job(context) {
  const path = `/v1/jobs/${encodeURIComponent(context.id)}`;
  const [title, head, search, versions, made, times] = Array.from({length: 6}, () => h("div", {class: "view"}));
  const list = h("ol", {class: "events", tabindex: "0", "aria-label": "Events"}),
    light = h("span", {class: "live", id: "live"}, "connecting");
  let cursor = 0,
    now = (await get(path, {}, context.signal)).job,
    started = false;
  show(
    context.view,
    title,
    head,
    made,
    versions,
    search,
    times,
    panel("Events", {json: `${path}:watch`, tools: light}, list),
    panel("All of it", {json: path}, h("div", {id: "all"}, tree(now))),
  );
  const found = now.tune && new Search(search, now.id);
  let drawn = "";
  const draw = () => {
    // Buttons are replaced only if they change, so that a click in progress is not lost.
    const about = [now.state, now.cached].join();
    if (about !== drawn) {
      drawn = about;
      top(context, title, now, path);
    }
    render(head, now, path);
    if (ended(now) && !started) {
      started = true;
      found?.end();
      show(document.getElementById("all"), tree(now));
      context.guarded(() => results(context, made, now));
    }
  };
  draw();
  // Views that change with many events are reloaded at most every two seconds, and once at the end.
  let asking = false,
    stale = false;
  const refresh = async () => {
    stale = true;
    if (asking) return;
    asking = true;
    while (stale && !context.signal.aborted) {
      stale = false;
      const begun = performance.now();
      await context.guarded(async () => {
        if (now.tune) await showVersions(context, versions, now.id);
        const source = `${path}/trace`;
        show(times, timelinePanel(context, await get(source, {}, context.signal), source));
      });
      // Slow responses (jobs with very many attempts) are requested less often.
      await new Promise((done) => setTimeout(done, Math.max(2000, 5 * (performance.now() - begun))));
    }
    asking = false;
  };
  refresh();
  let busy = false,
    again = false;
  // Phases and results are part of the job; several events cause one reload.
  const look = async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      do {
        again = false;
        now = (await get(path, {}, context.signal)).job;
        draw();
      } while (again);
    } finally {
      busy = false; // even if the service did not answer: the next event reloads again
    }
  };
  watch(
    context.id,
    cursor,
    (event) => {
      cursor = number(event.sequence);
      list.prepend(line(event));
      if (list.childElementCount > MOST_EVENTS) list.lastChild.remove();
      if (event.tune) found?.add(event.tune);
      if (ended(now)) return;
      if (event.attempt || event.state) refresh();
      if (event.progress) {
        now.progress = event.progress;
        draw();
      }
      if (event.state) {
        context.say(`Job ${words(event.state.state)}`);
      }
      if (event.state || event.attempt) context.guarded(look);
    },
    (state) => {
      // If the reload after the last event failed because the service was away, reload now.
      if (state === "ended" && !ended(now)) context.guarded(look);
      light.dataset.now = state;
      light.textContent = {
        live: "live",
        ended: "all there is",
        lost: "connection lost, trying again",
        connecting: "connecting",
      }[state];
    },
    context.signal,
  ).catch((error) =>
    context.guarded(() => {
      throw error;
    }),
  );
}

function top(context, box, now, path) {
  const spec = specOf(now);
  document.title = `${aboutOf(now) || now.id} · Tessera`;
  show(
    box,
    h("p", {class: "crumb"}, h("a", {href: "/jobs"}, "Jobs"), " / ", words(kindOf(now))),
    h(
      "div",
      {class: "title"},
      h("h1", {}, aboutOf(now) || now.id),
      badge(now.state),
      now.cached && tag("cached"),
      h("span", {class: "grow"}),
      !ended(now) &&
        h(
          "button",
          {type: "button", class: "stop", id: "cancel", onclick: (event) => cancel(context, event.target, path)},
          "Cancel",
        ),
      (spec.compile ?? spec).model &&
        h(
          "button",
          {type: "button", id: "explain", onclick: (event) => explain(context, event.target, now)},
          "Explain the model",
        ),
      h("a", {class: "json", href: path}, "JSON"),
    ),
  );
}

function render(box, now, path) {
  const spec = specOf(now),
    took = (number(now.endTimeUs) || Date.now() * 1000) - number(now.createTimeUs);
  const phases = now.phases ?? [];
  show(
    box,
    failureBox(now.failure),
    now.joinedJobId &&
      h("p", {class: "note"}, "Shares the work of ", jobLink(now.joinedJobId), ", an earlier equal request."),
    panel(
      "What it is",
      {},
      facts([
        ["Id", h("span", {class: "mono"}, now.id)],
        ["Target", targetLink(spec)],
        ["Artifact", spec.artifactId && artifactLink(spec.artifactId)],
        ["Made", clock(now.createTimeUs)],
        ["Client", now.client],
        [
          "Labels",
          Object.keys(now.labels ?? {}).length > 0 &&
            h(
              "span",
              {id: "labels"},
              ...Object.entries(now.labels)
                .sort()
                .map(([key, value]) => tag(`${key}=${value}`)),
            ),
        ],
        ["Waited", now.startTimeUs ? ms((number(now.startTimeUs) - number(now.createTimeUs)) / 1000) : ""],
        [ended(now) ? "Took" : "For", ms(took / 1000)],
        ["Priority", now.priority],
        ["Now", !ended(now) && progressOf(now)],
      ]),
    ),
    phases.length > 0 &&
      panel(
        "Phases",
        {json: path},
        bars(
          phases.map((phase) => ({
            name: phase.phase,
            value: number(phase.wallMs),
            text: `${ms(phase.wallMs)}, processor ${ms(phase.cpuMs)}, ${phase.tasks ?? 0} task${phase.tasks === 1 ? "" : "s"}`,
          })),
        ),
      ),
  );
}

async function cancel(context, button, path) {
  button.disabled = true;
  button.textContent = "Cancelling";
  await context.guarded(async () => {
    try {
      await post(`${path}:cancel`);
    } catch (error) {
      button.disabled = false;
      button.textContent = "Cancel";
      throw error;
    }
  });
}

export async function explain(context, button, of) {
  button.disabled = true;
  await context.guarded(async () => {
    try {
      const made = await post("/v1/jobs", {
        analyze: {compile: of.compile ?? specOf(of).compile ?? specOf(of), question: "EXPLAIN"},
      });
      context.go(`/jobs/${made.job.id}`);
    } finally {
      button.disabled = false;
    }
  });
}

function line({timeUs, state, progress, attempt, queue, tune}) {
  const text = state
    ? [h("strong", {}, words(state.state)), state.failure && h("span", {class: "worse"}, state.failure.message)]
    : progress
      ? `${progress.phase ?? ""} ${progress.total ? `${progress.done ?? 0} of ${progress.total}` : ""} ${progress.detail ?? ""}`
      : attempt
        ? [
            `${attempt.phase ?? "task"}: attempt ${attempt.attempt ?? 1} on ${attempt.worker ?? "?"}, ${ms(attempt.wallMs)}`,
            attempt.failure &&
              h("span", {class: "worse"}, `${words(attempt.failure.reason)}: ${attempt.failure.message}`),
          ]
        : queue
          ? `place ${queue.position ?? 0} in the queue`
          : tune
            ? [
                h(
                  "span",
                  {title: tune.summary},
                  `trial ${tune.trials ?? 0} of workload ${short(tune.workloadHash, 8)}: `,
                ),
                `best ${ms(tune.bestMs)}`,
                tune.failure && h("span", {class: "worse"}, tune.failure),
              ]
            : "an event of another release";
  return h(
    "li",
    {},
    h("time", {title: clock(timeUs)}, new Date(number(timeUs) / 1000).toLocaleTimeString()),
    h("div", {}, text),
  );
}

async function results(context, box, now) {
  const result = resultOf(now);
  if (!result) return;
  if (now.compileResult) return compiled(box, now.compileResult);
  if (now.profileResult) return profiled(context, box, now);
  if (now.analyzeResult) return analyzed(context, box, now);
  if (now.executeResult) return executed(box, now.executeResult);
  if (now.tuneResult) return tuned(box, now);
  show(box, panel("Result", {}, tree(result)));
}

function compiled(box, result) {
  show(
    box,
    panel(
      "Artifact",
      {},
      facts([
        ["Artifact", artifactLink(result.artifactId)],
        ["Size", bytes(result.artifact?.sizeBytes)],
        ["Distinct kernels", result.workloads ?? 0],
        ["Reused from earlier compilations", result.workloadsReused ?? 0],
        ["Fetch it", h("code", {}, `tessera fetch ${short(result.artifactId)} -o model.tsra`)],
      ]),
    ),
  );
}

async function profiled(context, box, now) {
  const profile = now.profileResult,
    times = latencyOf(profile);
  const plan = await get(`/v1/artifacts/${encodeURIComponent(now.profile.artifactId)}/plan`, {}, context.signal)
    .then(({plan: found}) => found)
    .catch(() => undefined);
  const kernels = kernelsOf(profile, plan);
  const json = `/v1/jobs/${encodeURIComponent(now.id)}`;
  show(
    box,
    panel(
      "Latency",
      {json},
      facts([
        ["Median ± spread (MAD)", latencyText(times)],
        ["Runs", times.length],
        ["Threads", now.profile.threads || 1],
        ["Least", ms(Math.min(...times))],
        ["Most", ms(Math.max(...times))],
        ["Machine", profile.host?.hostname],
        ["Processor", profile.host?.cpuModel],
      ]),
    ),
    panel("Kernels", {json}, kernelTable(kernels)),
    panel("Roofline", {json}, roofOf(kernels, plan?.target, now.profile.threads || 1)),
  );
}

async function analyzed(context, box, now) {
  const source = `/v1/jobs/${encodeURIComponent(now.id)}/report`;
  const report = await get(source, {}, context.signal);
  if (report.plan) {
    show(box);
    return add(box, explanationPanels(context, report, source).filter(Boolean));
  }
  const problems = report.problems ?? [];
  show(
    box,
    panel(
      "Check",
      {json: source},
      facts([
        ["Nodes", report.nodes ?? 0],
        ["Problems", problems.length + number(report.problemsLeftOut)],
        ["Not looked at", report.uncheckedNodes ?? 0],
        ["Errors of some runs", (report.runFaults ?? []).join("; ")],
        ["Unbound dimensions", (report.unboundDimensions ?? []).join(", ")],
        ["Assumed", (report.assumed ?? []).map(({name, size}) => `${name} = ${size}`).join(", ")],
        ["Inputs", (report.inputs ?? []).map((input) => `${input.name} ${shape(input)}`).join("; ")],
      ]),
    ),
    panel(
      "Problems",
      {json: source},
      problems.length
        ? table(
            "Problems",
            [
              {title: "Node", class: "wide", cell: ({node, attribute}) => node || attribute || ""},
              {title: "Operator", cell: ({opType}) => opType ?? ""},
              {title: "What", class: "wide", cell: ({message}) => message},
              {title: "Accepted", class: "wide", cell: ({accepted}) => accepted ?? ""},
              {title: "What to do", class: "wide", cell: ({fix}) => fix ?? ""},
            ],
            problems,
          )
        : h("p", {}, "None: this model compiles."),
    ),
    panel(
      "Operators it uses",
      {json: source},
      table(
        "Operators",
        [
          {title: "Operator", cell: ({name}) => name},
          {title: "Times", num: true, cell: ({count}) => count},
          {title: "", cell: ({supported}) => (supported ? badge("supported") : badge("FAILED"))},
        ],
        report.operators ?? [],
      ),
    ),
  );
}

function executed(box, result) {
  show(
    box,
    panel(
      "Outputs",
      {},
      facts([
        ["Latency", ms(result.latencyMs)],
        ...(result.outputs ?? []).map((output) => [
          output.spec?.name,
          `${shape(output.spec ?? {})}, ${output.blob ? bytes(output.blob.sizeBytes) : "inline"}`,
        ]),
      ]),
    ),
  );
}
