// The list of artifacts, and one artifact with its graph and its times.

import {address, get, post, quoted} from "/web/api.js";
import {add, empty, facts, h, panel, show, table, tree} from "/web/dom.js";
import {ago, bytes, clock, number, scaled, shape, short} from "/web/format.js";
import {explanationPanels} from "/web/explanation.js";
import {kernelsOf, kernelTable, latencyOf, latencyText, newestProfile, roofOf} from "/web/kernels.js";
import {explain} from "/web/job.js";
import {artifactLink, filters, jobLink, pager, tag} from "/web/parts.js";

const FIELDS = [
  {name: "name", title: "Name", hint: "resnet*"},
  {name: "target", title: "Target", hint: "cascadelake"},
  {name: "filter", title: "Filter", hint: 'model = "5f…" AND create_time > "2026-01-31T00:00:00Z"', wide: true},
];

export async function artifacts(context) {
  const {query} = context;
  const parts = ["name", "target"]
    .filter((name) => query.get(name))
    .map((name) => `${name} = ${quoted(query.get(name))}`);
  if (query.get("filter")) parts.push(`(${query.get("filter")})`);
  const order = query.get("order") ?? "create_time desc";
  const asked = {
    filter: parts.join(" AND "),
    orderBy: order === "create_time desc" ? "" : order,
    pageSize: 50,
    pageToken: query.get("page"),
  };
  const answer = await get("/v1/artifacts", asked, context.signal);
  const found = answer.artifacts ?? [];
  const two = h(
    "button",
    {
      type: "button",
      id: "compare-two",
      disabled: true,
      onclick: () => {
        const [a, b] = [...context.view.querySelectorAll("input[name=pick]:checked")].map(({value}) => value);
        context.go(`/compare?a=${a}&b=${b}`);
      },
    },
    "Compare two",
  );
  const picked = () => {
    two.disabled = context.view.querySelectorAll("input[name=pick]:checked").length !== 2;
  };
  show(
    context.view,
    h("h1", {}, "Artifacts"),
    filters(context, FIELDS),
    panel(
      "Artifacts",
      {json: address("/v1/artifacts", asked), tools: two},
      found.length
        ? table(
            "Artifacts",
            [
              {title: "Name", sort: "name", cell: (one) => artifactLink(one.id, one.manifest?.name || short(one.id))},
              {title: "Target", sort: "target", cell: (one) => one.manifest?.targetName ?? ""},
              {title: "Kernels", num: true, cell: (one) => one.manifest?.kernels ?? 0},
              {title: "Work", num: true, cell: (one) => scaled(one.manifest?.flops, "FLOP")},
              {title: "Size", num: true, cell: (one) => bytes(one.blob?.sizeBytes)},
              {title: "Compiler", cell: (one) => one.manifest?.compilerVersion ?? ""},
              {
                title: "Made",
                sort: "create_time",
                first: "create_time desc",
                cell: (one) => h("time", {title: clock(one.createTimeUs)}, ago(one.createTimeUs)),
              },
              {
                title: "Compare",
                cell: (one) =>
                  h("input", {
                    type: "checkbox",
                    name: "pick",
                    value: one.id,
                    "aria-label": `Compare ${one.manifest?.name ?? ""} ${short(one.id)}`,
                    onchange: picked,
                  }),
              },
            ],
            found,
            {order, sortBy: (next) => context.set({order: next, page: ""})},
          )
        : empty(
            asked.filter
              ? "No artifact matches the filter."
              : "There are no artifacts yet. To compile one:",
            asked.filter ? null : "tessera compile model.onnx --target host",
          ),
    ),
    pager(context, answer.nextPageToken, found.length, "artifacts"),
  );
}

