// An explanation of a model: the graph before and after, decisions with their reasons, and memory.

import {facts, h, panel, show, table} from "/web/dom.js";
import {bytes, number, scaled, short} from "/web/format.js";
import {graphView} from "/web/graph.js";
import {tag} from "/web/parts.js";
import {memories} from "/web/targets.js";

/** explanation: tessera.v1.Explanation as JSON; `source`: its address. */
export function explanationPanels(context, explanation, source) {
  const plan = explanation.plan ?? {},
    report = plan.report ?? {};
  const workloads = plan.workloads ?? [];
  const counts = [
    ["Nodes before", report.nodesBefore],
    ["Steps after", (plan.steps ?? []).length],
    ["Distinct kernels", workloads.length],
    [
      "Work",
      scaled(
        (plan.steps ?? []).reduce((sum, step) => sum + number(workloads[step.workload ?? 0]?.flops), 0),
        "FLOP",
      ),
    ],
    ["Arena", bytes(plan.arenaBytes)],
    ["Lower bound of any arena", number(report.peakLiveBytes) ? bytes(report.peakLiveBytes) : ""],
    ["Weights", bytes(plan.weightsBytes)],
    [
      "Layout changes",
      report.layoutTransformsBefore
        ? `${report.layoutTransforms ?? 0}, of ${report.layoutTransformsBefore} without planning`
        : report.layoutTransforms,
    ],
  ];
  return [
    panel("Plan", {json: source}, facts(counts)),
    graphs(context, explanation, source),
    (report.rewrites ?? []).length > 0 &&
      panel("Rewrites", {json: source}, facts(report.rewrites.map(({name, count}) => [name, `${count ?? 0} times`]))),
    (report.decisions ?? []).length > 0 &&
      panel(
        "Decisions",
        {json: source},
        table(
          "Decisions",
          [
            {title: "Kind", cell: ({kind}) => kind},
            {title: "Where", class: "wide", cell: ({place}) => place},
            {title: "", cell: ({taken}) => tag(taken ? "taken" : "declined")},
            {title: "Why", class: "wide", cell: ({reason}) => reason},
          ],
          report.decisions,
        ),
      ),
    workloads.length > 0 &&
      panel(
        "Kernels",
        {json: source},
        table(
          "Kernels",
          [
            {title: "Kernel", class: "wide", cell: ({summary, symbol}) => summary || symbol},
            {
              title: "Steps",
              num: true,
              cell: (workload) =>
                (plan.steps ?? []).filter((step) => workloads[step.workload ?? 0] === workload).length,
            },
            {title: "Algorithm", cell: ({algorithm}) => algorithm ?? ""},
            {title: "Work", num: true, cell: ({flops}) => scaled(flops, "FLOP")},
            {title: "Traffic", num: true, cell: (workload) => bytes(workload.bytes)},
            {title: "Workload", cell: ({hash}) => h("a", {href: `/records?workload=${hash}`}, short(hash, 8))},
          ],
          workloads,
        ),
      ),
    plan.target && memories(plan.target, `The chip it is for: ${plan.target.name}`, source),
  ];
}

function graphs(context, explanation, source) {
  const drawn = [
    ["before", "Before", explanation.before],
    ["after", "After", explanation.after],
  ].filter(([, , graph]) => graph);
  const workloads = explanation.plan?.workloads ?? [];
  const decisions = explanation.plan?.report?.decisions ?? [];
  const decided = (node) =>
    decisions
      .filter(({place}) => place && node.name && (node.name === place || node.name.split(/[ +,]+/).includes(place)))
      .map(({kind, taken, reason}) => [`${kind}, ${taken ? "taken" : "declined"}`, reason]);
  const picture = ([name, title, graph]) =>
    h(
      "div",
      {},
      drawn.length > 1 && h("h3", {}, `${title}: ${(graph.nodes ?? []).length} nodes`),
      graphView(`The graph ${title.toLowerCase()}`, graph, (node) =>
        name === "before"
          ? decided(node)
          : [
              ["Kernel", workloads[node.kernel ?? 0]?.summary],
              ["Algorithm", workloads[node.kernel ?? 0]?.algorithm],
              ...decided(node),
            ],
      ),
    );
  const choices = drawn.length > 1 ? [["both", "Side by side"], ...drawn] : [];
  const box = h("div", {});
  const buttons = choices.map(([name, title]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        id: `graph-${name}`,
        onclick: () => {
          choose(name);
          history.replaceState(null, "", withGraph(name));
        },
      },
      title,
    ),
  );
  function choose(name) {
    buttons.forEach((button, i) => {
      const on = choices[i][0] === name;
      button.setAttribute("aria-pressed", String(on));
      button.classList.toggle("main", on);
    });
    const one = drawn.find(([key]) => key === name);
    show(box, one ? picture(one) : h("div", {class: drawn.length > 1 && "beside"}, drawn.map(picture)));
  }
  const wanted = context.query.get("graph");
  choose(choices.some(([name]) => name === wanted) ? wanted : "both");
  return panel(
    "Graph",
    {json: source, tools: buttons},
    box,
    drawn.length === 1 &&
      h(
        "p",
        {class: "note"},
        "“Explain the model” shows the graph before the compiler's rewrites, too.",
      ),
  );
}

function withGraph(name) {
  const query = new URLSearchParams(location.search);
  query.set("graph", name);
  return `${location.pathname}?${query}`;
}
