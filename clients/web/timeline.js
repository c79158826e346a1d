// A Gantt chart of a job: a lane for each slot of a worker, a bar for each attempt.

import {h, newId, panel, s, show, table} from "/web/dom.js";
import {ms, percent} from "/web/format.js";

const WIDTH = 1000,
  LEFT = 130,
  RIGHT = 12,
  ROW = 24,
  TOP = 8,
  FOOT = 24;
const KINDS = [
  ["search", "search", ["search"]],
  ["build", "build", ["build"]],
  ["measure", "measure", ["measure", "profile", "execute"]],
  ["other", "import, plan, assemble", []],
];
const kindOf = (phase) => KINDS.find(([, , phases]) => phases.includes(phase))?.[0] ?? "other";
const MOST_LISTED = 500;

/** Converts Chrome's trace format to lanes and attempts; times in seconds. */
function read({traceEvents = [], otherData = {}}) {
  const workers = new Map(),
    lanes = [];
  for (const {ph, pid, args} of traceEvents) {
    if (ph !== "M") continue;
    workers.set(pid, {name: args.name, first: lanes.length});
    for (let lane = 0; lane < args.lanes; ++lane) lanes.push(lane ? {} : {name: args.name, busy: args.busy});
  }
  const spans = traceEvents
    .filter(({ph}) => ph === "X")
    .map(({name, pid, tid, ts, dur, args}) => ({
      phase: name,
      worker: workers.get(pid).name,
      lane: workers.get(pid).first + tid - 1,
      from: ts / 1e6,
      to: (ts + dur) / 1e6,
      ...args,
    }));
  return {lanes, spans, end: spans.reduce((most, {to}) => Math.max(most, to), 0), more: otherData.more};
}

/** Steps of 1, 2 or 5 times a power of ten, so that about eight fit. */
const SHORTEST = 1e-6; // seconds

function tick(length) {
  const rough = length / 8,
    power = 10 ** Math.floor(Math.log10(rough));
  return power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
}

