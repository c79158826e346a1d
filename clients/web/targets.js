// Chips: peak figures, and a drawing of their memories around the cores.

import {address, get} from "/web/api.js";
import {empty, facts, h, panel, show, table, tree} from "/web/dom.js";
import {bytes, number, scaled, short, words} from "/web/format.js";
import {filters, pager, tag} from "/web/parts.js";

const FAMILIES = ["", "X86_64", "AARCH64", "NVPTX", "SPATIAL", "HLS", "OPENCL"].map((name) => [name, name ? words(name) : "any"]);

/** f32 operations per second of all units. */
export const peakOf = (target) =>
  (target.units ?? []).reduce(
    (sum, unit) =>
      sum +
      Math.max(1, number(unit.count)) *
        number(unit.frequencyGhz) *
        1e9 *
        (number(unit.opsPerCycle) || 2 * number(unit.lanes)),
    0,
  );
const clockOf = (target) => Math.max(0, ...(target.units ?? []).map((unit) => number(unit.frequencyGhz))) * 1e9;
/** Bytes per second of the outermost memory. The bandwidth of a level that cores share counts once. */
export function bandwidthOf(target) {
  const outer = (target.memory ?? []).at(-1);
  return outer ? number(outer.bandwidthBytesPerCycle) * clockOf(target) : 0;
}

/** Bandwidth of each memory level, innermost first: [{name, bandwidth}] in bytes per second. */
export const roofsOf = (target) =>
  (target.memory ?? [])
    .map((level) => ({name: level.name, bandwidth: number(level.bandwidthBytesPerCycle) * clockOf(target)}))
    .filter(({bandwidth}) => bandwidth > 0);

export async function targets(context) {
  const {query} = context;
  const parts = [
    query.get("family") && `family = ${query.get("family")}`,
    query.get("name") && `name : "${query.get("name").replace(/["\\]/g, "")}"`,
  ].filter(Boolean);
  const asked = {filter: parts.join(" AND "), pageSize: 100, pageToken: query.get("page")};
  const answer = await get("/v1/targets", asked, context.signal);
  const found = answer.targets ?? [];
  show(
    context.view,
    h("h1", {}, "Targets"),
    filters(context, [
      {name: "family", title: "Family", options: FAMILIES},
      {name: "name", title: "Name", hint: "lake"},
    ]),
    panel(
      "Targets",
      {json: address("/v1/targets", asked)},
      found.length
        ? table(
            "Targets",
            [
              {
                title: "Target",
                cell: ({target}) => h("a", {href: `/targets/${encodeURIComponent(target.name)}`}, target.name),
              },
              {title: "Family", cell: ({target}) => words(target.family)},
              {
                title: "Peak, f32",
                num: true,
                cell: ({target}) => (peakOf(target) ? scaled(peakOf(target), "FLOP/s") : ""),
              },
              {
                title: "Memory",
                num: true,
                cell: ({target}) => (bandwidthOf(target) ? scaled(bandwidthOf(target), "B/s") : ""),
              },
              {title: "Intrinsics", num: true, cell: ({target}) => (target.intrinsics ?? []).length},
              {title: "", cell: ({builtin}) => tag(builtin ? "built in" : "registered")},
              {title: "Summary", class: "wide", cell: ({target}) => target.summary ?? ""},
            ],
            found,
          )
        : empty(
            "No target matches. To register a description:",
            "tessera targets --register my-chip.txt",
          ),
    ),
    pager(context, answer.nextPageToken, found.length, "targets"),
  );
}

