"""Operators on tensors of one element, where loops vanish and scalars remain, compared with ONNX Runtime; rotates over
the targets that this machine can run."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from e2e.data_dependent_suite import agrees
from e2e.tessera_e2e import rotating_target

node = helper.make_node
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
ONE, ZERO = np.array([1], np.int64), np.array([0], np.int64)
X = np.array([2.5], np.float32)


def table():
    """name -> nodes, inputs, outputs, constants"""
    cases = {}
    for size in (1, 3):
        x = np.arange(size, dtype=np.float32)
        cases[f"topk of {size}"] = ([node("TopK", ["x", "k"], ["v", "i"])], {"x": x}, {"v": (F32, 1), "i": (I64, 1)},
                                    {"k": ONE})
        cases[f"scatternd into {size}"] = ([node("ScatterND", ["x", "at", "u"], ["y"])],
                                           {"x": x, "at": np.array([[size - 1]], np.int64), "u": X}, {"y": (F32, 1)}, {})
        cases[f"scatterelements into {size}"] = (
            [node("ScatterElements", ["x", "at", "u"], ["z"]), node("Exp", ["z"], ["y"])],
            {"x": x, "at": np.array([size - 1], np.int64), "u": X}, {"y": (F32, 1)}, {})
    cases["gathernd"] = ([node("GatherND", ["x", "at"], ["y"])], {"x": X, "at": ZERO}, {"y": (F32, 0)}, {})
    cases["gather"] = ([node("Gather", ["x", "at"], ["z"]), node("Exp", ["z"], ["y"])],
                       {"x": X.reshape(1, 1), "at": ZERO}, {"y": (F32, 2)}, {})
    cases["argmax"] = ([node("ArgMax", ["x"], ["y"], keepdims=0)], {"x": X}, {"y": (I64, 0)}, {})
    cases["cumsum"] = ([node("CumSum", ["x", "axis"], ["y"])], {"x": X}, {"y": (F32, 1)},
                       {"axis": np.array(0, np.int64)})
    cases["onehot"] = ([node("OneHot", ["at", "depth", "values"], ["y"])], {"at": ZERO}, {"y": (F32, 2)},
                       {"depth": ONE, "values": np.array([0, 1], np.float32)})
    cases["softmax"] = ([node("Softmax", ["x"], ["y"])], {"x": X.reshape(1, 1)}, {"y": (F32, 2)}, {})
    cases["convolution"] = ([node("Conv", ["x", "w"], ["y"])],
                            {"x": X.reshape(1, 1, 1, 1), "w": X.reshape(1, 1, 1, 1)}, {"y": (F32, 4)}, {})
    cases["product"] = ([node("MatMul", ["x", "x"], ["y"])], {"x": X.reshape(1, 1)}, {"y": (F32, 2)}, {})
    return cases


CASES = table()


@pytest.mark.parametrize("name", CASES)
def test_operators(service, oracle, name):
    agrees(service, oracle, name, *CASES[name], rotating_target(list(CASES).index(name)))
