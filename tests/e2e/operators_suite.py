"""Operators newer than Debian's ONNX, and Microsoft's own, compared with ONNX Runtime at odd sizes.

Operators that ONNX Runtime does not run are compared with NumPy: operator_references.py.
"""

import functools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e import estimator_cases
from e2e import operator_references as references
from oracle.oracle import difference

TOLERANCE = 1e-4  # of the output's largest magnitude; quantized results may differ by one step at rounding ties
MICROSOFT = "com.microsoft"
TYPES = {np.dtype(name): kind for name, kind in (("f4", 1), ("u1", 2), ("i1", 3), ("i4", 6), ("i8", 7), ("?", 9),
                                                 ("f2", 10), ("f8", 11), ("u4", 12))}
random = np.random.default_rng(20261)


def floats(*shape, low=-1.0, high=1.0):
    return random.uniform(low, high, shape).astype(np.float32)


def integers(low, high, shape, dtype=np.int64):
    return random.integers(low, high, shape).astype(dtype)


class Case:
    """A graph with its inputs and NumPy's results (`wanted`), or None for ONNX Runtime's."""

    def __init__(self, nodes, inputs, opset=22, outputs=("y",), constants=None, wanted=None, steps=0, domain_version=1):
        self.domain_version = domain_version
        self.nodes, self.inputs, self.opset, self.outputs = nodes, inputs, opset, outputs
        self.constants, self.wanted, self.steps = constants or {}, wanted, steps

    def save(self, path):
        def info(name, array):
            return helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape)
        initializers = [value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
                        for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "operators", [info(name, array) for name, array in self.inputs.items()],
                                  [onnx.ValueInfoProto(name=name) for name in self.outputs], initializers)
        domains = {node.domain for node in self.nodes if node.domain}
        imports = [helper.make_opsetid("", self.opset)] + [
            helper.make_opsetid(domain, self.domain_version) for domain in sorted(domains)]
        path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())
        return path


def one(op, inputs, outputs=("y",), opset=22, constants=None, wanted=None, steps=0, domain="", absent=(),
        domain_version=1, **attributes):
    """A case of one node. `absent`: positions of omitted inputs."""
    names = [*inputs, *(constants or {})]
    for position in absent:
        names.insert(position, "")
    return Case([helper.make_node(op, names, list(outputs), domain=domain, **attributes)], inputs, opset,
                [name for name in outputs if name], constants, wanted, steps, domain_version)


def microsoft(op, inputs, **more):
    return one(op, inputs, domain=MICROSOFT, **more)


def attention_cases():
    def qkv(batch, heads, groups, rows, keys, size, value_size=None):
        return {"q": floats(batch, heads, rows, size), "k": floats(batch, groups, keys, size),
                "v": floats(batch, groups, keys, value_size or size)}
    yield "attention", one("Attention", qkv(2, 3, 3, 5, 7, 4), opset=23)
    yield "attention of one", one("Attention", qkv(1, 1, 1, 1, 1, 1), opset=23)
    yield "attention causal, grouped", one("Attention", qkv(1, 6, 2, 5, 5, 3, 7), opset=23, is_causal=1, scale=0.3)
    yield "attention softcap", one("Attention", qkv(2, 2, 1, 3, 4, 5), opset=23, softcap=0.7)
    packed = {"q": floats(2, 5, 12), "k": floats(2, 7, 4), "v": floats(2, 7, 3)}
    yield "attention packed", one("Attention", packed, opset=23, q_num_heads=3, kv_num_heads=1)
    yield "attention float mask", one("Attention", {**qkv(2, 2, 2, 3, 5, 4), "mask": floats(2, 1, 3, 5)}, opset=23)
    mask = random.uniform(size=(3, 5)) < 0.6
    mask[:, 0] = True
    yield "attention bool mask", one("Attention", {**qkv(2, 2, 2, 3, 5, 4), "mask": mask}, opset=23)
    past = {**qkv(1, 2, 2, 3, 3, 4), "pk": floats(1, 2, 4, 4), "pv": floats(1, 2, 4, 4)}
    yield "attention past", one("Attention", past, opset=23, absent=(3,), is_causal=1, outputs=("y", "nk", "nv"))
    yield "attention nothing allowed", one("Attention", {**qkv(1, 1, 1, 2, 3, 4), "mask": np.zeros((2, 3), bool)},
                                           opset=23, wanted=lambda q, **_: {"y": np.zeros_like(q)})
    window = qkv(1, 2, 2, 6, 6, 3)
    yield "attention window", one("Attention", window, opset=25, left_window_size=2, right_window_size=1,
                                  wanted=references.windowed_attention)
    rotary = {"x": floats(2, 3, 5, 8), "c": floats(7, 4), "s": floats(7, 4), "p": integers(0, 7, (2, 5))}
    yield "rotary", one("RotaryEmbedding", rotary, opset=23)
    yield "rotary interleaved", one("RotaryEmbedding", {"x": floats(1, 3, 12), "c": floats(1, 3, 3), "s": floats(1, 3, 3)},
                                    opset=23, interleaved=1, num_heads=2)
    yield "rotary partial", one("RotaryEmbedding", {**rotary, "c": floats(7, 2), "s": floats(7, 2)}, opset=23,
                                rotary_embedding_dim=4)
    state = {"q": floats(2, 3, 8), "k": floats(2, 3, 4), "v": floats(2, 3, 10), "s": floats(2, 2, 2, 5),
             "d": floats(2, 3, 4, low=-2, high=0), "b": floats(2, 3, 2, low=0)}
    for rule in ("linear", "gated", "delta", "gated_delta"):
        given = {name: array for name, array in state.items()
                 if (name != "d" or "gated" in rule) and (name != "b" or "delta" in rule)}
        yield f"linear attention {rule}", one(
            "LinearAttention", given, opset=27, outputs=("y", "t"), q_num_heads=4, kv_num_heads=2, update_rule=rule,
            absent=(4,) if rule == "delta" else (), wanted=lambda rule=rule, **a: references.linear_attention(rule, 4, 2, **a))
    convolved = {"x": floats(2, 3, 5), "w": floats(3, 1, 4), "b": floats(3), "p": floats(2, 3, 3)}
    yield "causal convolution", one("CausalConvWithState", convolved, opset=27, outputs=("y", "t"), activation="silu",
                                    wanted=references.causal_convolution)