export async function artifact(context) {
  const path = `/v1/artifacts/${encodeURIComponent(context.id)}`;
  const {artifact: one} = await get(path, {}, context.signal);
  const manifest = one.manifest ?? {};
  document.title = `${manifest.name || short(one.id)} · Tessera`;
  const times = h("div", {class: "view"}),
    plans = h("div", {class: "view"}, h("p", {class: "wait"}, "Loading the plan."));
  const made = one.jobId
    ? get(`/v1/jobs/${encodeURIComponent(one.jobId)}`, {}, context.signal).catch(() => undefined)
    : undefined;
  const button = (text, id, work) => h("button", {type: "button", id, onclick: (event) => work(event.target)}, text);
  show(
    context.view,
    h("p", {class: "crumb"}, h("a", {href: "/artifacts"}, "Artifacts")),
    h(
      "div",
      {class: "title"},
      h("h1", {}, manifest.name || short(one.id)),
      tag(manifest.targetName ?? ""),
      h("span", {class: "grow"}),
      button("Time it", "profile", (pressed) => profile(context, pressed, one.id)),
      button("Explain the model", "explain", async (pressed) => {
        const job = (await made)?.job;
        if (job) await explain(context, pressed, job);
        else context.say("The job that made it has been deleted");
      }),
      h("a", {class: "button", href: `/compare?a=${one.id}`}, "Compare"),
      h("a", {class: "json", href: path}, "JSON"),
    ),
    (manifest.runFaults ?? []).map((message) => h("p", {class: "problem mild"}, `An error of some runs: ${message}`)),
    (manifest.scalarKernels ?? []).length > 0 &&
      h("p", {class: "problem mild"}, `On plain loops, which are slow: ${manifest.scalarKernels.join("; ")}`),
    panel(
      "What it is",
      {json: path},
      facts([
        ["Id", h("span", {class: "mono"}, one.id)],
        ["Size", bytes(one.blob?.sizeBytes)],
        ["Kernels", `${manifest.kernels ?? 0} in ${manifest.steps ?? 0} steps`],
        ["Work of a run", scaled(manifest.flops, "FLOP")],
        ["Memory of a run", bytes(manifest.arenaBytes)],
        ["Weights", bytes(manifest.weightsBytes)],
        ["Prepared weights", number(manifest.preparedBytes) ? bytes(manifest.preparedBytes) : ""],
        ["Inputs", (manifest.inputs ?? []).map((spec) => `${spec.name} ${shape(spec)}`).join("; ")],
        ["Outputs", (manifest.outputs ?? []).map((spec) => `${spec.name} ${shape(spec)}`).join("; ")],
        ["Variants", (manifest.variants ?? []).length || ""],
        ["Needs", [manifest.code?.cpu, ...(manifest.code?.features ?? [])].filter(Boolean).join(", ")],
        ["Compiler", manifest.compilerVersion],
        ["Made", clock(one.createTimeUs)],
        ["By", one.jobId && jobLink(one.jobId)],
        ["Fetch it", h("code", {}, `tessera fetch ${short(one.id)} -o model.tsra`)],
      ]),
    ),
    times,
    plans,
  );
  const [found, explanation] = await Promise.all([
    newestProfile(one.id, context.signal),
    get(`${path}/plan`, {}, context.signal),
  ]);
  show(plans, explanationPanels(context, explanation, `${path}/plan`));
  if (!found)
    return show(
      times,
      panel(
        "Times",
        {},
        empty("No measurements yet. “Time it” runs the artifact on a worker, as does:", `tessera profile ${short(one.id)}`),
      ),
    );
  const kernels = kernelsOf(found.profileResult ?? {}, explanation.plan),
    json = `/v1/jobs/${encodeURIComponent(found.id)}`;
  show(
    times,
    panel(
      "Times",
      {
        json,
        tools: h(
          "span",
          {},
          latencyText(latencyOf(found.profileResult ?? {})),
          ", ",
          jobLink(found.id, ago(found.endTimeUs)),
        ),
      },
      kernelTable(kernels),
    ),
    panel("Roofline", {json}, roofOf(kernels, explanation.plan?.target, found.profile.threads || 1)),
  );
}

async function profile(context, button, id) {
  button.disabled = true;
  await context.guarded(async () => {
    try {
      const made = await post("/v1/jobs", {profile: {artifactId: id}});
      context.go(`/jobs/${made.job.id}`);
    } finally {
      button.disabled = false;
    }
  });
}
