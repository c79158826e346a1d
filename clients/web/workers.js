// The workers: their hosts, states, and sandbox measures.

import {address, get} from "/web/api.js";
import {empty, facts, h, panel, show, table} from "/web/dom.js";
import {ago, bytes, number, words} from "/web/format.js";
import {badge, tag} from "/web/parts.js";

const ASKED = {pageSize: 1000};
const SANDBOX = [
  ["Process", "one for each attempt, in its own process group, ends with its worker", "the same"],
  [
    "System calls",
    "files, threads, memory: no network, exec, fork, ptrace, signals to others, namespaces, administration",
    "memory that is never executable, locks, clocks, reading and writing of what is open; no open, no new thread",
  ],
  ["Files", "reads its inputs and system folders, writes its outputs", "none"],
  ["Limits", "address space, processor time, file size, open files, a deadline", "the same"],
  ["A breach", "kills the attempt: SANDBOX VIOLATION, not repeated", "the same"],
];

export async function workers(context) {
  await context.every(3000, async () => {
    const found = (await get("/v1/workers", ASKED, context.signal)).workers ?? [];
    show(
      context.view,
      h("h1", {}, "Workers"),
      found.length
        ? found.map(card)
        : panel(
            "Workers",
            {},
            empty(
              "No worker is registered, so jobs wait. Start local workers with --workers, or one on another host:",
              "tessera-worker --server HOST:7401 --tls-ca ca.pem --token-file build-1.token --scratch /var/tmp/tessera",
            ),
          ),
      panel(
        "What holds a task in",
        {},
        table(
          "Sandbox",
          [
            {title: "", cell: ([what]) => what},
            {title: "While compiling: trusted code, an untrusted model", class: "wide", cell: ([, compile]) => compile},
            {title: "While running generated code", class: "wide", cell: ([, , run]) => run},
          ],
          SANDBOX,
        ),
        h(
          "p",
          {class: "note sandbox-note"},
          "Every worker has these measures. Namespaces, a separate user, and limits of threads and scratch space depend on the host: each worker lists its active measures.",
        ),
      ),
    );
  });
}

// The sandbox measures of a worker in one line.
function sandbox(measures) {
  const missing = measures.filter((measure) => !measure.inForce).map((measure) => measure.name);
  return missing.length ? `Sandbox without ${missing.join(", ")}` : "Sandbox: every measure in force";
}

function card(worker) {
  const host = worker.host ?? {};
  return panel(
    worker.id,
    {json: address("/v1/workers", {filter: `id = "${worker.id}"`}), tools: badge(worker.state)},
    worker.trouble && h("p", {class: "problem mild"}, worker.trouble),
    facts([
      ["Machine", host.hostname],
      ["Processor", host.cpuModel || host.cpu],
      ["Cores", host.cores],
      ["Memory", number(host.memoryBytes) ? bytes(host.memoryBytes) : ""],
      ["Takes", (worker.kinds ?? []).map(words).join(", ") || "every kind of task"],
      ["Slots", `${(worker.taskIds ?? []).length} of ${worker.slots ?? 1} in use`],
      ["Done", number(worker.tasksDone).toLocaleString("en")],
      ["Failed", `${number(worker.tasksFailed)}, ${number(worker.faults)} by its own fault`],
      ["Last sign of life", ago(worker.lastSeenUs)],
      ["Compiler", worker.compilerVersion],
      ["Credential", worker.owner],
      ["Process", worker.pid],
    ]),
    (worker.sandbox ?? []).length > 0 &&
      h(
        "details",
        {id: `sandbox-${worker.id}`},
        h("summary", {}, sandbox(worker.sandbox)),
        table(
          `Sandbox of ${worker.id}`,
          [
            {title: "Measure", cell: ({name}) => words(name)},
            {
              title: "",
              cell: ({inForce}) =>
                h("span", {class: `badge ${inForce ? "good" : "warn"}`}, inForce ? "in force" : "not"),
            },
            {title: "What", class: "wide", cell: ({detail}) => detail ?? ""},
          ],
          worker.sandbox,
        ),
      ),
    (host.features ?? []).length > 0 &&
      h(
        "details",
        {id: `features-${worker.id}`},
        h("summary", {}, `${host.features.length} instruction sets`),
        h(
          "p",
          {class: "note"},
          host.features.map((feature) => [tag(feature), " "]),
        ),
      ),
  );
}