def flex_attention_cases():
    """Scores and weights changed by subgraphs: a soft cap with a bias from the outer graph, half of the weights."""
    def body(name, nodes, result):
        info = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in (f"{name} in", result)]
        return helper.make_graph(nodes, name, info[:1], info[1:])
    scores = body("s", [helper.make_node("Tanh", ["s in"], ["s bent"]), helper.make_node("Add", ["s bent", "bias"], ["s out"])],
                  "s out")
    weights = body("w", [helper.make_node("Mul", ["w in", "half"], ["w out"])], "w out")
    qkv = {"q": floats(2, 6, 5, 3), "k": floats(2, 2, 7, 3), "v": floats(2, 2, 7, 4)}
    constants = {"bias": floats(5, 7), "half": np.array(0.5, np.float32)}

    def wanted(q, k, v, score=lambda s: s, weight=lambda w: w):
        s = score(q @ np.repeat(k, 3, 1).transpose(0, 1, 3, 2) / np.sqrt(np.float32(3)))
        powers = np.exp(s - s.max(-1, keepdims=True))
        return {"y": weight(powers / powers.sum(-1, keepdims=True)) @ np.repeat(v, 3, 1)}
    node = {"domain": "ai.onnx.preview"}
    yield "flex attention", Case([helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], **node)], qkv, 26, wanted=wanted)
    yield "flex attention with changes", Case(
        [helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], score_mod=scores, prob_mod=weights, **node)], qkv, 26,
        constants=constants,
        wanted=lambda q, k, v: wanted(q, k, v, lambda s: np.tanh(s) + constants["bias"], lambda w: w / 2))


def many_pixels():
    """A channel's 360,000 pixels are far apart after a convolution. Summed sequentially, the error of their mean
    exceeded the tolerance of their deviation."""
    weights, far = floats(16, 3, 1, 1), np.linspace(50, 150, 16, dtype="f4")

    def wanted(x):
        y = np.einsum("nchw,kc->nkhw", x.astype("f8"), weights[..., 0, 0].astype("f8")) + far.reshape(1, -1, 1, 1)
        return {"y": (y - y.mean((2, 3), keepdims=True)) / np.sqrt(y.var((2, 3), keepdims=True) + 1e-5)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("InstanceNormalization", ["c", "s", "z"], ["y"])]
    return Case(nodes, {"x": floats(1, 3, 600, 600)}, wanted=wanted, constants={
        "w": weights, "b": far, "s": np.ones(16, "f4"), "z": np.zeros(16, "f4")})


def normalization_cases():
    yield "rms", one("RMSNormalization", {"x": floats(2, 3, 5), "w": floats(5)}, opset=23)
    yield "rms from axis 1", one("RMSNormalization", {"x": floats(2, 3, 5), "w": floats(3, 5)}, opset=23, axis=1, epsilon=0.1)
    for opset, size in ((18, 2), (21, 6)):
        yield f"group normalization {opset}", one(
            "GroupNormalization", {"x": floats(2, 6, 3, 5), "w": floats(size), "b": floats(size)}, opset=opset, num_groups=2)
    yield "instance normalization of many pixels", many_pixels()
    skip = {"x": floats(2, 3, 7), "s": floats(2, 3, 7), "w": floats(7), "b": floats(7), "c": floats(7)}
    yield "skip layer normalization", microsoft("SkipLayerNormalization", skip, outputs=("y", "", "", "sum"))
    simplified = {name: array for name, array in skip.items() if name != "b"}
    yield "skip simplified", microsoft("SkipSimplifiedLayerNormalization", simplified, outputs=("y", "", "", "sum"))
    for types in ((np.float16, np.float32), (np.float32, np.float16)):
        x, w, b = (floats(3, 8).astype(types[0]), *(floats(8).astype(types[1]) for _ in "wb"))
        yield f"layer normalization of {x.dtype} scaled by {w.dtype}", one(
            "LayerNormalization", {"x": x, "w": w, "b": b}, opset=16)
    half = {"x": floats(3, 8).astype("f2"), "w": floats(8).astype("f2")}
    yield "layer normalization that keeps no type", one("LayerNormalization", half, opset=17, stash_type=0)
    yield "simplified", one("SimplifiedLayerNormalization", {"x": floats(3, 5), "w": floats(5)}, opset=17)
    embedded = {"i": integers(0, 11, (2, 5), np.int32), "g": integers(0, 2, (2, 5), np.int32), "w": floats(11, 6),
                "p": floats(9, 6), "t": floats(2, 6), "a": floats(6), "b": floats(6),
                "m": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)}
    yield "embedding", microsoft("EmbedLayerNormalization", embedded, outputs=("y", "m2"), epsilon=1e-5)


