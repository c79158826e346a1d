// Times of kernels, from profiles and from records.

import {get} from "/web/api.js";
import {h, table} from "/web/dom.js";
import {median, ms, number, percent, scaled, short, spread} from "/web/format.js";
import {bar} from "/web/parts.js";
import {peakOf, roofsOf} from "/web/targets.js";
import {roofline} from "/web/charts.js";

/** The job of an artifact's newest finished profile, or undefined. */
export const newestProfile = async (artifact, signal) => (await profilesOf([artifact], signal, 1)).get(artifact)[0];

/** For each artifact its finished profiles, newest first, among the latest thousand profiles. */
export async function profilesOf(artifacts, signal, enough = Infinity) {
  const found = new Map(artifacts.map((id) => [id, []]));
  let pageToken = "";
  for (let page = 0; page < 4; ++page) {
    const answer = await get(
      "/v1/jobs",
      {filter: "kind = PROFILE AND state = SUCCEEDED", pageSize: 250, pageToken},
      signal,
    );
    for (const job of answer.jobs ?? []) found.get(job.profile?.artifactId)?.push(job);
    if (!answer.nextPageToken || [...found.values()].every((jobs) => jobs.length >= enough)) break;
    pageToken = answer.nextPageToken;
  }
  return found;
}

/** Steps of a profile: name, times, and memory traffic according to the plan. */
export function kernelsOf(profile, plan) {
  const workloads = new Map((plan?.workloads ?? []).map((workload) => [workload.hash, workload]));
  return (profile.kernels ?? []).map((kernel, step) => {
    const times = (kernel.timesMs ?? []).map(Number);
    const workload = workloads.get(kernel.workloadHash);
    return {
      step,
      name: kernel.name || kernel.summary || kernel.symbol,
      summary: kernel.summary ?? "",
      hash: kernel.workloadHash ?? "",
      ms: number(kernel.medianMs),
      mad: times.length > 1 ? spread(times) : NaN,
      flops: number(kernel.flops),
      bytes: number(workload?.bytes),
    };
  });
}

export function kernelTable(kernels) {
  const all = kernels.reduce((sum, kernel) => sum + kernel.ms, 0) || 1;
  return table(
    "Kernels, slowest first",
    [
      {title: "Step", class: "step", cell: ({step, name}) => h("div", {class: "step"}, `${step} · ${name}`)},
      {title: "Time", num: true, cell: (kernel) => ms(kernel.ms)},
      {title: "±", num: true, cell: ({mad}) => (Number.isFinite(mad) ? ms(mad) : "")},
      {title: "Share", num: true, cell: (kernel) => percent(kernel.ms / all)},
      {title: "", cell: (kernel) => bar(kernel.ms / all)},
      {
        title: "Speed",
        num: true,
        cell: (kernel) => (kernel.flops && kernel.ms ? scaled((kernel.flops / kernel.ms) * 1000, "FLOP/s") : ""),
      },
      {
        title: "Workload",
        cell: ({hash, summary}) =>
          hash ? h("a", {href: `/records?workload=${hash}`, title: summary}, short(hash, 8)) : "",
      },
    ],
    [...kernels].sort((one, other) => other.ms - one.ms),
  );
}

export const latencyOf = (profile) => (profile.latencyMs ?? []).map(Number);
export const latencyText = (times) => (times.length ? `${ms(median(times))} ± ${ms(spread(times))}` : "");

export function roofOf(kernels, chip, threads) {
  return roofline(
    kernels,
    chip ? peakOf(chip) : 0,
    chip ? roofsOf(chip) : [],
    `this ran on ${threads} thread${threads === 1 ? "" : "s"}`,
  );
}
