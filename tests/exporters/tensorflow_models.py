"""Keras models with drawn weights, exported by tf2onnx."""

import dataclasses
import functools

import keras
import numpy as np
import tensorflow as tf


@dataclasses.dataclass
class TensorFlowExport:
    """`shapes` have None where the two sets of `inputs` differ."""
    model: object
    shapes: list
    inputs: list
    opset: int = 18

    def write(self, path):
        import tf2onnx
        names = [f"input{number}" for number in range(len(self.shapes))]
        signature = [tf.TensorSpec(shape, each.dtype, name) for name, shape, each in zip(names, self.shapes, self.inputs[0])]
        function = tf.function(lambda *given: self.model(given[0] if len(given) == 1 else list(given)), input_signature=signature)
        tf2onnx.convert.from_function(function, input_signature=signature, opset=self.opset, output_path=str(path))
        return names

    def arrays(self):
        return self.inputs

    def answers(self):
        results = [self.model(each[0] if len(each) == 1 else list(each)) for each in self.inputs]
        return [[np.asarray(each) for each in (result if isinstance(result, (tuple, list)) else [result])] for result in results]


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def tokens(batch, length):
    return np.random.default_rng(batch + length).integers(0, 101, (batch, length)).astype(np.int32)


def application(name, size=64, **more):
    keras.utils.set_random_seed(0)
    model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10, **more,
                                               classifier_activation=None)  # a softmax would hide differences
    return TensorFlowExport(model, [(None, size, size, 3)], [(drawn(2, size, size, 3),), (drawn(3, size, size, 3),)])


def recurrent(kind):
    keras.utils.set_random_seed(0)
    layer = getattr(keras.layers, kind)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(101, 16),
                              keras.layers.Bidirectional(layer(24, return_sequences=True)), layer(8), keras.layers.Dense(5)])
    return TensorFlowExport(model, [(None, None)], [(tokens(2, 7),), (tokens(3, 11),)])


def transformer():
    keras.utils.set_random_seed(0)
    given = keras.Input((None, 32))
    attended = keras.layers.MultiHeadAttention(4, 8)(given, given)
    normal = keras.layers.LayerNormalization()(attended + given)
    result = keras.layers.LayerNormalization()(keras.layers.Dense(32)(keras.layers.Dense(64, "swish")(normal)) + normal)
    return TensorFlowExport(keras.Model(given, result), [(None, None, 32)], [(drawn(2, 7, 32),), (drawn(3, 11, 32),)])


def segmentation():
    keras.utils.set_random_seed(0)
    given = keras.Input((64, 64, 3))
    down = keras.layers.Conv2D(8, 3, 2, "same", activation="relu")(given)
    low = keras.layers.SeparableConv2D(16, 3, 2, "same", activation="swish")(down)
    up = keras.layers.Conv2DTranspose(8, 3, 2, "same")(low)
    both = keras.layers.Concatenate()([up, down])
    result = keras.layers.UpSampling2D(2, interpolation="bilinear")(keras.layers.Conv2D(4, 1)(both))
    return TensorFlowExport(keras.Model(given, keras.layers.Softmax()(result)), [(None, 64, 64, 3)],
                            [(drawn(2, 64, 64, 3),), (drawn(3, 64, 64, 3),)])


MODELS = {
    "keras_mobilenet_v2": functools.partial(application, "MobileNetV2", alpha=0.35),
    "keras_mobilenet_v3": functools.partial(application, "MobileNetV3Small", alpha=0.75),
    "keras_efficientnet_v2": functools.partial(application, "EfficientNetV2B0", include_preprocessing=False),
    "keras_nasnet": functools.partial(application, "NASNetMobile"),
    "keras_lstm": functools.partial(recurrent, "LSTM"),
    "keras_gru": functools.partial(recurrent, "GRU"),
    "keras_transformer": transformer,
    "keras_segmentation": segmentation,
}