def image_cases():
    image = {"x": floats(1, 2, 7, 9)}
    for mode in ("linear", "cubic"):
        for name, sizes in (("half", (1, 2, 3, 4)), ("far", (1, 2, 2, 1)), ("larger", (1, 2, 9, 5))):
            yield f"antialiased {mode} {name}", one("Resize", image, opset=18, absent=(1, 1), mode=mode, antialias=1,
                                                    constants={"sizes": np.array(sizes, np.int64)})
    # 1.7 * 7 is no integer: corners stay corners.
    for mode in ("linear", "cubic", "nearest"):
        yield f"corners {mode}", one("Resize", image, opset=17, absent=(1,), mode=mode,
                                     coordinate_transformation_mode="align_corners",
                                     constants={"scales": np.array((1, 1, 1.7, 0.6), np.float32)})
    for p in (1, 2, 3):
        yield f"global pool of norm {p}", one("GlobalLpPool", {"x": floats(2, 3, 5, 7)}, opset=13, p=p)
    for policy in ("not_larger", "not_smaller"):
        yield f"aspect ratio {policy}", one("Resize", image, opset=18, absent=(1, 1), mode="linear", axes=[2, 3],
                                            keep_aspect_ratio_policy=policy,
                                            constants={"sizes": np.array([5, 4], np.int64)})
    for mode in ("linear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                yield f"grid sample 3d {mode} {padding} {corners}", one(
                    "GridSample", {"x": floats(2, 2, 3, 4, 5), "g": floats(2, 2, 3, 2, 3, low=-1.4, high=1.4)}, opset=20,
                    mode=mode, padding_mode=padding, align_corners=corners)
    # Kernel 3x2 over 7x5, with two groups, two offset groups and a mask; then one tap outside of the image.
    moved = {"x": floats(2, 4, 7, 5), "w": floats(6, 2, 3, 2), "o": floats(2, 24, 4, 6, low=-3, high=3), "b": floats(6),
             "m": floats(2, 12, 4, 6)}
    yield "deformable convolution", one("DeformConv", moved, opset=19, group=2, offset_group=2, strides=[2, 1],
                                        pads=[1, 1, 1, 1], kernel_shape=[3, 2])
    yield "deformable convolution dilated", one(
        "DeformConv", {"x": floats(1, 3, 7, 7), "w": floats(1, 3, 3, 3), "o": floats(1, 18, 3, 3)}, opset=22, dilations=[2, 2])
    yield "deformable convolution of one", one(
        "DeformConv", {"x": floats(1, 1, 1, 1), "w": floats(1, 1, 1, 1), "o": floats(1, 2, 1, 1, low=-2, high=2)}, opset=19)
    yield "center crop pad", one("CenterCropPad", {"x": floats(7, 4, 3)}, opset=18,
                                 constants={"s": np.array([4, 7, 3], np.int64)})
    yield "center crop pad axes", one("CenterCropPad", {"x": floats(7, 4, 3)}, opset=18, axes=[2, -3],
                                      constants={"s": np.array([5, 2], np.int64)})
    shapes = {"i": np.array([5, 7], np.int64), "b": np.array([2, 3], np.int64)}
    yield "col2im", one("Col2Im", {"x": floats(2, 18, 20)}, opset=18, constants=shapes)
    yield "col2im strides", one("Col2Im", {"x": floats(1, 6, 9)}, opset=18, constants=shapes, strides=[2, 2],
                                pads=[1, 0, 1, 1])
    yield "col2im dilations", one("Col2Im", {"x": floats(1, 12, 9)}, opset=18, constants=shapes, dilations=[2, 2])
    for corners in (0, 1):
        for size in ((2, 3, 4, 5), (2, 1, 3, 2, 4)):
            theta = floats(2, len(size) - 2, len(size) - 1)
            yield f"affine grid {size} {corners}", one("AffineGrid", {"t": theta}, opset=20, align_corners=corners,
                                                       constants={"s": np.array(size, np.int64)})


def reduction_cases():
    """Without axes nothing is summed, but each element is still squared, or its absolute value or logarithm taken."""
    kinds = "Sum Mean Max Min Prod L1 L2 SumSquare LogSum LogSumExp".split()
    part = {"L1": np.abs, "L2": np.abs, "SumSquare": np.square, "LogSum": np.log}
    for given in ([], ["none"]):
        nodes = [helper.make_node(f"Reduce{kind}", ["p" if kind == "LogSum" else "x", *given], [kind], noop_with_empty_axes=1)
                 for kind in kinds]
        yield f"reductions over {'an empty list' if given else 'no axes'}", Case(
            nodes, {"x": floats(3, 7, low=-4, high=4), "p": floats(3, 7, low=0.1, high=4)}, opset=18, outputs=kinds,
            constants={"none": np.zeros(0, np.int64)} if given else None,
            wanted=lambda x, p: {kind: part.get(kind, lambda v: v)(p if kind == "LogSum" else x) for kind in kinds})


def padding_cases():
    """The second example of the Pad operator, far reflections like numpy.pad, and a computed pad value."""
    page = np.array([[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]], "f4")
    yield "pad reflect of the standard's page", one(
        "Pad", {"x": page}, opset=18, mode="reflect", constants={"p": np.array([0, 2, 0, 0])},
        wanted=lambda x: {"y": np.array([[1.0, 1.2, 1.0, 1.2], [2.3, 3.4, 2.3, 3.4], [4.5, 5.7, 4.5, 5.7]], "f4")})
    far = {"p": np.array([2, 3, 4, 0, 17, 9])}
    yield "pad reflect far", one("Pad", {"x": floats(1, 8, 5)}, opset=19, mode="reflect", constants=far,
                                 wanted=lambda x: {"y": np.pad(x, [(2, 0), (3, 17), (4, 9)], "reflect")})

    def wrapped(x):  # NumPy before 1.25 and ONNX Runtime 1.30 return other elements beyond one length
        for axis, (low, high) in enumerate(((2, 0), (3, 17), (4, 9))):
            x = np.take(x, np.arange(-low, x.shape[axis] + high), axis, mode="wrap")
        return {"y": x}
    yield "pad wrap far", one("Pad", {"x": floats(1, 8, 5)}, opset=19, mode="wrap", constants=far, wanted=wrapped)
    for pads in ((1, 0, 0, 2), (-1, 3, 0, 0)):
        yield f"pad with a computed value {pads}", Case(
            [helper.make_node("ReduceMin", ["x"], ["m"], keepdims=0), helper.make_node("Pad", ["x", "p", "m"], ["y"])],
            {"x": floats(3, 17)}, opset=18, constants={"p": np.array(pads)})