export async function target(context) {
  const path = `/v1/targets/${encodeURIComponent(context.id)}`;
  const {target: chip, builtin, hash} = await get(path, {}, context.signal);
  document.title = `${chip.name} · Tessera`;
  show(
    context.view,
    h("p", {class: "crumb"}, h("a", {href: "/targets"}, "Targets")),
    h(
      "div",
      {class: "title"},
      h("h1", {}, chip.name),
      tag(words(chip.family)),
      tag(builtin ? "built in" : "registered"),
      h("span", {class: "grow"}),
      h("a", {class: "json", href: path}, "JSON"),
    ),
    chip.summary && h("p", {}, chip.summary),
    panel(
      "What it is",
      {},
      facts([
        ["Peak, f32", peakOf(chip) ? scaled(peakOf(chip), "FLOP/s") : ""],
        ["Outermost memory", bandwidthOf(chip) ? scaled(bandwidthOf(chip), "B/s") : ""],
        [
          "Balance",
          peakOf(chip) && bandwidthOf(chip) ? `${(peakOf(chip) / bandwidthOf(chip)).toFixed(1)} FLOP a byte` : "",
        ],
        ["Triple", chip.code?.triple],
        ["Processor", chip.code?.cpu],
        ["Vector registers", chip.registers && `${chip.registers.vectorCount} of ${chip.registers.vectorBits} bits`],
        ["Features", (chip.code?.features ?? []).join(", ")],
        ["Hash", short(hash)],
      ]),
    ),
    memories(chip),
    (chip.intrinsics ?? []).length > 0 &&
      panel(
        "Intrinsics",
        {},
        table(
          "Intrinsics",
          [
            {title: "Name", cell: ({name}) => name},
            {
              title: "Iterations",
              class: "wide",
              cell: ({iterations = []}) =>
                iterations
                  .map(({name, extent, reduction}) => `${name}${reduction ? " (sum)" : ""} ${extent}`)
                  .join(" × "),
            },
            {
              title: "Operands",
              class: "wide",
              cell: ({operands = []}) =>
                operands
                  .map(
                    ({name, dtype, subscripts = []}) =>
                      `${name}[${subscripts.join(", ")}] ${words((dtype ?? "").replace("DATA_TYPE_", ""))}`,
                  )
                  .join("; "),
            },
            {title: "Latency", num: true, cell: ({latencyCycles}) => (latencyCycles ? `${latencyCycles} cycles` : "")},
          ],
          chip.intrinsics,
        ),
      ),
    panel("All of it", {json: path}, tree(chip)),
  );
}

/** Draws a chip's memories around its units. */
export function memories(chip, title = "Memories around the units", json = undefined) {
  const units = chip.units ?? [],
    memory = chip.memory ?? [];
  return panel(
    title,
    {json},
    memory.length || units.length
      ? levels([...memory].reverse(), units)
      : empty("The description names no memory and no unit."),
  );
}

function levels([outer, ...inner], units) {
  if (!outer) {
    return h(
      "div",
      {class: "level core"},
      units.map((unit) =>
        h(
          "div",
          {class: "name"},
          h("strong", {}, `${unit.count ?? 1} × ${unit.name}`),
          h(
            "span",
            {},
            [
              unit.lanes && `${unit.lanes} lanes`,
              unit.frequencyGhz && `${unit.frequencyGhz} GHz`,
              unit.opsPerCycle && `${unit.opsPerCycle} operations per cycle`,
            ]
              .filter(Boolean)
              .join(", "),
          ),
        ),
      ),
    );
  }
  return h(
    "div",
    {class: "level"},
    h(
      "div",
      {class: "name"},
      h("strong", {}, outer.name),
      h(
        "span",
        {},
        [
          number(outer.capacityBytes) && bytes(outer.capacityBytes),
          outer.bandwidthBytesPerCycle && `${outer.bandwidthBytesPerCycle} B a cycle`,
          number(outer.sharedBy) > 1 ? `shared by ${outer.sharedBy} cores` : "one for each core",
          outer.lineBytes && `lines of ${outer.lineBytes} B`,
          outer.associativity && `${outer.associativity} ways`,
          outer.energyPjPerByte && `${outer.energyPjPerByte} pJ a byte`,
        ]
          .filter(Boolean)
          .join(", "),
      ),
    ),
    levels(inner, units),
  );
}
