"""Pairs and triples of operators with all their attributes, many in one model, compared with ONNX Runtime operator by
operator; the cases of found/, which failed once; and larger random graphs. The seeds are fixed; rotating_suite.py draws
others with each commit.
"""

import pytest

from checks import check
from fuzz.cases import stored_cases, plan, tolerance
from fuzz.cases.batch_check import agree

MODELS = {"pairs": 4, "graphs": 3}  # from seed 0


def stays_right(service, builder, path, *flags, target="host"):
    """A case that failed once. `flags`: of compile."""
    arrays, wanted, bounds = stored_cases.load(path)
    artifact = service.scratch("case.tsra")
    check(builder.built(path, target, flags, artifact), f"{stored_cases.text_of(path)} is not compiled")
    outputs, _ = service.run(artifact, arrays, "--guard", "--untrusted")
    check(sorted(outputs) == sorted(wanted), f"outputs {sorted(outputs)}, expected {sorted(wanted)}")
    for name, right in wanted.items():
        difference = tolerance.distance(outputs[name], right)
        check(not difference.what and difference.share <= bounds[name],
              f"{stored_cases.text_of(path)}: {name} {difference.what} off by {difference.share:.3g}, bound {bounds[name]:.3g}")


@pytest.mark.parametrize("path", stored_cases.cases(), ids=lambda path: path.stem)
def test_found(service, builder, path):
    stays_right(service, builder, path)


@pytest.mark.parametrize("path", stored_cases.cases(), ids=lambda path: path.stem)
def test_found_plainly(service, builder, here, path):
    """Without bf16 instructions, and without the rewrites of higher levels, which may hide faults."""
    if "x86-64-v3" not in here:
        pytest.skip("this machine does not run code for x86-64-v3")
    stays_right(service, builder, path, "-O", "1", target="x86-64-v3")


@pytest.mark.parametrize("kind, number, models", [
    pytest.param(kind, number, models, id=f"{kind}_{number * plan.KINDS[kind][1]}")
    for kind, count in MODELS.items() for number, models in plan.models(kind, 0, count)])
def test_drawn(service, reference, builder, here, kind, number, models):
    direct = builder if number else None  # the first one of each kind goes through the product
    agree(service, reference, kind, models, here[number % len(here)], builder=direct)
