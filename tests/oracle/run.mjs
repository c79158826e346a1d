#!/usr/bin/env node
// Runs an ONNX model with ONNX Runtime.
//
//   run.mjs MODEL --input x.npz [--output out.npz|DIR] [--repeat N] [--warmup N] [--threads N] [--json]
//   run.mjs --serve
//
// --serve answers one JSON object a line on standard input with one a line on standard output, so that
// many cases share one start-up:
//   {"id": 1, "op": "load", "model": "m.onnx", "threads": 1, "optimize": "disabled"} -> {"id": 1, "session": 1, "inputs": [...], ...}
//   {"id": 2, "op": "run", "session": 1, "input": "x.npz", "output": "y.npz", "repeat": 5, "warmup": 1}
//                                                                        -> {"id": 2, "latency_ms": {...}, ...}
//   {"id": 3, "op": "unload", "session": 1}                              -> {"id": 3}
// A request that fails is answered with {"id": ..., "error": "..."} and the next one is read.

import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { open, run } from './session.mjs';

async function serve() {
  const sessions = new Map();
  let next = 1;

  function find(request) {
    const session = sessions.get(request.session);
    if (!session) throw new Error(`no session ${request.session}; load a model first`);
    return session;
  }

  const operations = {
    async load(request) {
      const session = await open(request.model, request.threads ?? 1, request.optimize);
      sessions.set(next, session);
      return { session: next++, inputs: session.inputNames, outputs: session.outputNames };
    },
    run: (request) => run(find(request), request),
    async unload(request) {
      await find(request).release();
      sessions.delete(request.session);
      return {};
    },
  };

  for await (const line of createInterface({ input: process.stdin })) {
    let request = {};
    let answer;
    try {
      request = JSON.parse(line);
      const operation = operations[request.op];
      if (!operation) throw new Error(`op '${request.op}'; accepted: ${Object.keys(operations).join(', ')}`);
      answer = await operation(request);
    } catch (error) {
      answer = { error: error.message };
    }
    process.stdout.write(JSON.stringify({ id: request.id, ...answer }) + '\n');
  }
}

async function once(model, options) {
  const threads = Number(options.threads);
  const session = await open(model, threads);
  const result = await run(session, {
    input: options.input,
    output: options.output,
    repeat: Number(options.repeat),
    warmup: Number(options.warmup),
  });
  result.threads = threads;
  if (options.json) return console.log(JSON.stringify(result));
  const { median, min, p90 } = result.latency_ms;
  console.log(`median ${median.toFixed(3)} ms, min ${min.toFixed(3)} ms, p90 ${p90.toFixed(3)} ms ` +
              `(${result.runs} runs, ${threads} threads)`);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    input: { type: 'string' },
    output: { type: 'string' },
    repeat: { type: 'string', default: '1' },
    warmup: { type: 'string', default: '0' },
    threads: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    serve: { type: 'boolean', default: false },
  },
});
try {
  if (values.serve) {
    await serve();
  } else if (positionals.length === 1) {
    await once(positionals[0], values);
  } else {
    throw new Error('one MODEL is needed, or --serve');
  }
} catch (error) {
  console.error(`oracle: ${error.message}`);
  process.exitCode = 2;
}