def integer_image_cases():
    """Interpolation between integers: truncated, with antialias rounded after each dimension."""
    for dtype, low, high in ((np.uint8, 0, 256), (np.int8, -128, 128), (np.int32, -1000, 1000)):
        for name, of, to in (("larger", (1, 2, 5, 7), (1, 2, 10, 28)), ("mixed", (1, 1, 7, 9), (1, 1, 13, 5)), ("volume", (1, 1, 4, 5, 6), (1, 1, 5, 9, 4))):
            # ONNX Runtime's f32 result may be slightly below an exact integer, and truncates to the one before.
            yield f"linear {name} of {np.dtype(dtype)}", one(
                "Resize", {"x": integers(low, high, of, dtype)}, opset=19, absent=(1, 1), mode="linear",
                constants={"s": np.array(to)}, steps=0 if name == "larger" else 1)
    for mode in ("linear", "cubic"):
        for to in ((1, 2, 3, 4), (1, 2, 9, 5), (1, 2, 11, 13)):
            yield f"antialiased {mode} of bytes {to}", one(
                "Resize", {"x": integers(0, 256, (1, 2, 7, 9), np.uint8)}, opset=19, absent=(1, 1), mode=mode, antialias=1,
                constants={"s": np.array(to)}, steps=1)


def region_cases():
    """RoiAlign with as many samples as a bin has elements: small, large, empty and outside regions."""
    rois = np.array([[0, 0, 5, 5], [1.5, 2.25, 4.75, 3.1], [-2, -3, 3, 2], [5, 4, 12, 9], [2, 2, 2.2, 2.1], [3, 3, 1, 1],
                     [-40, -30, 60, 50], [20, 20, 30, 30], [2, 2, 2, 2]], "f4")
    for mode in ("avg", "max"):
        for transformation in ("half_pixel", "output_half_pixel"):
            yield f"adaptive RoiAlign {mode} {transformation}", one(
                "RoiAlign", {"x": floats(2, 3, 6, 7), "r": rois, "i": np.array([0, 1, 1, 0, 1, 0, 1, 0, 0])}, opset=16,
                mode=mode, output_height=3, output_width=2, spatial_scale=0.9, coordinate_transformation_mode=transformation)
    yield "adaptive RoiAlign of one", one("RoiAlign", {"x": floats(1, 1, 5, 5), "r": rois[:1], "i": np.array([0])}, opset=16)


