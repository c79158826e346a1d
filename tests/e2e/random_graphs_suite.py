#!/usr/bin/python3
"""Graphs of random operators on odd shapes, compiled by the service: results equal ONNX Runtime's with one thread, and
with two while all kernels' memory is guarded.

Without arguments, runs CI's seeds and rotates over the targets that this machine can run. `random_graphs_suite.py FIRST
COUNT [TARGET]` runs others; for a failing graph it prints the shortest failing prefix.
"""
# suite: timeout=900

import pathlib
import sys

import onnx

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import Service, target_called, target_in_turn, target_name
from fuzz.cases import second
from models.random_graphs import RandomGraph
from oracle.oracle import Oracle, OracleError, difference
from suite import Skip, check_equal, run

SEEDS = range(40)
TOLERANCE = 1e-4  # of the output's largest magnitude, or of this magnitude if all of the output is smaller:
SMALL = 0.1       # values are O(1), so a cancelled result has rounding errors of O(1) values


def differences(service, oracle, graph, target):
    """Raises unless all outputs of all runs are within the tolerance; returns the largest relative error."""
    path = service.scratch(f"{graph.graph.name}.onnx")
    onnx.save(graph.model, path)
    session = oracle.load(path)
    try:
        expected, _ = session.run(graph.arrays)
    except OracleError as refusal:
        raise Skip(str(refusal)) from None
    finally:
        session.close()
    artifact = service.scratch("graph.tsra")
    answer = service.cli("compile", path, "--target", target, "--json", "-o", artifact, expect=None)
    check_equal(answer.code, 0, f"{answer.failure or answer}\nexit code of compile")
    largest = 0.0
    for threads, *guard in ((1,), (2, "--guard")):
        outputs, _ = service.run(artifact, graph.arrays, "--threads", threads, *guard)
        check_equal(sorted(outputs), sorted(expected), "outputs")
        for name, wanted in expected.items():
            relative = apart(outputs[name], wanted)
            if relative > TOLERANCE:
                raise AssertionError(f"{name} {wanted.shape} with {threads} threads is off by {relative:.3g} of its largest "
                                     f"magnitude, tolerance {TOLERANCE:g}; {opinion(graph, name, outputs[name], wanted)}")
            largest = max(largest, relative)
    return largest


def apart(actual, expected):
    absolute, relative = difference(actual, expected)
    return min(relative, absolute / SMALL)


def opinion(graph, name, found, expected):
    """The side that the interpreter agrees with."""
    try:
        answer = second.run(graph.model, graph.arrays)[name]
    except second.NotInterpreted as error:
        return f"the interpreter: {error}"
    return (f"the interpreter is off by {apart(answer, expected):.3g} from ONNX Runtime, by {apart(answer, found):.3g} from the "
            "compiled code")


def agrees(service, oracle, seed, target):
    graph = RandomGraph(seed)
    try:
        error = differences(service, oracle, graph, target)
        print(f"   seed {seed} for {target_name(target)}: {graph.steps} steps, relative error {error:.2g}")
    except AssertionError as error:
        raise AssertionError(f"{shortest(service, oracle, seed, graph.steps, target)}\n{error}") from None


def shortest(service, oracle, seed, steps, target):
    """The shortest failing prefix of a failing graph, in words."""
    for count in range(1, steps + 1):
        graph = RandomGraph(seed, count)
        try:
            differences(service, oracle, graph, target)
        except AssertionError as error:
            nodes = "\n".join(f"  {node.op_type}({', '.join(node.input)}) -> {', '.join(node.output)}"
                              for node in graph.graph.nodes)
            return f"seed {seed} fails for {target_name(target)} with its first {count} of {steps} steps:\n{nodes}\n{error}"
    return f"seed {seed} fails for {target_name(target)} with all of its {steps} steps only"


def main():
    seeds = range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])) if len(sys.argv) >= 3 else SEEDS
    target_of = (lambda _: target_called(sys.argv[3])) if len(sys.argv) == 4 else target_in_turn
    with Service(workers=2) as service, Oracle() as oracle:
        service.wait_for_workers(2)
        return run("random_graphs", [(f"seed_{seed}", lambda s=seed: agrees(service, oracle, s, target_of(s))) for seed in seeds])


if __name__ == "__main__":
    sys.exit(main())
