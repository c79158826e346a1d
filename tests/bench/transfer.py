#!/usr/bin/python3
"""Whether tuning records of one network help the search for a second network of the same family.

    tests/bench/transfer.py [--first SPEC] [--second SPEC] [--budget 60] [--seeds 3]

The second network is compiled by default, compiled with the records of a search for the first one (`--knowledge
newest`, no trial), and tuned with few trials for each workload, once with an empty database and once with those
records. All artifacts alternate with the default on one core. `no trial` is the speed of the compilation with
`--knowledge newest`, and its share of the gain of the second network's own search.
"""

import argparse
import math

from tuning_comparison import compiled, heading, rounds_for, spread, speedup, tuned

from e2e.tessera_e2e import Service


def speed_of(service, spec, default, result, pins):
    """Speed of the schedules that a search found, relative to the default."""
    if not result.get("pins"):
        return 1.0
    rounds = rounds_for(sum(each["default_ms"] * each["steps"] for each in result["workloads"]))
    return speedup(service, default, compiled(service, spec, "--pin", pins), rounds)[0]


def second_of(flags, seed, warm):
    """Speed of the second network relative to the default: without a trial, and after few."""
    with Service(workers=2) as service:
        service.wait_for_workers(2)
        if warm:
            first = tuned(service, flags.first, budget_s=flags.budget, seed=seed)[0]["tune_result"]
            print(f"   {flags.first}, seed {seed}: {first['trials']} trials", flush=True)
        default = compiled(service, flags.second)
        known = compiled(service, flags.second, "--knowledge", "newest")
        untried = speedup(service, default, known, flags.rounds)[0]
        job, pins = tuned(service, flags.second, budget_s=flags.budget, seed=seed + 100, trials=flags.trials)
        speed = speed_of(service, flags.second, default, job["tune_result"], pins)
        print(f"   {flags.second}, {'warm' if warm else 'empty'} database, seed {seed}: {untried:.3f} without a trial, "
              f"{speed:.3f} after {job['tune_result']['trials']}", flush=True)
        return untried, speed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", default="resnet18")
    parser.add_argument("--second", default="resnet50")
    parser.add_argument("--trials", type=int, default=6, help="of each workload of the second one")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=120, help="seconds of each search of a network")
    parser.add_argument("--rounds", type=int, default=31, help="alternating runs")
    flags = parser.parse_args()
    heading(f"From {flags.first} to {flags.second}; seeds 1 to {flags.seeds}; {flags.budget} s a search, {flags.trials} "
            "trials of each workload of the second one")
    empty = [second_of(flags, seed, False) for seed in range(1, flags.seeds + 1)]
    warm = [second_of(flags, seed, True) for seed in range(1, flags.seeds + 1)]
    print(f"empty database: {spread([each[1] for each in empty])} times as fast after the trials")
    print(f"warm database: {spread([each[0] for each in warm])} without a trial, {spread([each[1] for each in warm])} after")
    shares = [math.log(untried) / math.log(max(speed, tried)) for (untried, tried), (_, speed) in zip(warm, empty)
              if max(speed, tried) > 1.005]
    print(f"share of the gain without any trial: {spread(shares, '.2f')}" if shares else
          "share of the gain without any trial: no search gained half a percent, so there is none")


if __name__ == "__main__":
    main()
