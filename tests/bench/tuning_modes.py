#!/usr/bin/python3
"""When a model that is tuned can be run, and how often, by the mode of its tune job (thesis, 4.6.3):

    tests/bench/tuning_modes.py [--model squeezenet1_1] [--budget 20] [--window 40]

Each mode has a service of its own with an empty database. `tessera run --follow` begins with the job and runs the model
on one thread for the window, on the same machine that searches: both disturb each other, as they do in use.
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import Service, model_inputs, model_path, save_npz, shapes_of


def ran(model, mode, budget, window, seed):
    with Service(workers=2) as service:
        service.wait_for_workers(2)
        arrays = model_inputs(model, 1)
        shapes = [word for name, shape in shapes_of(arrays).items()
                  for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
        inputs = service.scratch("in.npz")
        save_npz(inputs, arrays)
        job = service.cli("tune", model_path(model), "--target", "host", "--detach", "--mode", mode, "--trials", 10000,
                          "--budget", f"{budget}s", "--seed", seed, *shapes).out.strip()
        return service.cli("run", "--follow", job, "--for", f"{window}s", "--input", inputs, "--json",
                           timeout=window + 120).json


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="squeezenet1_1")
    parser.add_argument("--budget", type=int, default=20, help="seconds of search")
    parser.add_argument("--window", type=int, default=40, help="seconds of running, from the job's creation on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", nargs="+", default=["static", "sync", "async"])
    flags = parser.parse_args()
    print(f"{flags.model}, {flags.budget} s of search, window of {flags.window} s")
    iterations = {}
    for mode in flags.modes:
        told = ran(flags.model, mode, flags.budget, flags.window, flags.seed)
        iterations[mode] = told["runs"]
        stretches = ", ".join(f"v{each['number']} from {each['from_ms'] / 1000:.1f} s {each['runs']} x "
                              f"{each['median_ms']:.2f} ms" for each in told["versions"])
        print(f"{mode:7} first run after {told['versions'][0]['from_ms'] / 1000:6.2f} s, {told['runs']:6} runs "
              f"({told['runs'] / max(1, iterations[flags.modes[0]]):.2f} of {flags.modes[0]}'s): {stretches}",
              flush=True)


if __name__ == "__main__":
    main()
