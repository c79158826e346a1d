// Comparison of two artifacts: which kernels differ, and which are faster or slower beyond the noise.

import {get} from "/web/api.js";
import {empty, h, panel, show, table} from "/web/dom.js";
import {ago, bytes, median, ms, number, percent, scaled, short, spread} from "/web/format.js";
import {kernelsOf, latencyOf, latencyText, profilesOf} from "/web/kernels.js";
import {artifactLink, jobLink, tag} from "/web/parts.js";

export async function compare(context) {
  const {query} = context;
  const list = (await get("/v1/artifacts", {pageSize: 200}, context.signal)).artifacts ?? [];
  const choice = (name, title) =>
    h(
      "label",
      {class: "grow"},
      title,
      h(
        "select",
        {
          name,
          id: `choose-${name}`,
          onchange: (event) => context.set({[name]: event.target.value, [`run-${name}`]: ""}),
        },
        h("option", {value: ""}, "choose"),
        [...new Set([...list.map(({id}) => id), query.get(name)].filter(Boolean))].map((id) => {
          const one = list.find((other) => other.id === id);
          return h(
            "option",
            {value: id, selected: query.get(name) === id},
            one
              ? `${one.manifest?.name ?? ""} · ${one.manifest?.targetName ?? ""} · ${short(id, 8)} · ${ago(one.createTimeUs)}`
              : short(id),
          );
        }),
      ),
    );
  const box = h("div", {class: "view"}),
    runs = h("div", {class: "filters"});
  show(
    context.view,
    h("h1", {}, "Compare"),
    h("form", {class: "filters", "aria-label": "Artifacts"}, choice("a", "Before"), choice("b", "After")),
    runs,
    box,
  );
  const [a, b] = [query.get("a"), query.get("b")];
  if (!a || !b)
    return show(
      box,
      panel(
        "Two artifacts",
        {},
        empty(
          list.length
            ? "Choose two artifacts, or one twice to compare its runs. Times come from profiles; to time both alternately on one machine:"
            : "There are no artifacts yet. To compare two artifacts on one machine:",
          "tessera compare before.tsra after.tsra",
        ),
      ),
    );
  show(box, h("p", {class: "wait"}, "Reading both."));
  const profiles = await profilesOf([a, b], context.signal);
  // The selected run of an artifact: parameters "run-a" and "run-b" of the address; the newest by default.
  const runOf = (name, id) =>
    profiles.get(id).find((job) => job.id === query.get(`run-${name}`)) ?? profiles.get(id)[0];
  const chosen = [
    runOf("a", a),
    a === b && !query.get("run-a") ? (profiles.get(b)[1] ?? runOf("b", b)) : runOf("b", b),
  ];
  const runChoice = (name, title, id, now) =>
    profiles.get(id).length > 1 &&
    h(
      "label",
      {class: "grow"},
      title,
      h(
        "select",
        {id: `choose-run-${name}`, onchange: (event) => context.set({[`run-${name}`]: event.target.value})},
        profiles
          .get(id)
          .map((job) =>
            h(
              "option",
              {value: job.id, selected: job === now},
              `${latencyText(latencyOf(job.profileResult ?? {}))} · ${job.profileResult?.host?.hostname ?? ""} · ${ago(job.endTimeUs)} · ${job.id.slice(-8)}`,
            ),
          ),
      ),
    );
  show(runs, runChoice("a", "Run before", a, chosen[0]), runChoice("b", "Run after", b, chosen[1]));
  const [one, other] = await Promise.all(
    [a, b].map(async (id, i) => {
      const [{artifact}, {plan}] = await Promise.all([
        get(`/v1/artifacts/${encodeURIComponent(id)}`, {}, context.signal),
        get(`/v1/artifacts/${encodeURIComponent(id)}/plan`, {}, context.signal),
      ]);
      const job = chosen[i];
      return {
        artifact,
        plan,
        job,
        kernels: job ? kernelsOf(job.profileResult ?? {}, plan) : [],
        times: job ? latencyOf(job.profileResult ?? {}) : [],
      };
    }),
  );
  show(box, summary(one, other), kernels(one, other));
}

/** Whether a kernel is faster or slower beyond the noise: three times the scaled MAD of both runs together. */
function verdict(before, after, noise) {
  if (!before || !after) return h("span", {class: "note"}, "not timed");
  const change = after / before - 1;
  const sure = Math.abs(after - before) > noise;
  return h(
    "span",
    {class: !sure ? "note" : change < 0 ? "better" : "worse"},
    !sure
      ? `${percent(Math.abs(change))}, within the noise`
      : `${percent(Math.abs(change))} ${change < 0 ? "faster" : "slower"}`,
  );
}
const noiseOf = (...deviations) =>
  3 * 1.4826 * Math.hypot(...deviations.map((deviation) => (Number.isFinite(deviation) ? deviation : 0)));

