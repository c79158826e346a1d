"""The ONNX project's own backend tests, from Debian's libonnx-testdata: a model, inputs, expected outputs each."""

import dataclasses
import pathlib

import numpy as np
import onnx
from onnx import numpy_helper

FOLDER = pathlib.Path("/usr/share/libonnx-testdata/data")


@dataclasses.dataclass
class Case:
    name: str  # node/test_relu
    model: pathlib.Path
    inputs: dict  # name -> array
    outputs: dict
    operators: list

    @property
    def runnable(self):
        """False when an input or output is no dense tensor (a sequence, an optional, strings)."""
        return all(isinstance(array, np.ndarray) and array.dtype != object
                   for array in (*self.inputs.values(), *self.outputs.values()))


def _value(path, info):
    content = path.read_bytes()
    if info.type.WhichOneof("value") != "tensor_type":
        return None
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def _values(folder, kind, infos):
    paths = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    return {info.name: _value(path, info) for path, info in zip(paths, infos)}


def cases(groups=("node", "simple", "pytorch-operator", "pytorch-converted")):
    """Every test with its first data set, in the order of names."""
    for group in groups:
        for folder in sorted((FOLDER / group).iterdir()):
            data = folder / "test_data_set_0"
            if not data.is_dir():
                continue
            model = onnx.load(folder / "model.onnx")
            # An initializer that is also listed as an input is a default, not fed by the tests.
            defaults = {weight.name for weight in model.graph.initializer}
            fed = [info for info in model.graph.input if info.name not in defaults]
            yield Case(f"{group}/{folder.name}", folder / "model.onnx", _values(data, "input", fed),
                       _values(data, "output", model.graph.output),
                       sorted({node.op_type for node in model.graph.node}))
