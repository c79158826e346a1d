#!/usr/bin/env node
// Memory that ONNX Runtime takes to run a model once, from this process's counters, as one line of JSON.
//
//   node --expose-gc memory.mjs MODEL --input x.npz [--threads N]
//
// run_bytes: growth of anonymous resident memory from the loaded model to the end of the first run, outputs included.
// Weights are kept out of the arena, so that the run cannot reuse memory freed while loading. The arena never shrinks,
// so the memory after the run is its peak. total_bytes: the process's peak above its level before loading.

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import ort from 'onnxruntime-node';
import { readArrays } from './arrays.mjs';

function counter(name) {
  const line = readFileSync('/proc/self/status', 'utf8').split('\n').find((l) => l.startsWith(`${name}:`));
  return Number(/\d+/.exec(line)[0]) * 1024;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { input: { type: 'string' }, threads: { type: 'string', default: '1' } },
});
const feeds = {};
for (const [name, array] of readArrays(values.input)) feeds[name] = new ort.Tensor(array.type, array.data, array.dims);
gc();
const before = counter('VmRSS');
const session = await ort.InferenceSession.create(positionals[0], {
  executionProviders: ['cpu'],
  graphOptimizationLevel: 'all',
  executionMode: 'sequential',
  intraOpNumThreads: Number(values.threads),
  interOpNumThreads: 1,
  extra: { session: { use_device_allocator_for_initializers: '1' } },
});
gc();
const loaded = counter('RssAnon');
const results = await session.run(feeds);
const after = counter('RssAnon');
const outputs = Object.values(results).reduce((sum, tensor) => sum + tensor.data.byteLength, 0);
console.log(JSON.stringify({ run_bytes: after - loaded, output_bytes: outputs, total_bytes: counter('VmHWM') - before }));
