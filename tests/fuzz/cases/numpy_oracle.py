"""The third oracle: ONNX's text of operators in a few lines of NumPy.

It decides if the other two differ, and replaces ONNX Runtime where that is known not to follow the text."""

import dataclasses
import functools
import itertools
import math

import numpy as np
from onnx import helper

from fuzz.cases import types


def _gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    product = np.matmul(a.T if transA else a, b.T if transB else b)
    scaled = product * alpha if types.is_float(types.of(a.dtype)) else product * product.dtype.type(alpha)
    return scaled if c is None else scaled + c * (beta if types.is_float(types.of(a.dtype)) else c.dtype.type(beta))


def _matmul_integer(a, b, a_zero=None, b_zero=None):
    def wide(x, zero, axis):
        if zero is None:
            return x.astype(np.int32)
        zero = zero.astype(np.int32)
        return x.astype(np.int32) - (np.expand_dims(zero, axis) if zero.ndim == 1 and zero.size > 1 else zero)
    return np.matmul(wide(a, a_zero, -1), wide(b, b_zero, 0))


def _qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    """Over nothing: the zero point. For anything else the order of rounding decides, so there is no formula."""
    if a.shape[-1]:
        return None
    return np.broadcast_to(y_zero.reshape(()), np.matmul(a, b).shape) if y_zero.size == 1 else None


def _mod(x, y, fmod=0):
    """None for an integer divided by zero, and for floats without fmod."""
    if not types.is_float(types.of(x.dtype)) and (y == 0).any():
        return None
    return np.fmod(x, y) if fmod else None if types.is_float(types.of(x.dtype)) else np.mod(x, y)


def _cumsum(x, axis, exclusive=0, reverse=0):
    axis = int(axis)
    turned = np.flip(x, axis) if reverse else x
    summed = np.cumsum(turned, axis, dtype=x.dtype)
    if exclusive:
        summed = summed - turned
    return np.flip(summed, axis) if reverse else summed


def _slice(x, starts, ends, axes=None, steps=None):
    """Element by element, with the text's clamping. NumPy differs if a backward slice starts before the first element."""
    axes = range(len(starts)) if axes is None else axes
    for number, axis in enumerate(axes):
        extent, step = x.shape[axis], 1 if steps is None else int(steps[number])
        start, end = (int(bound[number]) + (extent if bound[number] < 0 else 0) for bound in (starts, ends))
        last = extent if step > 0 else extent - 1
        start = min(max(start, 0), last)
        end = min(max(end, 0 if step > 0 else -1), last)
        x = np.take(x, list(range(start, end, step)) if extent else [], axis)
    return x


def _lstm(x, w, r, b=None, lengths=None, h=None, c=None, p=None, hidden_size=0, direction="forward", clip=np.inf, input_forget=0,
          activations=None, activation_alpha=(), activation_beta=()):
    """Clips each activation's input, the cell's included."""
    functions = _named(activations, ["Sigmoid", "Tanh", "Tanh"], w.shape[0], activation_alpha, activation_beta)
    if functions is None:
        return None
    steps, batch, directions = x.shape[0], x.shape[1], w.shape[0]
    lengths = np.full(batch, steps) if lengths is None else lengths
    states = [np.zeros((directions, batch, hidden_size)) if state is None else state.copy() for state in (h, c)]
    y = np.zeros((steps, directions, batch, hidden_size))
    for d in range(directions):
        bias = 0 if b is None else b[d, :4 * hidden_size] + b[d, 4 * hidden_size:]
        peephole = np.zeros((3, hidden_size)) if p is None else p[d].reshape(3, hidden_size)
        of_gate, of_cell, of_output = ((lambda z, f=f: f(np.clip(z, -clip, clip))) for f in functions[3 * d:3 * d + 3])
        for n in range(batch):
            h, c = (state[d, n] for state in states)
            order = range(int(lengths[n]))
            for t in reversed(order) if direction == "reverse" or d else order:
                i, o, f, g = (w[d] @ x[t, n] + r[d] @ h + bias).reshape(4, hidden_size)
                i = of_gate(i + peephole[0] * c)
                f = 1 - i if input_forget else of_gate(f + peephole[2] * c)
                c = f * c + i * of_cell(g)
                h = of_gate(o + peephole[1] * c) * of_output(c)
                y[t, d, n] = h
            states[0][d, n], states[1][d, n] = h, c
    return y, *states