function picture({lanes, spans}, from, to) {
  const height = TOP + lanes.length * ROW + FOOT;
  const px = (at) => LEFT + ((at - from) / (to - from)) * (WIDTH - LEFT - RIGHT);
  const step = tick(to - from),
    ticks = [];
  for (let i = Math.ceil(from / step); i * step <= to; ++i) ticks.push(i * step);
  const drawn = new Map(); // for each lane the last bar that is too narrow to be distinguished from the next
  const bars = spans.map((span) => {
    if (span.to < from || span.from > to) return null;
    const x = px(Math.max(span.from, from)),
      width = Math.max(px(Math.min(span.to, to)) - x, 1);
    const kind = span.failure ? "failed" : kindOf(span.phase);
    const last = drawn.get(span.lane);
    if (width === 1 && last && last.kind === kind && x - last.x < 1) return null;
    drawn.set(span.lane, {x, kind});
    return s(
      "rect",
      {
        class: `attempt ${kind}`,
        x: x.toFixed(2),
        y: TOP + span.lane * ROW + 3,
        width: width.toFixed(2),
        height: ROW - 6,
      },
      s(
        "title",
        {},
        `${span.phase} on ${span.worker}, ${ms((span.to - span.from) * 1000)}${span.failure ? `: ${span.failure}` : ""}`,
      ),
    );
  });
  const id = newId("timeline");
  return h(
    "div",
    {class: "drawn", tabindex: "0", role: "group", "aria-label": "Timeline, picture"},
    s(
      "svg",
      {class: "chart timeline", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-labelledby": id},
      s("title", {id}, `Who worked when, from ${from.toFixed(2)} to ${to.toFixed(2)} s`),
      ticks.map((at) => [
        s("line", {class: "grid", x1: px(at), x2: px(at), y1: TOP, y2: height - FOOT}),
        s("text", {x: px(at), y: height - 6, "text-anchor": "middle"}, `${Number(at.toPrecision(6))} s`),
      ]),
      lanes.map(({name, busy}, i) => [
        name && i > 0 && s("line", {class: "axis", x1: 0, x2: WIDTH, y1: TOP + i * ROW, y2: TOP + i * ROW}),
        name &&
          s("text", {class: "name", x: 0, y: TOP + i * ROW + 16}, name.length > 14 ? `${name.slice(0, 13)}…` : name),
        name && s("text", {x: LEFT - 8, y: TOP + i * ROW + 16, "text-anchor": "end"}, percent(busy)),
      ]),
      bars,
    ),
  );
}

/** The visible part is stored in the address in milliseconds, so that a link shows the same part. */
const inAddress = (seconds) => Number(seconds.toFixed(3));

const rangeOf = (query, end) => {
  const [from, to] = ["from", "to"].map((name) => Number(query.get(name) ?? NaN));
  // In a shorter part, labels of adjacent ticks would be equal.
  return to - from >= SHORTEST && from >= 0 && from < end ? [from, to] : [0, end];
};

/** `trace` is /v1/jobs/ID/trace, loaded from `source`. The visible part is stored in the address. */
export function timelinePanel(context, trace, source) {
  const all = read(trace);
  if (all.spans.length === 0) {
    return panel("Who worked when", {json: source}, h("p", {class: "note"}, "No attempt at a task has ended yet."));
  }
  const box = h("div", {});
  let [from, to] = rangeOf(new URLSearchParams(location.search), all.end);
  const draw = () => {
    const listed = all.spans.filter((span) => span.to >= from && span.from <= to);
    show(
      box,
      picture(all, from, to),
      h(
        "p",
        {class: "keys phases"},
        KINDS.map(([kind, text]) => {
          const of = listed.filter((span) => kindOf(span.phase) === kind);
          const time = of.reduce((sum, span) => sum + span.to - span.from, 0);
          return of.length > 0 && h("span", {class: kind}, `${text}: ${of.length} in ${ms(time * 1000)}`);
        }),
        listed.some(({failure}) => failure) &&
          h("span", {class: "failed"}, `failed: ${listed.filter(({failure}) => failure).length}`),
      ),
      list(listed),
    );
  };
  const move = (first, last) => {
    const length = Math.min(Math.max(last - first, SHORTEST), all.end);
    from = inAddress(Math.max(0, Math.min(first, all.end - length)));
    to = inAddress(from + length);
    const query = new URLSearchParams(location.search);
    for (const [name, value] of [
      ["from", from],
      ["to", to],
    ]) {
      if (length < all.end) query.set(name, value);
      else query.delete(name);
    }
    history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
    draw();
  };
  const button = (id, label, text, work) =>
    h("button", {type: "button", class: "quiet", id: `timeline-${id}`, "aria-label": label, onclick: work}, text);
  draw();
  return panel(
    "Who worked when",
    {
      json: source,
      tools: [
        button("earlier", "Earlier", "←", () => move(from - (to - from) / 2, to - (to - from) / 2)),
        button("later", "Later", "→", () => move(from + (to - from) / 2, to + (to - from) / 2)),
        button("in", "Zoom in", "+", () => move(from + (to - from) / 4, to - (to - from) / 4)),
        button("out", "Zoom out", "−", () => move(from - (to - from) / 2, to + (to - from) / 2)),
      ],
    },
    box,
    h(
      "p",
      {class: "note"},
      "The percentage next to a worker's name is its busy time",
      all.more ? "; only the first attempts are shown. " : ". ",
      "ui.perfetto.dev opens the JSON; ",
      h("code", {}, "tessera trace"),
      " writes it.",
    ),
  );
}

function list(spans) {
  const node = h("details", {id: "attempts"}, h("summary", {}, `As a list of ${spans.length} attempts`));
  node.addEventListener("toggle", () => {
    if (node.childElementCount > 1) return;
    node.append(
      table(
        "Attempts",
        [
          {title: "Phase", cell: ({phase}) => phase},
          {title: "Worker", cell: ({worker}) => worker},
          {title: "From", num: true, cell: (span) => ms(span.from * 1000)},
          {title: "Took", num: true, cell: (span) => ms((span.to - span.from) * 1000)},
          {title: "Attempt", num: true, cell: ({attempt}) => attempt},
          {title: "Failure", class: "wide", cell: ({failure}) => failure ?? ""},
        ],
        spans.slice(0, MOST_LISTED),
      ),
    );
    if (spans.length > MOST_LISTED) {
      node.append(h("p", {class: "note"}, `The first ${MOST_LISTED}; zoom in for others.`));
    }
  });
  return node;
}
