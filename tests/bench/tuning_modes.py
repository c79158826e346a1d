#!/usr/bin/python3
"""When a model that is being tuned can run, and how often, in each mode of a tune job (thesis, 4.6.3).

    tests/bench/tuning_modes.py [--models mi_lstm resnet50 bert_base] [--budget 60] [--window 75] [--seeds 1]

Each mode has its own service with an empty database. `tessera run --follow` starts with the job and runs the model on
one thread for the window, on the machine that searches, so both slow each other down as in production. Worker use is
the share of the search's time in which a worker had a task, from the job's trace. Use of the measuring core is the
share in which a trial was timed on a measuring core of the host; near 100 %, more workers would not end the
search sooner. Takes models x modes x seeds x (window + 15 s). Goals: the first run in async mode within 10 s, 1.5 times
the runs of static mode, workers used for 85 %.
"""

import argparse
import statistics

from tuning_comparison import heading, model_of, spread

from e2e.tessera_e2e import Service, model_inputs, save_npz


def covered(events, until_us):
    """Microseconds up to `until_us` in which at least one of `events` is active, and the end of the last one."""
    busy = end = 0
    for begin, stop in sorted((event["ts"], min(event["ts"] + event["dur"], until_us)) for event in events):
        busy += max(0, stop - max(begin, end))
        end = max(end, stop)
    return busy, end


def use_of(trace, seconds):
    """Over the first `seconds` after the first task: the share of all workers' time with a task, and the share in which
    a trial is timed."""
    until_us = 1e6 * seconds
    workers = {event["pid"] for event in trace["traceEvents"] if event["ph"] == "M"}
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["ts"] < until_us]
    length = max(1, covered(events, until_us)[1])
    busy = sum(covered([event for event in events if event["pid"] == worker], until_us)[0] for worker in workers)
    timing = covered([event for event in events if event["name"].startswith("measure")], until_us)[0]
    return busy / max(1, len(workers)) / length, timing / length


def ran(model, mode, budget, window, seed):
    with Service(workers=2) as service:
        service.wait_for_workers(2)
        path, shapes = model_of(model)
        inputs = service.scratch("in.npz")
        save_npz(inputs, model_inputs(model, 1))
        job = service.cli("tune", path, "--target", "host", "--detach", "--mode", mode, "--trials", 10_000, "--budget",
                          f"{budget}s", "--seed", seed, *shapes).out.strip()
        told = service.cli("run", "--follow", job, "--for", f"{window}s", "--input", inputs, "--json",
                           timeout=window + 600).json
        return told, use_of(service.cli("trace", job, "--json").json, budget)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["mi_lstm", "resnet50", "bert_base"])
    parser.add_argument("--budget", type=int, default=60, help="seconds of search")
    parser.add_argument("--window", type=int, default=75, help="seconds of running, from the job's creation on")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--modes", nargs="+", default=["static", "sync", "async"])
    flags = parser.parse_args()
    heading(f"Modes of tuning; seeds 1 to {flags.seeds}; {flags.budget} s of search, window of {flags.window} s")
    for model in flags.models:
        first = None
        for mode in flags.modes:
            runs = [ran(model, mode, flags.budget, flags.window, seed) for seed in range(1, flags.seeds + 1)]
            iterations = [told["runs"] for told, _ in runs]
            begins = [told["versions"][0]["from_ms"] / 1000 for told, _ in runs if told["versions"]]
            first = first or statistics.median(iterations)
            stretches = "; ".join(", ".join(f"v{each['number']} from {each['from_ms'] / 1000:.1f} s {each['runs']} x "
                                            f"{each['median_ms']:.2f} ms" for each in told["versions"]) for told, _ in runs)
            print(f"{model} {mode:7} first run after {spread(begins, '.1f') if begins else '-'} s, "
                  f"{spread(iterations, '.0f')} runs, {statistics.median(iterations) / max(1, first):.2f} of "
                  f"{flags.modes[0]}'s, workers used {spread([100 * use for _, (use, _) in runs], '.0f')} %, the measuring "
                  f"core {spread([100 * timing for _, (_, timing) in runs], '.0f')} %: {stretches}",
                  flush=True)


if __name__ == "__main__":
    main()
