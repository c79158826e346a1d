#!/usr/bin/python3
"""What records of one network are worth to a search for a second one of the same family:

    tests/bench/transfer.py [--first SPEC] [--second SPEC] [--learned 40] [--trials 5]

The second network is tuned with few trials of each workload, once in an empty database and once in one where the first
was tuned before. Printed is the model's time with the best trees over its time by default, workload by workload as each was
measured in turns with its default, and the same of the workloads for which the warm database knew something.
"""

import argparse
import pathlib
import statistics
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import Service, model_inputs, model_path, shapes_of


def tuned(service, spec, trials, seed, budget):
    shapes = [word for name, shape in shapes_of(model_inputs(spec, 1)).items()
              for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
    return service.cli("tune", model_path(spec), "--target", "host", "--json", "--mode", "static", "--trials", trials,
                       "--budget", f"{budget}s", "--seed", seed, "-o", service.scratch("pins"), *shapes,
                       timeout=budget + 300).json["job"]["tune_result"]


def gain(result):
    """The model's time by default over its time with the best trees, as the searches saw it."""
    searched = [each for each in result["workloads"] if each["trials"]]
    left = sum(each["share"] for each in result["workloads"]) - sum(each["share"] for each in searched)
    return 1 / (left + sum(each["share"] * min(1, each["best_ms"] / each["default_ms"]) for each in searched))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", default="bert_tiny:hidden=256,heads=4,seq=64")
    parser.add_argument("--second", default="bert_tiny:hidden=320,heads=5,seq=96")
    parser.add_argument("--learned", type=int, default=40, help="trials of each workload of the first network")
    parser.add_argument("--trials", type=int, default=5, help="of each workload of the second one")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=60, help="seconds of each search of a network")
    flags = parser.parse_args()
    gains = {"empty": [], "warm": []}
    for seed in range(1, flags.seeds + 1):
        for database in gains:
            with Service(workers=2) as service:
                service.wait_for_workers(2)
                if database == "warm":
                    first = tuned(service, flags.first, flags.learned, seed, flags.budget)
                    print(f"   {flags.first}: {first['trials']} trials, {gain(first):.3f} times as fast", flush=True)
                result = tuned(service, flags.second, flags.trials, seed + 100, flags.budget)
                gains[database].append(gain(result))
                print(f"{database:5} database, seed {seed}: {flags.second} {gains[database][-1]:.3f} times as fast "
                      f"after {result['trials']} trials", flush=True)
    for database, values in gains.items():
        print(f"{database:5}: median {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")


if __name__ == "__main__":
    main()