function summary(one, other) {
  const value = (read, text = (x) => x) =>
    [read(one), read(other)].map((x) => (x === undefined || x === "" || Number.isNaN(x) ? "–" : text(x)));
  const latency = [median(one.times), median(other.times)];
  const rows = [
    [
      "Artifact",
      artifactLink(one.artifact.id),
      artifactLink(other.artifact.id),
      one.artifact.id === other.artifact.id ? "the same" : "",
    ],
    ["Name", ...value((x) => x.artifact.manifest?.name ?? "")],
    ["Target", ...value((x) => x.artifact.manifest?.targetName ?? "")],
    ["Compiler", ...value((x) => x.artifact.manifest?.compilerVersion ?? "")],
    [
      "Model",
      ...value((x) => short(x.artifact.manifest?.modelSha256)),
      one.artifact.manifest?.modelSha256 === other.artifact.manifest?.modelSha256 ? "the same" : "another",
    ],
    [
      "Latency",
      ...value((x) => median(x.times), ms),
      verdict(...latency, noiseOf(spread(one.times), spread(other.times))),
    ],
    [
      "Run",
      ...[one, other].map(({job}) => (job ? jobLink(job.id, ago(job.endTimeUs)) : "not timed")),
      one.job && one.job === other.job ? "the same" : "",
    ],
    [
      "Machine",
      ...value((x) => x.job?.profileResult?.host?.hostname),
      one.job && other.job && one.job.profileResult?.host?.hostname !== other.job.profileResult?.host?.hostname
        ? "times from two machines"
        : "",
    ],
    [
      "Work",
      ...value(
        (x) => number(x.artifact.manifest?.flops),
        (x) => scaled(x, "FLOP"),
      ),
    ],
    ["Memory of a run", ...value((x) => number(x.artifact.manifest?.arenaBytes), bytes)],
    ["File", ...value((x) => number(x.artifact.blob?.sizeBytes), bytes)],
    ["Kernels", ...value((x) => x.artifact.manifest?.kernels)],
    ["Steps", ...value((x) => x.artifact.manifest?.steps)],
  ];
  return panel(
    "Side by side",
    {json: `/v1/artifacts/${one.artifact.id}/plan`},
    table(
      "Side by side",
      [
        {title: "", cell: ([what]) => what},
        {title: "Before", cell: (row) => row[1]},
        {title: "After", cell: (row) => row[2]},
        {title: "Change", cell: (row) => row[3] ?? ""},
      ],
      rows,
    ),
  );
}

const stepName = (plan, i) =>
  plan?.steps?.[i]?.name || plan?.workloads?.[plan?.steps?.[i]?.workload ?? 0]?.summary || `step ${i}`;
const hashOf = (plan, i) => plan.workloads?.[plan.steps?.[i]?.workload ?? 0]?.hash;
const scheduleOf = (plan, i) => JSON.stringify(plan.workloads?.[plan.steps?.[i]?.workload ?? 0]?.schedule ?? {});

function kernels(one, other) {
  const timeOf = ({kernels: all}, i) => all.find(({step}) => step === i);
  // Pairs steps of equal names; unpaired steps stay alone.
  const names = new Map();
  (other.plan.steps ?? []).forEach((_, i) => {
    const name = stepName(other.plan, i);
    names.set(name, [...(names.get(name) ?? []), i]);
  });
  const rows = (one.plan.steps ?? []).map((_, i) => ({before: i, after: names.get(stepName(one.plan, i))?.shift()}));
  for (const rest of names.values()) for (const i of rest) rows.push({after: i});
  const seen = rows
    .map(({before, after}) => {
      const was = before === undefined ? undefined : timeOf(one, before),
        is = after === undefined ? undefined : timeOf(other, after);
      const what =
        before === undefined
          ? "new"
          : after === undefined
            ? "gone"
            : hashOf(one.plan, before) !== hashOf(other.plan, after)
              ? "another kernel"
              : scheduleOf(one.plan, before) !== scheduleOf(other.plan, after)
                ? "another schedule"
                : "the same";
      return {name: before === undefined ? stepName(other.plan, after) : stepName(one.plan, before), what, was, is};
    })
    .sort((x, y) => Math.abs((y.is?.ms ?? 0) - (y.was?.ms ?? 0)) - Math.abs((x.is?.ms ?? 0) - (x.was?.ms ?? 0)));
  const count = (what) => seen.filter((row) => row.what === what).length;
  return panel(
    "Steps, largest change first",
    {
      json: `/v1/artifacts/${other.artifact.id}/plan`,
      tools: h(
        "span",
        {},
        ["the same", "another schedule", "another kernel", "new", "gone"]
          .filter(count)
          .map((what) => `${count(what)} ${what}`)
          .join(", "),
      ),
    },
    table(
      "Steps",
      [
        {title: "Step", class: "step", cell: ({name}) => h("div", {class: "step"}, name)},
        {title: "Code", cell: ({what}) => tag(what)},
        {title: "Before", num: true, cell: ({was}) => (was ? ms(was.ms) : "–")},
        {title: "After", num: true, cell: ({is}) => (is ? ms(is.ms) : "–")},
        {title: "Change", cell: ({was, is}) => verdict(was?.ms, is?.ms, noiseOf(was?.mad, is?.mad))},
      ],
      seen,
    ),
    h(
      "p",
      {class: "note"},
      "The noise is three times the spread (MAD) of both. Smaller changes may be chance; tessera compare alternates both and is more precise.",
    ),
  );
}