_ACTIVATIONS = {"Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0),
                "Softplus": lambda v: np.logaddexp(0, v), "Softsign": lambda v: v / (1 + np.abs(v))}  # without parameters
_WITH_PARAMETERS = {  # alpha, beta
    "Affine": ("ab", lambda a, b, v: a * v + b), "LeakyRelu": ("a", lambda a, v: np.where(v < 0, a * v, v)),
    "ThresholdedRelu": ("a", lambda a, v: np.where(v > a, v, np.where(np.isnan(v), v, 0))),
    "ScaledTanh": ("ab", lambda a, b, v: a * np.tanh(b * v)),
    "HardSigmoid": ("ab", lambda a, b, v: np.clip(a * v + b, 0, 1)),
    "Elu": ("a", lambda a, v: np.where(v < 0, a * np.expm1(v), v))}


def _recurrent(x, directions, hidden_size, lengths, h, direction, step):
    """All states, and the last ones. `step` computes one from a direction, the input's row and the previous state."""
    steps, batch = x.shape[:2]
    lengths = np.full(batch, steps) if lengths is None else lengths
    state = np.zeros((directions, batch, hidden_size)) if h is None else h.copy()
    y = np.zeros((steps, directions, batch, hidden_size))
    for d in range(directions):
        for n in range(batch):
            order = range(int(lengths[n]))
            for t in reversed(order) if direction == "reverse" or d else order:
                y[t, d, n] = state[d, n] = step(d, x[t, n], state[d, n])
    return y, state


def _named(activations, default, directions, activation_alpha=(), activation_beta=()):
    """Functions by number, which take their parameters in order; None if a function is unknown or parameters are missing."""
    named = [name.decode() for name in activations] if activations else default * directions
    parameters = {"a": iter(activation_alpha), "b": iter(activation_beta)}
    functions = []
    for name in named:
        if name in _ACTIVATIONS:
            functions.append(_ACTIVATIONS[name])
            continue
        taken, function = _WITH_PARAMETERS.get(name, (None, None))
        values = [next(parameters[each], None) for each in taken or ()]
        if not taken or None in values:
            return None
        functions.append(functools.partial(function, *values))
    return functions


def _rnn(x, w, r, b=None, lengths=None, h=None, hidden_size=0, direction="forward", clip=np.inf, activations=None,
         activation_alpha=(), activation_beta=(), layout=0):
    functions = _named(activations, ["Tanh"], w.shape[0], activation_alpha, activation_beta)
    if layout or clip != np.inf or functions is None:
        return None
    bias = np.zeros((w.shape[0], hidden_size)) if b is None else b.reshape(-1, 2, hidden_size).sum(1)
    return _recurrent(x, w.shape[0], hidden_size, lengths, h, direction,
                      lambda d, row, state: functions[d](w[d] @ row + r[d] @ state + bias[d]))


def _gru(x, w, r, b=None, lengths=None, h=None, hidden_size=0, direction="forward", linear_before_reset=0, clip=np.inf,
         activations=None, activation_alpha=(), activation_beta=(), layout=0):
    functions = _named(activations, ["Sigmoid", "Tanh"], w.shape[0], activation_alpha, activation_beta)
    if layout or clip != np.inf or functions is None:
        return None

    def step(d, row, state):
        of_input, of_state = np.zeros((2, 3, hidden_size)) if b is None else b[d].reshape(2, 3, hidden_size)
        of_gate, of_new = functions[2 * d], functions[2 * d + 1]
        z, k, g = (w[d] @ row).reshape(3, hidden_size) + of_input
        rows = r[d].reshape(3, hidden_size, hidden_size)
        z, k = (of_gate(gate + rows[i] @ state + of_state[i]) for i, gate in enumerate((z, k)))
        inner = k * (rows[2] @ state + of_state[2]) if linear_before_reset else rows[2] @ (k * state) + of_state[2]
        return (1 - z) * of_new(g + inner) + z * state

    return _recurrent(x, w.shape[0], hidden_size, lengths, h, direction, step)


