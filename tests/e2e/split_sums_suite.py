"""Long sums of few results, split into parts that all cores share: the decision is reported, and results equal ONNX
Runtime's with as many threads as the chip has cores and with one."""

import pytest

from checks import check, check_equal
from e2e.chains_suite import Model, results_agree

CORES = 28


def chip(service):
    """This host, described with more cores than it has."""
    path = service.scratch("many.textproto")
    described = service.cli("targets", "--show", "host").out
    check("count:" in described, described)
    before, units = described.split("units", 1)
    first, rest = units.split("count:", 1)
    count, rest = rest.split("\n", 1)
    path.write_text(f"{before}units{first}count: {CORES}\n{rest}")
    return path


# name, operator, shapes of its inputs, attributes, split sums
LONG = (
    ("sum", "ReduceSum", [(1, 1000003)], {"keepdims": 0}, 1),
    ("largest", "ReduceMax", [(300007, 5)], {"axes": [0], "keepdims": 0}, 1),
    ("mean", "ReduceMean", [(3, 65536 * 4)], {"axes": [1], "keepdims": 1}, 1),
    ("split-K", "MatMul", [(3, 100003), (100003, 5)], {}, 1),
    ("scores", "Softmax", [(2, 200003)], {"axis": 1}, 2),
    ("norm", "InstanceNormalization", [(1, 2, 1001, 999), (2,), (2,)], {}, 2),
    ("average", "GlobalAveragePool", [(1, 1, 1023, 1025)], {}, 1),
)


def agrees(service, oracle, operator, shapes, attributes, cut):
    for target in ("host", chip(service)):
        model = Model()
        path = model.save(service, [model.op(operator, *(model.input(*shape) for shape in shapes), **attributes)])
        model.arrays = {name: abs(array) for name, array in model.arrays.items()}  # a sum that cancels is all rounding error
        report = service.cli("explain", path, "--target", target, "--json").json["plan"]["report"]
        taken = [decision for decision in report.get("decisions", [])
                 if decision["kind"] == "split" and decision.get("taken")]
        if target != "host":
            check_equal(len(taken), cut, f"sums that are cut of {report.get('decisions')}")
        for decision in taken:
            check("pieces for" in decision["reason"] and decision["cost"] < decision["alternative_cost"], f"{decision}")
        results_agree(service, oracle, path, model.arrays, target=target)


@pytest.mark.parametrize("operator, shapes, attributes, cut", [pytest.param(*case, id=name) for name, *case in LONG])
def test_long(service, oracle, operator, shapes, attributes, cut):
    agrees(service, oracle, operator, shapes, attributes, cut)
