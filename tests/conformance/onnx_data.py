"""The ONNX project's backend tests, from Debian's libonnx-testdata or newer: each has a model, inputs and expected outputs."""

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
    contradiction: str  # the contradiction between the test's data and its model, if any

    @property
    def runnable(self):
        """False if an input or output is no dense tensor (a sequence, an optional, strings)."""
        return all(isinstance(array, np.ndarray) and array.dtype != object
                   for array in (*self.inputs.values(), *self.outputs.values()))


BFLOAT16 = 16
# Types that NumPy lacks and Debian's ONNX does not read: bits of an element, and whether it is a signed integer.
NARROW = {17: (8, False), 18: (8, False), 19: (8, False), 20: (8, False), 21: (4, False), 22: (4, True), 23: (4, False),
          24: (8, False), 25: (2, False), 26: (2, True)}


def _narrow(tensor):
    """One byte for each element, as artifacts take and return them: the bits of a float, the value of an integer."""
    bits, signed = NARROW[tensor.data_type]
    count = int(np.prod(tensor.dims, dtype=np.int64))
    data = np.frombuffer(tensor.raw_data, np.uint8) if tensor.raw_data else np.array(tensor.int32_data, np.uint8)
    codes = ((data[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & (2 ** bits - 1)).ravel()[:count].astype(np.uint8)
    if signed:
        codes = codes.astype(np.int8)
        codes[codes >= 2 ** (bits - 1)] -= 2 ** bits
    return codes.reshape(tuple(tensor.dims))


def _value(path, info):
    content = path.read_bytes()
    if info.type.WhichOneof("value") != "tensor_type":
        return None
    tensor = onnx.TensorProto.FromString(content)
    if tensor.data_type in NARROW:
        return _narrow(tensor)
    if tensor.data_type == BFLOAT16:  # its bits
        data = np.frombuffer(tensor.raw_data, np.uint16) if tensor.raw_data else np.array(tensor.int32_data, np.uint16)
        return data.reshape(tuple(tensor.dims))
    return numpy_helper.to_array(tensor)


def _values(folder, kind, infos):
    paths = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    return {info.name: _value(path, info) for path, info in zip(paths, infos)}


def _contradiction(arrays, infos):
    for info in infos:
        declared = [dim.dim_value or None for dim in info.type.tensor_type.shape.dim]
        array = arrays.get(info.name)
        if array is None or not info.type.tensor_type.HasField("shape"):
            continue
        if len(declared) != array.ndim or any(d and d != extent for d, extent in zip(declared, array.shape)):
            return f"the test's own data: {info.name} has shape {list(array.shape)}, its model declares {declared}"
    return ""


def names(root=FOLDER, groups=("node", "simple", "pytorch-operator", "pytorch-converted")):
    """The names of all tests, in order."""
    return [f"{group}/{folder.name}" for group in groups
            for folder in (sorted((root / group).iterdir()) if (root / group).is_dir() else [])
            if (folder / "test_data_set_0").is_dir()]


def load(name, root=FOLDER):
    """A test with its first data set."""
    folder = root / name
    data = folder / "test_data_set_0"
    model = onnx.load(folder / "model.onnx")
    # An initializer that is also listed as an input is a default; the tests do not feed it.
    defaults = {weight.name for weight in model.graph.initializer}
    fed = [info for info in model.graph.input if info.name not in defaults]
    inputs = _values(data, "input", fed)
    return Case(name, folder / "model.onnx", inputs, _values(data, "output", model.graph.output), _contradiction(inputs, fed))
