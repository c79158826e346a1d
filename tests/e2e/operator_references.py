"""NumPy references of operators that ONNX Runtime does not run, written from ONNX's definitions."""

import math

import numpy as np


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def windowed_attention(q, k, v, left=2, right=1):
    """Each query sees keys from `left` before to `right` after its position."""
    distance = np.arange(k.shape[2])[None, :] - np.arange(q.shape[2])[:, None]
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[3])
    scores = np.where((distance >= -left) & (distance <= right), scores, -np.inf)
    return {"y": softmax(scores) @ v}


def linear_attention(rule, q_heads, heads, q, k, v, s, d=None, b=None):
    batch, steps, width = q.shape
    size, group = width // q_heads, q_heads // heads
    state, rows = s.astype(np.float64), []
    for t in range(steps):
        key, value = k[:, t].reshape(batch, heads, size), v[:, t].reshape(batch, heads, -1)
        if "gated" in rule:
            state = state * np.exp(d[:, t].reshape(batch, heads, -1))[..., None]
        if "delta" in rule:
            value = b[:, t].reshape(batch, heads, 1) * (value - np.einsum("bhkv,bhk->bhv", state, key))
        state = state + np.einsum("bhk,bhv->bhkv", key, value)
        query = q[:, t].reshape(batch, heads, group, size) / math.sqrt(size)
        rows.append(np.einsum("bhgk,bhkv->bhgv", query, state).reshape(batch, -1))
    return {"y": np.stack(rows, axis=1), "t": state}


def causal_convolution(x, w, b, p):
    whole, taps = np.concatenate([p, x], axis=2), w.shape[2]
    y = sum(whole[:, :, i:i + x.shape[2]] * w[:, 0, i, None] for i in range(taps)) + b[:, None]
    return {"y": y / (1 + np.exp(-y)), "t": whole[:, :, whole.shape[2] - taps + 1:]}


def cumulative_product(x, exclusive, reverse):
    x = x[:, ::-1] if reverse else x
    if exclusive:
        x = np.concatenate([np.ones_like(x[:, :1]), x[:, :-1]], axis=1)
    y = np.cumprod(x, axis=1)
    return y[:, ::-1] if reverse else y


def tensor_scatter(c, u, w):
    result = c.copy()
    for batch, start in enumerate(w):
        for row in range(u.shape[2]):
            result[batch, :, (start + row) % c.shape[2]] = u[batch, :, row]
    return {"y": result}


FLOATS = {17: "f8e4m3fn", 18: "f8e4m3fnuz", 19: "f8e5m2", 20: "f8e5m2fnuz", 23: "f4e2m1"}
# Bits of exponent and mantissa, bias, codes above the largest number (infinity and NaN), whether there is an infinity.
LAYOUT = {17: (4, 3, 7, 1, False), 18: (4, 3, 8, 0, False), 19: (5, 2, 15, 4, True), 20: (5, 2, 16, 0, False),
          23: (2, 1, 1, 0, False)}


def positive_numbers(kind):
    """All numbers of a format from 0 on, by their codes."""
    exponent_bits, mantissa_bits, bias, reserved, _ = LAYOUT[kind]
    numbers = []
    for code in range(2 ** (exponent_bits + mantissa_bits) - reserved):
        exponent, mantissa = code >> mantissa_bits, code & (2 ** mantissa_bits - 1)
        fraction = mantissa / 2 ** mantissa_bits
        numbers.append((fraction if exponent == 0 else 1 + fraction) * 2.0 ** (max(exponent, 1) - bias))
    return np.array(numbers)


def through_float(x, kind, saturate):
    """x rounded to the nearest number of the format, ties to the even code."""
    numbers = positive_numbers(kind)
    infinite = LAYOUT[kind][4]
    largest = numbers[-1]
    step = numbers[-1] - numbers[-2]
    result = np.empty_like(x)
    for i, value in enumerate(x):
        size = abs(float(value))
        if np.isnan(value):
            result[i] = np.nan
            continue
        if size >= largest + step / 2 or np.isinf(size):
            nearest = largest if saturate else np.inf if infinite else np.nan
        else:
            distance = np.abs(numbers - size)
            candidates = np.flatnonzero(distance == distance.min())
            nearest = numbers[next((code for code in candidates if code % 2 == 0), candidates[0])]
        negative = np.signbit(value) and not (nearest == 0 and kind in (18, 20))
        result[i] = -nearest if negative else nearest
    return result


def packed(codes, bits):
    """Codes of less than a byte, the first in the lowest bits."""
    data = bytearray((len(codes) * bits + 7) // 8)
    for i, code in enumerate(codes):
        data[i * bits // 8] |= int(code) << (i * bits % 8)
    return bytes(data)
