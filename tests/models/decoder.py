"""A text decoder as ONNX Runtime's exporters write it: Microsoft's operators, weights of 4 or 8 bits, and a state of
keys and values as inputs and outputs."""

import numpy as np
from onnx import helper

from .builder import GraphBuilder

MICROSOFT = "com.microsoft"


class Decoder:
    """Weights quantized in blocks along the reduction; `bits` for each element, the first one in the lowest bits of a byte."""

    def __init__(self, name, bits, block):
        self.graph = GraphBuilder(name)
        self.bits, self.block = bits, block

    def microsoft(self, op, *inputs, outputs=1, **attributes):
        return self.graph.op(op, *inputs, outputs=outputs, domain=MICROSOFT, **attributes)

    def _packed(self, codes):
        """Packs along the last dimension, which is padded with zeros to whole bytes."""
        per = 8 // self.bits
        codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % per)])
        parts = codes.reshape(*codes.shape[:-1], -1, per).astype(np.uint32)
        return (parts << (np.arange(per, dtype=np.uint32) * self.bits)).sum(-1).astype(np.uint8)

    def _quantized(self, rows, columns, deviation, stem, flat=False):
        """Bytes, scales and zero points of normal weights: rows x columns, quantized along the columns. `flat`: the
        bytes of a row are not split into blocks."""
        blocks = -(-columns // self.block)
        weights = self.graph.random.standard_normal((rows, blocks, self.block)).astype(np.float32) * np.float32(deviation)
        low, high = (np.minimum(weights.min(-1), 0), np.maximum(weights.max(-1), 0))
        scales = ((high - low) / (2 ** self.bits - 1)).astype(np.float32)
        zero = np.clip(np.rint(-low / scales), 0, 2 ** self.bits - 1)
        codes = np.clip(np.rint(weights / scales[..., None]) + zero[..., None], 0, 2 ** self.bits - 1)
        packed = self._packed(codes)
        return (self.graph.constant(packed.reshape(rows, -1) if flat else packed, stem, np.uint8),
                self.graph.constant(scales, f"{stem}_scales"),
                self.graph.constant(self._packed(zero), f"{stem}_zero_points", np.uint8))

    def linear(self, x, fan_in, fan_out, gain=1.0):
        bytes_, scales, zero = self._quantized(fan_out, fan_in, np.sqrt(gain / fan_in), "linear")
        return self.microsoft("MatMulNBits", x, bytes_, scales, zero, K=fan_in, N=fan_out, bits=self.bits,
                              block_size=self.block)

    def embedding(self, ids, rows, columns):
        bytes_, scales, zero = self._quantized(rows, columns, 1.0, "embedding", flat=True)
        return self.microsoft("GatherBlockQuantized", bytes_, ids, scales, zero, bits=self.bits,
                              block_size=self.block, gather_axis=0, quantize_axis=1)

    def gains(self, size):
        return self.graph.uniform((size,), 0.7, 1.3, "norm")


def decoder(batch, tokens=1, past=7, layers=2, hidden=64, heads=4, groups=2, inner=96, vocabulary=97, positions=32, bits=4,
            block=16):
    """Grouped queries, rotary embedding, gated units, root mean squares.

    Inputs: `input_ids` i64 [batch, tokens], `attention_mask` i64 [batch, total], for each layer
    `past_key_values.<i>.key` and `.value` f32 [batch, groups, past, head]; outputs `logits` f32 [batch, tokens,
    vocabulary] and `present.<i>.key`, `.value` f32 [batch, groups, total, head], with total = past + tokens; the sums of
    the mask say how many tokens each sequence has. With `tokens` = 0 the three are symbolic: total may as well be
    past, a buffer of fixed length.
    """
    net = Decoder("decoder", bits, block)
    graph, op, head = net.graph, net.graph.op, hidden // heads
    tokens, past, whole = (tokens, past, past + tokens) if tokens else ("tokens", "past", "total")
    ids = graph.input("input_ids", [batch, tokens], np.int64)
    mask = graph.input("attention_mask", [batch, whole], np.int64)
    one, axes = graph.constant(np.int64(1), "one"), graph.constant([1], "axes", np.int64)
    lengths = op("Cast", op("Sub", op("ReduceSum", mask, axes, keepdims=0), one), to=6)
    total = op("Cast", op("Gather", op("Shape", mask), one, axis=0), to=6)
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(head // 2) * 2 / head)
    cosines, sines = graph.constant(np.cos(angles), "cos", np.float32), graph.constant(np.sin(angles), "sin", np.float32)
    x = net.embedding(ids, vocabulary, hidden)
    # The first norm has no residual: the embedding is its only input.
    zero = graph.constant(np.zeros((1, 1, hidden)), "nothing", np.float32)
    branch, states = op("Mul", x, zero), []
    for layer in range(layers):
        y, x = _norm(net, x, branch, hidden)
        query, key, value = (net.linear(y, hidden, size) for size in (hidden, groups * head, groups * head))
        state = [graph.input(f"past_key_values.{layer}.{kind}", [batch, groups, past, head]) for kind in ("key", "value")]
        y, *present = net.microsoft("GroupQueryAttention", query, key, value, *state, lengths, total, cosines, sines,
                                    outputs=3, num_heads=heads, kv_num_heads=groups, do_rotary=1)
        states += zip(present, (f"present.{layer}.key", f"present.{layer}.value"))
        y, x = _norm(net, x, net.linear(y, hidden, hidden), hidden)
        gate, up = net.linear(y, hidden, inner, 2.0), net.linear(y, hidden, inner, 2.0)
        branch = net.linear(op("Mul", op("Mul", gate, op("Sigmoid", gate)), up), inner, hidden)
    y, _ = _norm(net, x, branch, hidden)
    graph.output(net.linear(y, hidden, vocabulary), "logits", [batch, tokens, vocabulary])
    for value, name in states:
        graph.output(value, name, [batch, groups, whole, head])
    model = graph.model()
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return model


def _norm(net, x, branch, hidden):
    """The norm of x + branch, and the sum."""
    outputs = net.microsoft("SkipSimplifiedLayerNormalization", x, branch, net.gains(hidden), outputs=4, epsilon=1e-5)
    node = net.graph.nodes[-1]
    node.output[1] = node.output[2] = ""
    return outputs[0], outputs[3]
