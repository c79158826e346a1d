// Versions of a tune job's artifact: their speeds, and buttons to return to one.

import {address, get, post} from "/web/api.js";
import {empty, h, panel, show, table} from "/web/dom.js";
import {ago, clock, ms, number, percent} from "/web/format.js";
import {artifactLink, tag} from "/web/parts.js";

/** The default's time divided by the version's, both measured in alternation; 1 for the default. */
const speedOf = (version) => (number(version.ms) ? number(version.defaultMs) / number(version.ms) : 1);

function change(version, before) {
  if (!before) return h("span", {class: "note"}, "the first");
  const ratio = speedOf(version) / speedOf(before) - 1;
  if (Math.abs(ratio) < 0.0005) return h("span", {class: "note"}, "the same");
  return h(
    "span",
    {class: ratio > 0 ? "better" : "worse"},
    `${percent(Math.abs(ratio))} ${ratio > 0 ? "faster" : "slower"}`,
  );
}

/** Shows the current versions in `box`. */
export async function showVersions(context, box, job) {
  const path = `/v1/jobs/${encodeURIComponent(job)}/versions`,
    asked = {pageSize: 1000};
  const answer = await get(path, asked, context.signal);
  const all = answer.versions ?? [];
  const current = all.findLast(({held}) => !held);
  const held = all.some((version) => version.held);
  const choose = (event, number_) => {
    event.target.disabled = true;
    context.guarded(async () => {
      try {
        await post(`${path}:choose`, {number: number_});
        context.say(number_ ? `Programs run version ${number_}` : "Programs run the newest version");
        await showVersions(context, box, job);
      } finally {
        event.target.disabled = false;
      }
    });
  };
  show(
    box,
    panel(
      "Versions",
      {
        json: address(path, asked),
        tools: [
          answer.mode && tag((answer.mode ?? "").toLowerCase()),
          held &&
            h(
              "button",
              {type: "button", id: "choose-newest", onclick: (event) => choose(event, 0)},
              "Follow the newest",
            ),
        ],
      },
      all.length === 0
        ? empty("There is no version yet: the first is the model with default schedules.")
        : table(
            "Versions of the artifact",
            [
              {
                title: "Version",
                cell: (version) => [`${version.number} `, version === current && tag("programs run it")],
              },
              {title: "Artifact", cell: (version) => artifactLink(version.artifactId)},
              {title: "Tuned kernels", num: true, cell: (version) => version.tunedWorkloads ?? 0},
              {title: "A run", num: true, cell: (version) => (number(version.ms) ? ms(version.ms) : "")},
              {title: "Over the default", num: true, cell: (version) => `${speedOf(version).toFixed(3)} ×`},
              {title: "Than the one before", cell: (version) => change(version, all[version.number - 2])},
              {
                title: "",
                cell: (version) =>
                  version.sameAs ? tag(`${version.sameAs} again`) : version.held ? tag("held back") : "",
              },
              {
                title: "Made",
                cell: (version) => h("time", {title: clock(version.createTimeUs)}, ago(version.createTimeUs)),
              },
              {
                title: "Compare",
                cell: (version) =>
                  version.number > 1 &&
                  h(
                    "a",
                    {
                      href: `/compare?a=${all[version.number - 2].artifactId}&b=${version.artifactId}`,
                      "aria-label": `Compare versions ${version.number - 1} and ${version.number}`,
                    },
                    `with ${version.number - 1}`,
                  ),
              },
              {
                title: "Choose",
                cell: (version) =>
                  version.artifactId !== current?.artifactId &&
                  h(
                    "button",
                    {
                      type: "button",
                      class: "quiet",
                      id: `choose-${version.number}`,
                      onclick: (event) => choose(event, version.number),
                    },
                    `Run ${version.number}`,
                  ),
              },
            ],
            [...all].reverse(),
          ),
      h(
        "p",
        {class: "note"},
        "A choice affects programs that follow the job, as does ",
        h("code", {}, `tessera versions ${job} --choose N`),
        "; ",
        h("code", {}, `tessera run --follow ${job}`),
        " is one of them.",
      ),
    ),
  );
}
