"""Networks of PaddlePaddle with drawn weights, exported by Paddle2ONNX."""

import dataclasses
import functools

import numpy as np
import paddle
import paddle2onnx

paddle.seed(0)


@dataclasses.dataclass
class PaddleExport:
    """`shapes` have None where the two sets of `inputs` differ."""
    layer: object
    shapes: list
    inputs: list
    opset: int = 18

    def write(self, path):
        self.layer.eval()
        names = [f"input{number}" for number in range(len(self.shapes))]
        given = [paddle.static.InputSpec(list(shape), str(each.dtype), name)
                 for name, shape, each in zip(names, self.shapes, self.inputs[0])]
        stem = path.with_suffix("")
        paddle.jit.save(self.layer, str(stem), given)
        # The default optimizer installs packages while it runs.
        paddle2onnx.export(f"{stem}.json", f"{stem}.pdiparams", save_file=str(path), opset_version=self.opset,
                           optimize_tool="onnxoptimizer")
        return names

    def arrays(self):
        return self.inputs

    def answers(self):
        results = [self.layer(*map(paddle.to_tensor, each)) for each in self.inputs]
        return [[each.numpy() for each in (result if isinstance(result, (tuple, list)) else [result])] for result in results]


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def tokens(batch, length):
    return np.random.default_rng(batch + length).integers(0, 101, (batch, length))


def vision(name, **more):
    model = getattr(paddle.vision.models, name)(pretrained=False, **more)
    return PaddleExport(model, [(None, 3, None, None)], [(drawn(2, 3, 64, 64),), (drawn(3, 3, 96, 96),)])


class Recurrent(paddle.nn.Layer):
    def __init__(self, kind):
        super().__init__()
        self.embedding = paddle.nn.Embedding(101, 16)
        self.layers = getattr(paddle.nn, kind)(16, 24, num_layers=2, direction="bidirect")
        self.head = paddle.nn.Linear(48, 10)

    def forward(self, token_ids):
        return self.head(self.layers(self.embedding(token_ids))[0])


def recurrent(kind):
    return PaddleExport(Recurrent(kind), [(None, None)], [(tokens(2, 7),), (tokens(3, 11),)])


def transformer():
    layer = paddle.nn.TransformerEncoderLayer(32, 4, 64)
    return PaddleExport(paddle.nn.TransformerEncoder(layer, 2), [(None, None, 32)], [(drawn(2, 7, 32),), (drawn(3, 11, 32),)])


MODELS = {
    "paddle_resnet18": functools.partial(vision, "resnet18"),
    "paddle_mobilenet_v3": functools.partial(vision, "mobilenet_v3_small", scale=0.5),
    "paddle_mobilenet_v2": functools.partial(vision, "mobilenet_v2", scale=0.5),
    "paddle_squeezenet": functools.partial(vision, "squeezenet1_1"),
    "paddle_lstm": functools.partial(recurrent, "LSTM"),
    "paddle_gru": functools.partial(recurrent, "GRU"),
    "paddle_transformer": transformer,
}
