#!/usr/bin/python3
"""Random networks with ranges of sizes (models/ranged_networks.py), compared with ONNX Runtime at both ends and
between. The suite runs a few; `ranged_networks_suite.py --networks FIRST COUNT` runs more and prints each result."""

import argparse
import collections
import pathlib
import sys

import numpy as np
import onnx
import pytest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))  # where this file is a program

from e2e.ranged import same, tessera
from e2e.tessera_e2e import Service
from models.ranged_networks import RangedNetwork
from oracle.oracle import Oracle, OracleError

SEEDS = (0, 3, 4, 5, 6, 140, 622)


def outcome(service, oracle, seed, count):
    """("right", rejected sizes) or ("refused", by which side, reason); AssertionError if a result is wrong."""
    network = RangedNetwork(seed)
    path = service.scratch(f"network_{seed}.onnx")
    onnx.save(network.model, path)
    dims = [word for name, size in network.largest.items() for word in ("--dim", f"{name}=..{size}" if size > 1 else f"{name}=1")]
    artifact = service.scratch(f"network_{seed}.tsra")
    answer = service.cli("compile", path, "--target", "host", "--json", "-o", artifact, *dims, timeout=300, expect=None)
    if answer.code:
        return "refused", answer.failure.get("op_type", ""), answer.failure.get("message", str(answer))
    session, reference = tessera.load(artifact).session(2), oracle.load(path, optimize="disabled")
    refused = []  # rejected by the runs. ONNX Runtime is not optimized above: it merges a Pad with zeros into a MaxPool
    for sizes in network.sizes(count):
        arrays = network.arrays(**sizes)
        try:
            largest = {name: np.full([network.largest.get(dim, dim) for dim in network.shape], np.nan, np.float32) for name in arrays}
            session.run(largest)
            outputs = session.run(arrays)
        except tessera.errors.InvalidInput as error:
            refused.append(f"{sizes}: {error}")
            continue
        try:
            expected, _ = reference.run(arrays)
        except OracleError as error:
            raise AssertionError(f"{sizes} run, which ONNX Runtime refuses: {str(error)[:300]}") from None
        same(outputs, expected, f"network {seed} ({', '.join(network.kinds)}) of {sizes}")
    reference.close()
    artifact.unlink()
    return "right", refused


@pytest.mark.parametrize("seed", SEEDS)
def test_is_right(service, oracle, seed):
    what, *why = outcome(service, oracle, seed, 5)
    if what == "refused":
        raise AssertionError(f"refused: {why}")


def many(service, oracle, first, count, sizes):
    found = collections.Counter()
    for seed in range(first, first + count):
        kinds = ", ".join(RangedNetwork(seed).kinds)
        try:
            what, *why = outcome(service, oracle, seed, sizes)
        except OracleError as error:
            what, why = "oracle", [str(error)[:200]]
        except (AssertionError, ValueError, tessera.errors.TesseraError) as error:
            what, why = "wrong", [str(error)[:600]]
        found[what] += 1
        print(f"{seed} {what} [{kinds}] {why}", flush=True)
        if oracle.ended:
            print("the oracle has ended", flush=True)
            oracle = Oracle()
    print(dict(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs=2, type=int, metavar=("FIRST", "COUNT"), required=True)
    parser.add_argument("--sizes", type=int, default=10, help="of each network")
    options = parser.parse_args()
    with Oracle() as oracle, Service(workers=2) as service:
        service.wait_for_workers(2)
        many(service, oracle, *options.networks, options.sizes)


if __name__ == "__main__":
    main()
