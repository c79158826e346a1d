"""A model of any size with external weights."""

import numpy as np
import onnx
from onnx import TensorProto, helper

MIB = 1 << 20
ROWS = 5
NOISE = 4 * MIB  # random numbers that all weights are cut from, each at a different offset


class LargeModel:
    """Residual blocks of two products: y = x + relu(x a + b) c; every other block has transposed weights.

    `path` is the model, `flags` are further arguments of `tessera compile`, `reference` is computed by NumPy.
    """

    def __init__(self, folder, megabytes, hidden=2048, inner=8192):
        self.hidden, self.inner = hidden, inner
        self.path, self.data = folder / "large.onnx", folder / "large.onnx.data"
        self.flags = ["--external-data", f"{self.data.name}={self.data}"]
        self.blocks = max(1, megabytes * MIB // (2 * 4 * hidden * inner))
        self._noise = (np.random.default_rng(7).standard_normal(NOISE) * 0.01).astype(np.float32)
        self._write()

    def inputs(self):
        return {"x": np.random.default_rng(1).standard_normal((ROWS, self.hidden)).astype(np.float32)}

    def reference(self, x):
        for block in range(self.blocks):
            weights = [self._weight(block, index, shape) for index, (_, shape) in enumerate(self._parts(block))]
            a, b, c = (weight.T if block % 2 == 1 else weight for weight in weights)
            x = x + np.maximum(x @ a + b, 0) @ c
        return x

    def _weight(self, block, part, shape):
        """Differs from block to block: equal weights would be stored once."""
        wanted, start = int(np.prod(shape)), (block * 7919 + part * 104729) % NOISE
        return np.resize(np.roll(self._noise, -start), wanted).reshape(shape) * np.float32(1 + 0.001 * block)

    def _parts(self, block):
        transposed = block % 2 == 1
        up, down = (self.hidden, self.inner), (self.inner, self.hidden)
        return [("a", up[::-1] if transposed else up), ("b", (self.inner,)), ("c", down[::-1] if transposed else down)]

    def _write(self):
        initializers, nodes, value, offset = [], [], "x", 0
        with open(self.data, "wb") as out:
            for block in range(self.blocks):
                for index, (part, shape) in enumerate(self._parts(block)):
                    tensor = TensorProto(name=f"{part}{block}", data_type=TensorProto.FLOAT, dims=shape,
                                         data_location=TensorProto.EXTERNAL)
                    content = self._weight(block, index, shape).tobytes()
                    out.write(content)
                    for key, text in (("location", self.data.name), ("offset", offset), ("length", len(content))):
                        tensor.external_data.add(key=key, value=str(text))
                    offset += len(content)
                    initializers.append(tensor)
                flag = block % 2
                up, active, down, after = (f"{key}{block}" for key in ("up", "active", "down", "y"))
                nodes += [helper.make_node("Gemm", [value, f"a{block}", f"b{block}"], [up], transB=flag),
                          helper.make_node("Relu", [up], [active]),
                          helper.make_node("Gemm", [active, f"c{block}"], [down], transB=flag),
                          helper.make_node("Add", [value, down], [after])]
                value = after
        self.bytes, self.output = offset, value
        border = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, self.hidden]) for name in ("x", value)]
        graph = helper.make_graph(nodes, "large", border[:1], border[1:], initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path)