def loop_cases():
    """No iteration: the initial state, and zero rows with the length of an iteration's rows."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["s", "x"], ["t"]),
         helper.make_node("Concat", ["t", "x"], ["r"], axis=0)], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []), helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 3]),
         helper.make_tensor_value_info("r", TensorProto.FLOAT, [4, 3])])
    listed = helper.make_graph(  # some exporters write iteration counts and conditions as lists of one element
        [helper.make_node("Cast", ["i"], ["r"], to=TensorProto.FLOAT), helper.make_node("Identity", ["c"], ["d"]),
         helper.make_node("Add", ["s", "r"], ["t"])], "listed",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [1]), helper.make_tensor_value_info("c", TensorProto.BOOL, [1]),
         helper.make_tensor_value_info("s", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, [1]), helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 3]),
         helper.make_tensor_value_info("r", TensorProto.FLOAT, [1])])
    yield "iterations in lists", Case(
        [helper.make_node("Loop", ["m", "go", "x"], ["y", "r"], body=listed)], {"x": floats(2, 3)}, outputs=("y", "r"),
        constants={"m": np.array([4], np.int64), "go": np.array([True])})
    for trips, goes in ((0, True), (5, False)):
        yield f"no iteration of {trips}", Case(
            [helper.make_node("Loop", ["m", "go", "x"], ["y", "r"], body=body)], {"x": floats(2, 3)}, outputs=("y", "r"),
            constants={"m": np.array(trips, np.int64), "go": np.array(goes)},
            wanted=lambda x: {"y": x, "r": np.zeros((0, 4, 3), "f4")})


def dropped_cases():
    yield "squeeze of an empty list", one("Squeeze", {"x": floats(3, 1, 5, 1)}, opset=13,
                                          constants={"a": np.zeros(0, np.int64)})


def triangle_cases():
    """The number of the diagonal depends on data."""
    for upper in (0, 1):
        for k in (-9, -1, 0, 2, 9):
            yield f"Trilu {upper} from {k}", one("Trilu", {"x": floats(2, 4, 5), "k": np.array(k)}, opset=14, upper=upper)


def old_cases():
    """Operators that converters of CoreML and Windows ML write: in no released operator set, or in other versions of it."""
    image = lambda: {"x": floats(2, 3, 5, 6, low=-2, high=2)}  # noqa: E731
    yield "Affine", one("Affine", image(), opset=7, alpha=2.0, beta=0.5)
    yield "Affine as it is", one("Affine", image(), opset=7)
    yield "Scale", one("Scale", image(), opset=7, scale=0.3)
    yield "ImageScaler", one("ImageScaler", image(), opset=7, scale=2.0, bias=[0.1, 0.2, -0.3])
    yield "ScaledTanh", one("ScaledTanh", image(), opset=7, alpha=2.0, beta=0.5)
    yield "ParametricSoftplus", one("ParametricSoftplus", image(), opset=7, alpha=2.0, beta=0.5)
    for opset in (1, 7, 9):
        yield f"ThresholdedRelu {opset}", one("ThresholdedRelu", image(), opset=opset, alpha=0.5)
    for across, normalizes in ((0, 0), (0, 1), (1, 0), (1, 1)):
        yield f"MeanVarianceNormalization {across} {normalizes}", one(
            "MeanVarianceNormalization", image(), opset=8, across_channels=across, normalize_variance=normalizes)
    yield "MeanVarianceNormalization by default", one("MeanVarianceNormalization", image(), opset=7)
    yield "Crop", one("Crop", image(), opset=7, border=[1, 2, 3, 1])
    yield "Crop to a size", one("Crop", image(), opset=7, border=[1, 2, 2, 2], scale=[2, 3])
    bounds = {"s": np.array([1, -3]), "e": np.array([4, 100])}
    yield "DynamicSlice", one("DynamicSlice", image(), opset=7, constants=bounds)
    yield "DynamicSlice of axes", one("DynamicSlice", image(), opset=7, constants={**bounds, "a": np.array([3, 2])})


def signal_cases():
    for name in ("Hann", "Hamming", "Blackman"):
        for periodic in (0, 1):
            window = helper.make_node(f"{name}Window", ["n"], ["w"], periodic=periodic)
            yield f"{name} {periodic}", Case([window, helper.make_node("Mul", ["w", "x"], ["y"])], {"x": floats(13)},
                                             constants={"n": np.array(13, np.int64)})
    for length in (1, 2, 7, 8):
        spectrum = {"x": floats(2, length // 2 + 1, 2)}
        yield f"inverse of one side {length}", one(
            "DFT", spectrum, opset=20, inverse=1, onesided=1, constants={"n": np.array(length, np.int64)},
            wanted=lambda x, length=length: {"y": np.fft.irfft(x[..., 0] + 1j * x[..., 1], length)[..., None].astype("f4")})
    # Stages of small radices, including a prime; a chirp; a matrix.
    def spectrum(x, axis, onesided, inverse, length):
        z = x[..., 0].astype("f8") + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
        y = np.fft.rfft(z.real, length, axis) if onesided else (np.fft.ifft if inverse else np.fft.fft)(z, length, axis)
        return {"y": np.stack([y.real, y.imag], axis=-1)}
    for shape, length, inverse, onesided in (((3, 4096, 1), 4096, 0, 1), ((2, 4096, 2), 4096, 1, 0), ((1, 4099, 2), 4099, 0, 0),
                                             ((2, 1009, 1), 1009, 0, 1), ((3, 400, 1), 400, 0, 0), ((1, 65536, 2), 65536, 0, 0),
                                             ((2, 5000, 1), 6000, 0, 1), ((2, 300, 3, 2), 251, 1, 0)):
        more = {name: 1 for name, value in (("inverse", inverse), ("onesided", onesided)) if value}
        yield f"spectrum of {shape} to {length} {' '.join(more)}", one(
            "DFT", {"x": floats(*shape)}, opset=20, constants={"n": np.array(length), "a": np.array(1)}, **more,
            wanted=lambda x, f=functools.partial(spectrum, axis=1, onesided=onesided, inverse=inverse, length=length): f(x))
    yield "frames of 4096", one("STFT", {"x": floats(1, 3 * 4096, 1)},
                                constants={"step": np.array(1000, np.int64), "w": floats(4096)})
    yield "stft", one("STFT", {"x": floats(2, 61, 1)}, constants={"step": np.array(7, np.int64), "w": floats(13)})


def element_cases():
    yield "swish", one("Swish", {"x": floats(3, 5, low=-4, high=4)}, opset=24, alpha=1.5,
                       wanted=lambda x: {"y": x / (1 + np.exp(-1.5 * x))})
    for op in ("Gelu", "QuickGelu"):
        yield op, microsoft(op, {"x": floats(3, 7, low=-4, high=4)})
    yield "bias gelu", microsoft("BiasGelu", {"x": floats(3, 7, low=-4, high=4), "b": floats(7)})
    yield "fast gelu", microsoft("FastGelu", {"x": floats(3, 7, low=-4, high=4), "b": floats(7)})
    for exclusive in (0, 1):
        for reverse in (0, 1):
            yield f"cumulative product {exclusive} {reverse}", one(
                "CumProd", {"x": floats(3, 5)}, opset=26, exclusive=exclusive, reverse=reverse,
                constants={"a": np.array(1, np.int64)},
                wanted=lambda x, e=exclusive, r=reverse: {"y": references.cumulative_product(x, e, r)})
    yield "bitcast", one("BitCast", {"x": floats(3, 5)}, opset=26, to=TensorProto.INT32,
                         wanted=lambda x: {"y": x.view(np.int32)})
    for mode in ("linear", "circular"):
        yield f"tensor scatter {mode}", one(
            "TensorScatter", {"c": floats(2, 3, 5, 2), "u": floats(2, 3, 2, 2), "w": np.array([3, 4 if mode[0] == "c" else 0])},
            opset=24, mode=mode, wanted=references.tensor_scatter)
    yield "fused matmul", microsoft("FusedMatMul", {"a": floats(2, 5, 3), "b": floats(2, 7, 5)}, alpha=0.5, transA=1, transB=1)
    yield "fused convolution", microsoft(
        "FusedConv", {"x": floats(1, 3, 7, 5), "w": floats(4, 3, 3, 3), "b": floats(4)}, activation="LeakyRelu",
        activation_params=[0.1], pads=[1, 1, 1, 1])
    yield "convolution with an empty auto_pad", one(  # as in some files of ONNX Runtime and nGraph
        "Conv", {"x": floats(1, 3, 7, 5), "w": floats(4, 3, 3, 3)}, auto_pad="", pads=[1, 0, 1, 1], strides=[2, 1])
    yield "fused gemm", microsoft("FusedGemm", {"a": floats(5, 3), "b": floats(7, 5), "c": floats(7)}, activation="LeakyRelu",
                                  activation_alpha=0.2, alpha=0.5, beta=2.0, transA=1, transB=1)


def microsoft_attention_cases():
    for name, more in (("plain", {}), ("causal", {"unidirectional": 1})):
        yield f"microsoft attention {name}", microsoft(
            "Attention", {"x": floats(2, 5, 6), "w": floats(6, 36), "b": floats(36)}, num_heads=3, **more)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    yield "microsoft attention mask", microsoft(
        "Attention", {"x": floats(2, 5, 6), "w": floats(6, 36), "b": floats(36), "m": mask}, num_heads=3)
    bounds = np.array([4, 5, 1, 0], np.int32)  # ends, then starts
    yield "microsoft attention padded on both sides", microsoft(
        "Attention", {"x": floats(2, 5, 6), "w": floats(6, 36), "b": floats(36), "m": bounds}, num_heads=3,
        rotary_embedding_dim=32)
    yield "multi-head attention", microsoft(
        "MultiHeadAttention", {"q": floats(2, 5, 12), "k": floats(2, 7, 12), "v": floats(2, 7, 9), "b": floats(33)},
        num_heads=3)
    yield "multi-head attention mask", microsoft(
        "MultiHeadAttention", {"q": floats(2, 3, 4), "k": floats(2, 5, 4), "v": floats(2, 5, 4), "m": mask}, num_heads=2,
        absent=(3,))


def grouped_query_cases():
    """GroupQueryAttention: prompts, steps after a growing past or a past in a buffer of fixed length, several tokens
    after a past. Head sizes are multiples of 16, which ONNX Runtime requires for rotary embeddings."""
    def case(name, batch, tokens, past, total, lengths=None, heads=4, groups=2, size=16, packed=False, rotary=True,
             half=8, bias=False, sink=False, outputs=("y", "nk", "nv"), **attributes):
        sizes = (heads * size, groups * size, groups * size)
        inputs = ({"q": floats(batch, tokens, sum(sizes))} if packed else
                  {part: floats(batch, tokens, width) for part, width in zip("qkv", sizes)})
        names = ["q", "", ""] if packed else list("qkv")
        names += ["pk", "pv"] if past else ["", ""]
        if past:
            inputs.update({part: floats(batch, groups, past, size) for part in ("pk", "pv")})
        inputs["l"] = np.array(lengths or [total] * batch, np.int32) - 1
        constants = {"t": np.array(total, np.int32)}
        names += ["l", "t"]
        if rotary:
            constants.update({table: floats(total + 3, half) for table in ("c", "s")})
        names += ["c", "s"] if rotary else ["", ""]
        names += ["", "b" if bias else "", "h" if sink else ""]
        if bias:
            inputs["b"] = floats(batch, heads, tokens, total)
        if sink:
            inputs["h"] = floats(heads)
        node = helper.make_node("GroupQueryAttention", names, list(outputs), domain=MICROSOFT, num_heads=heads,
                                kv_num_heads=groups, do_rotary=int(rotary), **attributes)
        return f"grouped query {name}", Case([node], inputs, outputs=outputs, constants=constants)
    yield case("prompt", 2, 5, 0, 5)
    yield case("prompt without rotary", 1, 7, 0, 7, rotary=False, scale=0.3)
    yield case("prompt into a buffer", 1, 3, 7, 3)
    yield case("prompt of one token", 1, 1, 0, 1)
    yield case("step", 1, 1, 4, 5)
    yield case("step of sequences of different lengths", 3, 1, 7, 7, lengths=[3, 7, 1])
    yield case("step in a buffer", 2, 1, 9, 5, lengths=[5, 2])
    yield case("step packed", 2, 1, 4, 5, packed=True)
    yield case("step interleaved", 1, 1, 4, 5, rotary_interleaved=1)
    yield case("step partly rotated", 1, 1, 4, 5, size=32, half=8)
    yield case("several tokens after a past", 1, 3, 4, 7)
    yield case("one group", 1, 1, 6, 7, heads=3, groups=1)
    yield case("as many groups as heads", 1, 4, 0, 4, heads=3, groups=3)
    yield case("window", 1, 6, 0, 6, local_window_size=3)
    yield case("window of a step", 1, 1, 6, 7, local_window_size=3)
    yield case("softcap", 1, 1, 6, 7, softcap=0.7)
    yield case("smooth softmax", 2, 1, 6, 7, smooth_softmax=1)
    yield case("sink", 1, 5, 0, 5, sink=True)
    yield case("bias", 1, 5, 0, 5, bias=True)
    yield case("bias of a step", 1, 1, 4, 5, bias=True)
    yield case("without a causal mask", 2, 4, 0, 4, rotary=False, causal=0)
    # Without rotary embedding: ONNX Runtime gives the padding after a sequence another position, which is irrelevant
    # then.
    yield case("without a causal mask, of sequences of different lengths", 2, 5, 0, 5, lengths=[5, 2], rotary=False, causal=0)
    yield case("without a causal mask, several tokens after a past", 1, 3, 4, 7, causal=0)


def block_quantized_cases():
    def packed(codes, bits):
        per = 8 // bits
        codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % per)])
        return (codes.reshape(*codes.shape[:-1], -1, per) << (np.arange(per) * bits)).sum(-1).astype(np.uint8)

    def product(name, rows, k, n, bits=4, block=16, zero=None, bias=False, groups=False):
        blocks = -(-k // block)
        codes = integers(0, 2 ** bits, (n, blocks, block))
        constants = {"b": packed(codes, bits), "s": floats(n, blocks, low=0.02, high=0.1)}
        names = ["a", "b", "s", "", "", ""]
        if zero == "packed":
            constants["z"] = packed(integers(0, 2 ** bits, (n, blocks)), bits)
        elif zero == "float":
            constants["z"] = floats(n, blocks, low=0, high=2 ** bits)
        if zero:
            names[3] = "z"
        if groups:
            constants["g"], names[4] = (np.arange(k) // block).astype(np.int32), "g"
        if bias:
            constants["c"], names[5] = floats(n), "c"
        node = helper.make_node("MatMulNBits", names, ["y"], domain=MICROSOFT, K=k, N=n, bits=bits, block_size=block)
        return f"blocks {name}", Case([node], {"a": floats(*rows, k)}, constants=constants)
    yield product("one row", (1,), 64, 33)
    yield product("one row, zero points", (1, 1), 64, 33, zero="packed", bias=True)
    yield product("one row, the last block cut off", (1,), 67, 5, zero="packed")
    yield product("three rows", (1, 3), 96, 17, block=32, zero="packed")
    yield product("many rows", (2, 7), 48, 19, zero="packed", bias=True)
    yield product("many rows, the last block cut off", (13,), 131, 31, block=64)
    yield product("zero points of floating point", (5,), 64, 9, zero="float")
    yield product("groups in order", (3,), 64, 9, groups=True)
    yield product("8 bits, one row", (1,), 64, 33, bits=8, zero="packed")
    yield product("8 bits, many rows", (11,), 100, 7, bits=8, block=32)
    yield product("2 bits", (2,), 64, 9, bits=2, zero="packed")
    yield product("2 bits, many rows", (9,), 64, 9, bits=2)
    yield product("weights beyond what is folded", (1,), 512, 257, block=32, zero="packed")
    yield product("weights beyond what is folded, many rows", (6,), 512, 257, block=32, zero="packed")
    for bits in (4, 8):
        codes, zero = integers(0, 2 ** bits, (11, 48)), integers(0, 2 ** bits, (11, 3))
        node = helper.make_node("GatherBlockQuantized", ["w", "i", "s", "z"], ["y"], domain=MICROSOFT, bits=bits,
                                block_size=16, gather_axis=0, quantize_axis=1)
        yield f"blocks gathered, {bits} bits", Case(
            [node], {"i": integers(-11, 11, (2, 5))},
            constants={"w": packed(codes, bits), "s": floats(11, 3, low=0.1), "z": packed(zero, bits)})


def quantized_cases():
    def q(*shape):
        return integers(0, 256, shape, np.uint8)
    scale, zero = np.float32, np.uint8
    binary = {"as": np.array(0.02, scale), "az": np.array(120, zero)}
    for op in ("QLinearAdd", "QLinearMul"):
        inputs = {"a": q(2, 3, 5), "b": q(3, 5)}
        constants = {**binary, "bs": np.array(0.03, scale), "bz": np.array(100, zero), "ys": np.array(0.05, scale),
                     "yz": np.array(128, zero)}
        yield op, Case([helper.make_node(op, ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"], domain=MICROSOFT)],
                       inputs, constants=constants, steps=1)
    unary = {**binary, "ys": np.array(0.01, scale), "yz": np.array(3, zero)}
    for op, shape, more in (("QLinearSigmoid", (3, 7), {}), ("QLinearLeakyRelu", (3, 7), {"alpha": 0.2}),
                            ("QLinearGlobalAveragePool", (2, 3, 5, 7), {})):
        yield op, microsoft(op, {"x": q(*shape)}, constants=unary, steps=1, **more)
    yield "QLinearConcat", Case(
        [helper.make_node("QLinearConcat", ["ys", "yz", "a", "as", "az", "b", "as", "az"], ["y"], domain=MICROSOFT, axis=1)],
        {"a": q(2, 3), "b": q(2, 5)}, constants=unary, steps=1)
    for opset in (11, 13):
        yield f"QLinearSoftmax {opset}", Case(
            [helper.make_node("QLinearSoftmax", ["x", "as", "az", "ys", "yz"], ["y"], domain=MICROSOFT, axis=1, opset=opset)],
            {"x": q(2, 3, 7)}, steps=1,
            constants={**binary, "ys": np.array(1 / 256, scale), "yz": np.array(0, zero)})
    yield "QLinearAveragePool", microsoft("QLinearAveragePool", {"x": q(2, 3, 7, 5)}, constants=unary, steps=1,
                                          kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    yield "QLinearWhere", Case(
        [helper.make_node("QLinearWhere", ["m", "a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"], domain=MICROSOFT)],
        {"m": random.uniform(size=(3, 1)) < 0.5, "a": q(2, 3, 5), "b": q(5)}, steps=1,
        constants={**unary, "bs": np.array(0.03, scale), "bz": np.array(100, zero)})
    # 7-bit weights, here and below: with larger ones ONNX Runtime's AVX2 kernels saturate sums of two products at 16
    # bits.
    for name, columns, more in (("one scale", 1, {}), ("a scale a column", 7, {"transB": 1}), ("alpha", 1, {"alpha": 0.5, "transA": 1})):
        a, b = (q(5, 3) if more.get("transA") else q(3, 5)), integers(-61, 64, (7, 5) if more.get("transB") else (5, 7), np.int8)
        for outputs in (("ys", "yz"), ("", "")):
            constants = {**binary, "b": b, "bs": floats(columns, low=0.01, high=0.02) if columns > 1 else np.array(0.02, scale),
                         "bz": np.zeros(columns, np.int8) if columns > 1 else np.array(3, np.int8),
                         "c": integers(-999, 999, 7, np.int32)}
            if outputs[0]:
                constants.update({"ys": np.array(0.1, scale), "yz": np.array(128, zero)})
            yield f"QGemm {name} {'to bytes' if outputs[0] else 'to floats'}", Case(
                [helper.make_node("QGemm", ["x", "as", "az", "b", "bs", "bz", "c", *outputs], ["y"], domain=MICROSOFT, **more)],
                {"x": a}, constants=constants, steps=1 if outputs[0] else 0)
    for direction, directions in (("forward", 1), ("bidirectional", 2)):
        def weights(rows, d=directions):
            return integers(-61, 64, (d, rows, 4 * 6), np.int8)
        yield f"DynamicQuantizeLSTM {direction}", Case(
            [helper.make_node("DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "h", "k", "", "ws", "wz", "rs", "rz"],
                              ["y", "nh", "nk"], domain=MICROSOFT, hidden_size=6, direction=direction)],
            {"x": floats(3, 1, 8), "h": floats(directions, 1, 6), "k": floats(directions, 1, 6)}, outputs=("y", "nh", "nk"),
            constants={"w": weights(8), "r": weights(6), "b": floats(directions, 48),
                       "ws": floats(directions, low=0.01, high=0.02), "wz": np.zeros(directions, np.int8),
                       "rs": floats(directions, low=0.01, high=0.02), "rz": np.zeros(directions, np.int8)})
    yield "DynamicQuantizeMatMul", microsoft(
        "DynamicQuantizeMatMul", {"a": floats(3, 8)},
        constants={"b": integers(-61, 64, (8, 5), np.int8), "s": np.array([0.02], scale), "z": np.array([3], np.int8),
                   "c": floats(5)})


def narrow_cases():
    """Storage-only types. Bytes of a constant are packed by hand, because NumPy lacks these types."""
    values = np.array([0, -0.0, 1, -1.5, 448, 500, 1e6, -3e-3, 2 ** -9, 2 ** -10, 3 * 2 ** -11, 57344, 60000, np.inf, -np.inf,
                       np.nan, 0.3, -17, 240, 250, 6, 5, 2.5, 0.25, 0.75, *floats(40, low=-8, high=8)], np.float32)
    for kind, name in references.FLOATS.items():
        for saturate in (1, 0) if kind != 23 else (1,):
            nodes = [helper.make_node("Cast", ["x"], ["n"], to=kind, **({"saturate": saturate} if kind != 23 else {})),
                     helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT)]
            yield f"{name} saturate {saturate}", Case(
                nodes, {"x": values[~np.isnan(values)] if kind == 23 else values}, opset=23,
                wanted=lambda x, kind=kind, s=saturate: {"y": references.through_float(x, kind, s)})
    # A float beyond a 4-bit integer keeps the lowest bits of its integral part.
    whole = np.array([-300, -9, -8, -1, 0, 1, 7, 8, 15, 16, 300], np.float32)
    for kind, name, wanted in ((21, "u4", whole.astype(np.int64) % 16), (22, "i4", (whole.astype(np.int64) + 8) % 16 - 8)):
        yield f"float to {name}", Case([helper.make_node("Cast", ["x"], ["n"], to=kind),
                                        helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT)], {"x": whole},
                                       opset=23, wanted=lambda x, wanted=wanted: {"y": wanted})
    for kind, bits, signed in ((21, 4, False), (22, 4, True), (25, 2, False), (26, 2, True)):
        codes = integers(0, 2 ** bits, 15)
        stored = helper.make_tensor("w", TensorProto.UINT8, [1], b"\0", raw=True)
        stored.data_type, stored.raw_data = kind, references.packed(codes, bits)
        stored.dims[:] = [3, 5]
        elements = np.where(codes >= 2 ** (bits - 1), codes - 2 ** bits, codes) if signed else codes
        scales = floats(3, 1, low=0.1)
        yield f"dequantized {'i' if signed else 'u'}{bits}", Case(
            [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1, block_size=5),
             helper.make_node("Add", ["d", "x"], ["y"])], {"x": floats(3, 5)}, opset=25,
            constants={"w": stored, "s": scales},
            wanted=lambda x, e=elements, s=scales: {"y": e.reshape(3, 5) * s + x})
    yield "blocks", Case([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1, block_size=3),
                          helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1, block_size=3)],
                         {"x": floats(2, 7)}, opset=21,
                         constants={"s": floats(2, 3, low=0.01, high=0.02), "z": integers(0, 255, (2, 3), np.uint8)})


def agrees(service, oracle, name, case):
    path = case.save(service.scratch("operator.onnx"))
    if case.wanted:
        expected = case.wanted(**case.inputs)
    else:
        session = oracle.load(path)
        expected, _ = session.run(case.inputs)
        session.close()
    artifact = service.scratch("operator.tsra")
    answer = service.cli("compile", path, "--target", "host", "--json", "-o", artifact, expect=None)
    check_equal(answer.code, 0, f"{name}: {answer.failure or answer}\nexit code of compile")
    outputs, _ = service.run(artifact, case.inputs)
    artifact.unlink()
    for output, wanted in expected.items():
        absolute, relative = difference(outputs[output], wanted.astype(outputs[output].dtype)
                                        if case.wanted else wanted)
        check(relative <= TOLERANCE or absolute <= case.steps,
              f"{output} {wanted.shape} is off by {absolute:.3g}, {relative:.3g} of its largest magnitude")


GROUPS = (attention_cases, flex_attention_cases, normalization_cases, image_cases, reduction_cases, padding_cases, integer_image_cases,
          region_cases, loop_cases, dropped_cases, triangle_cases,
          old_cases, signal_cases, element_cases, microsoft_attention_cases, grouped_query_cases, block_quantized_cases,
          quantized_cases, narrow_cases, lambda: estimator_cases.estimator_cases(one))
CASES = [pytest.param(name, case, id=name) for group in GROUPS for name, case in group()]


@pytest.mark.parametrize("name, case", CASES)
def test_operators(service, oracle, name, case):
    agrees(service, oracle, name, case)
