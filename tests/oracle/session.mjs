// Sessions of ONNX Runtime: CPU, all graph optimisations unless disabled, operators executed sequentially.

import ort from 'onnxruntime-node';
import { readArrays, writeArrays } from './arrays.mjs';

/** Loads a model for `threads` intra-op threads; `optimize`: how much of the graph may be rewritten. */
export function open(model, threads, optimize = 'all') {
  return ort.InferenceSession.create(model, {
    executionProviders: ['cpu'],
    graphOptimizationLevel: optimize,
    executionMode: 'sequential',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    logSeverityLevel: 4, // errors are thrown as exceptions
  });
}

/** The quantile q of ascending values, by the nearest rank. */
function quantile(sorted, q) {
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)];
}

/**
 * Runs the model `warmup` times untimed and `repeat` times timed on the arrays of the file `input`;
 * writes the last outputs to `output` when given. Times are wall milliseconds in order.
 */
export async function run(session, { input, output, warmup = 0, repeat = 1 }) {
  const feeds = {};
  const given = input ? readArrays(input) : new Map();
  for (const name of session.inputNames) {
    const array = given.get(name);
    if (!array) throw new Error(`no array for input '${name}'; ${input} has: ${[...given.keys()].join(', ')}`);
    feeds[name] = new ort.Tensor(array.type, array.data, array.dims);
  }
  let results;
  const times = [];
  for (let i = -warmup; i < repeat; i++) {
    const start = process.hrtime.bigint();
    results = await session.run(feeds);
    if (i >= 0) times.push(Number(process.hrtime.bigint() - start) / 1e6);
  }
  if (output) {
    writeArrays(output, new Map(session.outputNames.map((n) => [n, results[n]])));
  }
  const sorted = [...times].sort((a, b) => a - b);
  return {
    latency_ms: { median: quantile(sorted, 0.5), min: sorted[0], p90: quantile(sorted, 0.9) },
    runs: repeat,
    times_ms: times,
  };
}
