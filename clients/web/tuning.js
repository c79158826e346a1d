// A running search for schedules, and its results.

import {facts, h, panel, show, table} from "/web/dom.js";
import {clock, ms, number, percent, short} from "/web/format.js";
import {speedCurves} from "/web/charts.js";
import {artifactLink, bar, tag} from "/web/parts.js";

const speed = (before, after) =>
  number(before) && number(after) ? `${(number(before) / number(after)).toFixed(3)} ×` : "";
const ratio = (before, after) => (number(before) && number(after) ? number(before) / number(after) : 1);

/** A step curve stores only the points where it changes, and its last point. */
function grow(points, x, y) {
  if (points.at(-1)?.y === y && points.at(-2)?.y === y) points.at(-1).x = x;
  else points.push({x, y});
}

/** Draws itself into `box` from the job's events, at most a few times per second. */
export class Search {
  #box;
  #job;
  #latest = new Map(); // the last event of each workload
  #lines = new Map(); // the curve of each workload
  #model = [];
  #last;
  #due = false;
  #ended = false;

  constructor(box, job) {
    this.#box = box;
    this.#job = job;
  }

  /** Adds one of the job's TuneProgress events. */
  add(event) {
    const at = number(event.done),
      line = this.#lines.get(event.workloadHash) ?? [];
    grow(line, at, ratio(event.defaultMs, event.bestMs));
    grow(this.#model, at, ratio(event.modelMs, event.modelBestMs));
    this.#lines.set(event.workloadHash, line);
    this.#latest.set(event.workloadHash, event);
    this.#last = event;
    this.#drawSoon();
  }

  /** From now on the job's result shows each workload. */
  end() {
    this.#ended = true;
    if (this.#last) this.#drawSoon();
  }

  #drawSoon() {
    if (this.#due) return;
    this.#due = true;
    setTimeout(() => {
      this.#due = false;
      this.#draw();
    }, 200);
  }

  #draw() {
    const last = this.#last;
    const lines = [...this.#lines].map(([hash, points]) => ({
      name: this.#latest.get(hash).summary || short(hash),
      points,
    }));
    show(
      this.#box,
      panel(
        "Search",
        {
          json: `/v1/jobs/${encodeURIComponent(this.#job)}:watch`,
          tools: h("a", {href: `/records?job=${encodeURIComponent(this.#job)}`}, "its records"),
        },
        !this.#ended &&
          facts([
            ["Trials", number(last.total) ? `${last.done ?? 0} of ${last.total} at most` : (last.done ?? 0)],
            ["The model by default", ms(last.modelMs)],
            ["With the best trees so far, by their sum", ms(last.modelBestMs)],
            ["Faster", speed(last.modelMs, last.modelBestMs)],
            ["Expected end of the search", clock(last.expectedEndUs)],
          ]),
        speedCurves(lines, {name: "the model", points: this.#model}),
        !this.#ended &&
          table(
            "Workloads being tuned",
            [
              {
                title: "Workload",
                class: "wide",
                cell: ({workloadHash, summary}) =>
                  h("a", {href: `/records?workload=${workloadHash}`}, summary || short(workloadHash)),
              },
              {title: "Trials", num: true, cell: ({trials}) => trials ?? 0},
              {title: "Default", num: true, cell: ({defaultMs}) => (defaultMs ? ms(defaultMs) : "")},
              {title: "Best", num: true, cell: ({bestMs}) => (bestMs ? ms(bestMs) : "")},
              {title: "Faster", num: true, cell: ({defaultMs, bestMs}) => speed(defaultMs, bestMs)},
              {title: "GFLOP/s", num: true, cell: ({gflops}) => (number(gflops) ? number(gflops).toPrecision(3) : "")},
              {
                title: "Of the peak",
                num: true,
                cell: ({shareOfPeak}) => (number(shareOfPeak) ? percent(number(shareOfPeak)) : ""),
              },
              {title: "Last trial", class: "wide", cell: ({failure}) => failure || "counts"},
            ],
            [...this.#latest.values()].sort((one, other) => number(other.defaultMs) - number(one.defaultMs)),
          ),
      ),
    );
  }
}

const UNHAPPY = [
  ["refused", "refused"],
  ["wrong", "wrong"],
  ["crashed", "crashed"],
  ["timedOut", "too slow"],
  ["unbuilt", "not built"],
];

/** The results of a tune job: `result` is its TuneResult. */
export function tuned(box, now) {
  const result = now.tuneResult,
    json = `/v1/jobs/${encodeURIComponent(now.id)}`;
  const compared = number(result.defaultMs) && number(result.bestMs);
  show(
    box,
    panel(
      "What was found",
      {
        json,
        tools:
          result.artifactId &&
          result.artifactId !== result.defaultArtifactId &&
          h("a", {href: `/compare?a=${result.defaultArtifactId}&b=${result.artifactId}`}, "compare with the default"),
      },
      facts([
        ["Artifact", artifactLink(result.artifactId)],
        ["The default's", artifactLink(result.defaultArtifactId)],
        ["Trials", result.trials ?? 0],
        ["A run by default", compared ? ms(result.defaultMs) : ""],
        ["A run of the artifact", compared ? ms(result.bestMs) : ""],
        ["Faster", compared ? speed(result.defaultMs, result.bestMs) : ""],
        ["Noise of the runs", compared ? percent(number(result.noise)) : ""],
        ["Machine", [result.host?.hostname, result.host?.cpuModel].filter(Boolean).join(", ")],
        ["Note", result.note],
        ["Fetch it", result.artifactId && h("code", {}, `tessera fetch ${short(result.artifactId)} -o model.tsra`)],
      ]),
    ),
    panel(
      "Workloads",
      {json},
      table(
        "Workloads of the model",
        [
          {
            title: "Workload",
            class: "wide",
            cell: ({hash, summary}) => h("a", {href: `/records?workload=${hash}`}, summary || short(hash)),
          },
          {title: "Share", num: true, cell: ({share}) => percent(number(share))},
          {title: "", cell: ({share}) => bar(number(share))},
          {title: "Default", num: true, cell: ({defaultMs}) => (number(defaultMs) ? ms(defaultMs) : "")},
          {title: "Best", num: true, cell: ({bestMs}) => (number(bestMs) ? ms(bestMs) : "")},
          {title: "Faster", num: true, cell: ({defaultMs, bestMs}) => speed(defaultMs, bestMs)},
          {title: "Kept", cell: ({improved}) => (improved ? tag("its tree") : "")},
          {title: "Trials", num: true, cell: ({trials}) => trials ?? 0},
          {
            title: "Trials that gave no time",
            class: "wide",
            cell: (workload) =>
              workload.untuned ||
              UNHAPPY.filter(([field]) => workload[field])
                .map(([field, text]) => `${workload[field]} ${text}`)
                .join(", "),
          },
        ],
        result.workloads ?? [],
      ),
    ),
  );
}
