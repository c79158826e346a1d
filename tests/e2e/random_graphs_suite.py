"""Graphs of random operators on odd shapes, compiled by the service: results equal ONNX Runtime's with one thread, and
with two while all kernels' memory is guarded.

CI's seeds rotate over the targets that this machine can run. `--seeds FIRST:COUNT` and `--target NAME` select others. For a failing
graph the suite prints the shortest failing prefix.
"""

import onnx
import pytest

from checks import check_equal
from e2e.tessera_e2e import target_value, rotating_target, target_name
from fuzz.cases import interpreter_oracle
from models.random_graphs import RandomGraph
from oracle.oracle import OracleError, difference

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
        pytest.skip(str(refusal))
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
        answer = interpreter_oracle.run(graph.model, graph.arrays)[name]
    except interpreter_oracle.NotInterpreted as error:
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


@pytest.mark.seeds(range(40))
def test_graphs(service, oracle, seed, chosen_target):
    agrees(service, oracle, seed, target_value(chosen_target) if chosen_target else rotating_target(seed))