def _mean_variance(x, axes=(0, 2, 3)):
    """The mean of squared deviations, which is never negative; E[X^2] - E[X]^2 can be, by rounding."""
    centered = x - x.mean(tuple(axes), keepdims=True)
    return centered / (np.sqrt((centered * centered).mean(tuple(axes), keepdims=True)) + 1e-9)


_COMBINED = {"none": lambda old, new: new, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter_elements(data, indices, updates, axis=0, reduction="none"):
    scattered = data.copy()
    for at in np.ndindex(indices.shape):
        to = (*at[:axis % data.ndim], int(indices[at]), *at[axis % data.ndim + 1:])
        scattered[to] = _COMBINED[reduction](scattered[to], updates[at])
    return scattered


def _scatter_nd(data, indices, updates, reduction="none"):
    scattered = data.copy()
    for at in np.ndindex(indices.shape[:-1]):
        to = tuple(int(index) for index in indices[at])
        scattered[to] = _COMBINED[reduction](scattered[to], updates[at])
    return scattered


def _selu(x, alpha=float(np.float32(1.6732632)), gamma=float(np.float32(1.050701))):
    return gamma * np.where(x > 0, x, alpha * np.expm1(x))


def _arg(function):
    def apply(x, axis=0, keepdims=1, select_last_index=0):
        if types.is_float(types.of(x.dtype)) and np.isnan(x).any():
            return None
        found = function(np.flip(x, axis) if select_last_index else x, axis)
        found = x.shape[axis] - 1 - found if select_last_index else found
        return np.expand_dims(found, axis) if keepdims else found
    return apply


def _reduced(function):
    def apply(x, axes=None, keepdims=1, noop_with_empty_axes=0):
        if axes is None or np.size(axes) == 0:
            if noop_with_empty_axes:
                return None
            axes = range(x.ndim)
        return function(x, tuple(int(axis) for axis in axes), bool(keepdims))
    return apply


def _dft(x, length=None, axis_input=None, axis=None, inverse=0, onesided=0):
    if axis_input is None and axis is None:  # other versions have other defaults
        return None
    axis = int(axis if axis_input is None else axis_input)
    signal = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0].astype(complex)
    axis = axis if axis >= 0 else axis + x.ndim
    length = None if length is None else int(length)
    found = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis)
    if onesided:
        found = np.take(found, range(found.shape[axis] // 2 + 1), axis)
    return np.stack([found.real, found.imag], -1)


def _instance_normalization(x, scale, bias, epsilon=1e-5):
    axes = tuple(range(2, x.ndim))
    rows = (slice(None), *[None] * len(axes))
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon) * scale[rows] + bias[rows]


def _shrink(x, bias=0.0, lambd=0.5):
    if not types.is_float(types.of(x.dtype)):
        return None
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def _gelu(x, approximate="none"):
    if approximate == "none":
        return x * (1 + np.vectorize(math.erf, otypes=["f8"])(x * math.sqrt(0.5))) / 2
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


@dataclasses.dataclass
class Windows:
    """For each tap of a kernel, in order, the elements of all windows."""
    sizes: list
    low: list
    behind: list
    taps: list

    def of(self, x, padding):
        """[elements of a tap], with x padded with `padding` in all dimensions but the first two."""
        x = np.pad(x, [(0, 0), (0, 0), *zip(self.low, self.behind)], constant_values=padding)
        return [x[(..., *tap)] for tap in self.taps]


def windows_of(extents, kernel_shape, strides=None, pads=None, dilations=None, auto_pad="NOTSET", ceil_mode=0):
    rank = len(kernel_shape)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    reach = [dilations[d] * (kernel_shape[d] - 1) + 1 for d in range(rank)]
    if auto_pad.startswith("SAME"):
        sizes = [-(-extents[d] // strides[d]) for d in range(rank)]
        missing = [max(0, (sizes[d] - 1) * strides[d] + reach[d] - extents[d]) for d in range(rank)]
        low = [each // 2 if auto_pad == "SAME_UPPER" else each - each // 2 for each in missing]
    else:
        low, high = (pads[:rank], pads[rank:]) if auto_pad == "NOTSET" else ([0] * rank, [0] * rank)
        spare = [extents[d] + low[d] + high[d] - reach[d] for d in range(rank)]
        up = ceil_mode and auto_pad == "NOTSET"
        sizes = [(-(-spare[d] // strides[d]) if up else spare[d] // strides[d]) + 1 for d in range(rank)]
        if up:  # no window begins in the trailing padding
            sizes = [sizes[d] - ((sizes[d] - 1) * strides[d] >= extents[d] + low[d]) for d in range(rank)]
    behind = [max(0, (sizes[d] - 1) * strides[d] + reach[d] - extents[d] - low[d]) for d in range(rank)]
    return Windows(sizes, low, behind, [
        tuple(slice(at[d] * dilations[d], at[d] * dilations[d] + (sizes[d] - 1) * strides[d] + 1, strides[d])
              for d in range(rank)) for at in itertools.product(*map(range, kernel_shape))])


def _max_pool(x, kernel_shape, strides=None, pads=None, dilations=None, auto_pad="NOTSET", ceil_mode=0, storage_order=0):
    """NaN is larger than any number. Among equal elements the indices mean the first in a window."""
    if not types.is_float(types.of(x.dtype)):
        return None
    windows = windows_of(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    values = np.stack(windows.of(x, -np.inf))
    numbers = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:], order="F" if storage_order else "C")
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * numbers.ndim) * numbers.size
    places = np.stack(windows.of(numbers + planes, 0))
    chosen = np.argmax(values, axis=0)[None]
    return np.take_along_axis(values, chosen, 0)[0], np.take_along_axis(places, chosen, 0)[0]


def _qlinear_conv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None, kernel_shape=None, strides=None, pads=None,
                  dilations=None, auto_pad="NOTSET", group=1):
    """Integer sums times an f32 factor, as in all implementations (results next to a rounding tie may differ by one)."""
    def of_rows(value):
        return value.reshape(-1, *[1] * (x.ndim - 2))
    windows = windows_of(x.shape[2:], w.shape[2:], strides, pads, dilations, auto_pad)
    taps = windows.of(x.astype("i8") - x_zero.astype("i8"), 0)
    weights = (w.astype("i8") - w_zero.astype("i8").reshape(-1, *[1] * (w.ndim - 1))).reshape(*w.shape[:2], -1)
    channels = w.shape[1]
    sums = [sum(np.einsum("nc...,mc->nm...", tap[:, g * channels:(g + 1) * channels], rows[:, :, t])
                for t, tap in enumerate(taps)) for g, rows in enumerate(np.split(weights, group))]
    sums = np.concatenate(sums, axis=1) + (0 if b is None else of_rows(b.astype("i8")))
    real = sums.astype("f4") * of_rows(x_scale * w_scale / y_scale * np.ones(w.shape[0], "f4"))
    limits = np.iinfo(y_zero.dtype)
    return (np.rint(real) + y_zero).clip(limits.min, limits.max).astype(y_zero.dtype)


_COORDINATES = {  # of element i of m, in a dimension of n that is scaled by s
    "half_pixel": lambda i, n, m, s: (i + 0.5) / s - 0.5,
    "pytorch_half_pixel": lambda i, n, m, s: (i + 0.5) / s - 0.5 if m > 1 else 0 * i,
    "asymmetric": lambda i, n, m, s: i / s,
    "align_corners": lambda i, n, m, s: i * (n - 1) / max(1, m - 1),
}


def _resize(x, roi=None, scales=None, sizes=None, mode="nearest", coordinate_transformation_mode="half_pixel"):
    """Linear: a neighbour without weight is ignored, whatever its value."""
    if mode != "linear" or coordinate_transformation_mode not in _COORDINATES:
        return None
    for axis, n in enumerate(x.shape):
        m = int(sizes[axis]) if sizes is not None else int(n * scales[axis])
        scale = m / n if sizes is not None else scales[axis]
        if scale == 1:
            continue
        at = _COORDINATES[coordinate_transformation_mode](np.arange(m, dtype="f8"), n, m, scale).clip(0, n - 1)
        low = np.floor(at).astype(int)
        part = (at - low).reshape(-1, *[1] * (x.ndim - axis - 1))
        left, right = x.take(low, axis), x.take(np.minimum(low + 1, n - 1), axis)
        x = np.where(part == 0, left, left * (1 - part) + right * part)
    return x


def _roi_align(x, rois, images, mode="avg", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0,
               coordinate_transformation_mode="output_half_pixel"):
    """Means of samples. A sample outside of the image is 0; a neighbour without weight is ignored, whatever its value."""
    if mode != "avg" or not sampling_ratio:
        return None
    half_pixel = coordinate_transformation_mode == "half_pixel"

    def samples(begin, end, bins, extent):
        length = end - begin if half_pixel else max(end - begin, 1)
        at = begin + (np.arange(bins * sampling_ratio) + 0.5) / sampling_ratio * length / bins
        inside, at = (at >= -1) & (at <= extent), at.clip(0, extent - 1)
        return inside, np.floor(at).astype(int), np.ceil(at).astype(int), at - np.floor(at)

    pooled = np.zeros((len(rois), x.shape[1], output_height, output_width))
    for region, corners in enumerate(rois * spatial_scale - (0.5 if half_pixel else 0)):
        in_rows, above, below, down = samples(corners[1], corners[3], output_height, x.shape[2])
        in_columns, left, right, across = samples(corners[0], corners[2], output_width, x.shape[3])
        image, down = x[images[region]], down[:, None]
        lines = np.where(down == 0, image[:, above], image[:, above] * (1 - down) + image[:, below] * down)
        sampled = np.where(across == 0, lines[..., left], lines[..., left] * (1 - across) + lines[..., right] * across)
        sampled = np.where(in_rows[:, None] & in_columns, sampled, 0)
        pooled[region] = sampled.reshape(-1, output_height, sampling_ratio, output_width, sampling_ratio).mean((2, 4))
    return pooled


# operator -> function of its inputs and attributes. None: no formula for these values.
FORMULAS = {
    "MatMul": np.matmul,
    "Gemm": _gemm,
    "MatMulInteger": _matmul_integer,
    "DFT": _dft,
    "Gelu": _gelu,
    "GlobalMaxPool": lambda x: np.max(x, tuple(range(2, x.ndim)), keepdims=True),
    "MaxPool": _max_pool,
    "InstanceNormalization": _instance_normalization,
    "Shrink": _shrink,
    "ThresholdedRelu": lambda x, alpha=1.0: np.where(x > alpha, x, 0),
    "LeakyRelu": lambda x, alpha=float(np.float32(0.01)): np.where(x < 0, x * alpha, x),
    "IsInf": lambda x, detect_negative=1, detect_positive=1:
        (x == np.inf) & bool(detect_positive) | (x == -np.inf) & bool(detect_negative),
    "Einsum": lambda *arrays, equation: np.einsum(equation, *arrays, dtype=arrays[0].dtype, casting="unsafe"),
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "CumSum": _cumsum,
    "LSTM": _lstm,
    "Slice": _slice,
    "Transpose": lambda x, perm=None: np.transpose(x, perm),
    "Concat": lambda *arrays, axis: np.concatenate(arrays, axis),
    "Where": np.where,
    "GRU": _gru,
    "RNN": _rnn,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Selu": _selu,
    "Resize": _resize,
    "RoiAlign": _roi_align,
    "MeanVarianceNormalization": _mean_variance,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "Mod": _mod,
    "ReduceSum": _reduced(lambda x, axes, keep: np.sum(x, axes, dtype=x.dtype, keepdims=keep)),
    "ReduceProd": _reduced(lambda x, axes, keep: np.prod(x, axes, dtype=x.dtype, keepdims=keep)),
    "ReduceMean": _reduced(lambda x, axes, keep: np.mean(x, axes, keepdims=keep) if types.is_float(types.of(x.dtype)) else None),
    "ReduceL1": _reduced(lambda x, axes, keep: np.sum(np.abs(x), axes, dtype=x.dtype, keepdims=keep)),
    "ReduceSumSquare": _reduced(lambda x, axes, keep: np.sum(x * x, axes, dtype=x.dtype, keepdims=keep)),
    "ReduceMax": _reduced(lambda x, axes, keep: np.max(x, axes, keepdims=keep)),
    "ReduceMin": _reduced(lambda x, axes, keep: np.min(x, axes, keepdims=keep)),
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": lambda *arrays: _folded(np.maximum, arrays),
    "Min": lambda *arrays: _folded(np.minimum, arrays), "Sum": lambda *arrays: _folded(np.add, arrays),
    "Div": lambda a, b: np.divide(a, b) if types.is_float(types.of(a.dtype)) else None,
    "Equal": np.equal, "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "BitwiseNot": np.invert,
    "Abs": np.abs, "Neg": np.negative, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign,
    "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Reciprocal": lambda x: 1 / x, "Relu": lambda x: np.maximum(x, 0),
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan,
    "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
    "Celu": lambda x, alpha=1.0: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0),
    "Elu": lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x), x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Softplus": lambda x: np.logaddexp(0, x), "IsNaN": np.isnan,
}


def _folded(function, arrays):
    result = arrays[0]
    for array in arrays[1:]:
        result = function(result, array)
    return result


def formula_result(step, values):
    """The arrays of a step of one operator on these values (name -> Value); None without a formula. Floats are computed
    in f64 and rounded once."""
    if len(step.nodes) != 1 or step.nodes[0].op_type not in FORMULAS:
        return None
    node = step.nodes[0].proto
    inputs = []
    for name in node.input:
        value = values[name] if name else None
        inputs.append(value if value is None else value.array.astype("f8") if types.is_float(value.type) else value.array)
    while inputs and inputs[-1] is None:
        inputs.pop()
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    attributes = {key: value.decode() if isinstance(value, bytes) else value for key, value in attributes.items()}
    try:
        with np.errstate(all="ignore"):
            result = FORMULAS[node.op_type](*inputs, **attributes)
    except (TypeError, ValueError, IndexError):  # an older form of the operator, or one that NumPy interprets differently
        return None
    if result is None:
        return None
    results = result if isinstance(result, tuple) else [result]
    if len(results) < len(step.outputs):
        return None
    return [types.stored(kind, array) for (_, kind), array in zip(step.outputs, results)]


def replaces_onnxruntime(step, values):
    """Whether ONNX Runtime is known to compute this wrong or less precisely (clients/docs/design/fuzzing.md).

    Wrong: products over nothing; integer sums and products that saturate; remainders, max and min of 64 bits; LSTM with
    a clip; layers with state of NaN; ArgMax and ArgMin of nothing; the maximum of NaN and numbers; the sign of a chosen
    zero. Less precise: Fourier transforms, normalizations of few elements, Gelu in f64."""
    if len(step.nodes) != 1:
        return False
    node = step.nodes[0]
    first = values[node.input[0]]
    if node.op_type in ("DFT", "InstanceNormalization"):
        return True
    if node.op_type == "Gelu":
        return first.type == "f64"
    if node.op_type in ("ReduceMax", "ReduceMin", "GlobalMaxPool", "MaxPool"):
        return types.is_float(first.type) and bool(np.isnan(first.array).any())
    if node.op_type in ("LSTM", "GRU", "RNN"):
        clipped = node.op_type == "LSTM" and any(each.name == "clip" for each in node.proto.attribute)
        return clipped or any(types.is_float(each.type) and np.isnan(each.array).any() for each in values.values())
    if node.op_type in ("Max", "Min"):
        return first.type in ("i64", "u64")
    if node.op_type == "Where":
        chosen = [values[name] for name in node.input[1:]]
        return any(types.is_float(each.type) and ((each.array == 0) & np.signbit(each.array)).any() for each in chosen)
    if node.op_type in ("ArgMax", "ArgMin"):
        return first.array.size == 0
    if node.op_type in ("Einsum", "ReduceSumSquare", "ReduceL1", "ReduceProd"):
        return not types.is_float(first.type)
    if node.op_type == "Mod":
        return first.type in ("i64", "u64") and any(each.name == "fmod" and each.i for each in node.proto.attribute)
    if node.op_type not in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"):
        return False
    turned = any(each.name == "transA" and each.i for each in node.proto.attribute)
    return first.shape[0 if turned else -1] == 0
