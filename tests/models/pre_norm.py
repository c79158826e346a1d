"""Transformers that normalise before each branch: a text decoder and an image encoder."""

import numpy as np
from onnx import numpy_helper

from .transformer import Transformer


def _layer(net, x, activation, mask=None, merged=False, depth=1):
    """x + attention(norm(x)), then x + mlp(norm(x)); branches are scaled so that sums of `depth` of them stay O(1)."""
    op, gain = net.graph.op, 1 / depth
    x = op("Add", x, net.attention(net.layer_norm(x, 1e-5), mask, merged))
    inner = activation(net.dense(net.layer_norm(x, 1e-5), net.hidden, 4 * net.hidden, gain=2.0))
    return op("Add", x, net.dense(inner, 4 * net.hidden, net.hidden, gain=2.0 * gain))


def gpt2(batch, layers=12, hidden=768, heads=12, seq=128, vocabulary=50257, positions=1024, norm_operator=0,
         dynamic_shapes=0):
    """Radford et al., "Language Models are Unsupervised Multitask Learners": causal attention, GELU in its tanh form.

    Input `input_ids`: i64 [batch, seq]; output `logits`: f32 [batch, seq, vocabulary] of the next token.
    The table of tokens is used twice, to embed and to classify.
    """
    net = Transformer("gpt2", hidden, heads, seq, bool(dynamic_shapes), bool(norm_operator))
    graph, op = net.graph, net.graph.op
    ids = graph.input("input_ids", [batch, seq], np.int64)
    table = graph.normal((vocabulary, hidden), np.sqrt(1 / hidden), "token_embedding")
    places = graph.normal((positions, hidden), 0.5 * np.sqrt(1 / hidden), "position_embedding")
    x = op("Add", op("Gather", table, ids, axis=0),
           op("Gather", places, graph.constant(np.arange(seq)[None, :], "position_ids", np.int64), axis=0))
    # Exporters keep one mask for all positions and slice it to the sequence length.
    everything = graph.constant(np.tril(np.ones((1, 1, positions, positions), np.bool_)), "causal")
    ends = graph.constant([seq, seq], "ends", np.int64)
    visible = op("Slice", everything, graph.constant([0, 0], "starts", np.int64), ends,
                 graph.constant([2, 3], "axes", np.int64))
    hidden_score = net.scalar(np.finfo(np.float32).min)
    for _ in range(layers):
        x = _layer(net, x, net.gelu_tanh, lambda scores: op("Where", visible, scores, hidden_score), merged=True,
                   depth=layers)
    rows = op("Reshape", net.layer_norm(x, 1e-5), graph.constant([-1, hidden], "shape", np.int64))
    logits = op("Reshape", op("Gemm", rows, table, transB=1), graph.constant([-1, seq, vocabulary], "shape", np.int64))
    graph.output(logits, "logits", [batch, seq, vocabulary])
    return graph.model()


def vit_b16(batch, size=224, patch=16, layers=12, hidden=768, heads=12, classes=1000, norm_operator=0):
    """Dosovitskiy et al., "An Image is Worth 16x16 Words": patches as tokens after a class token.

    Input `x`: f32 [batch, 3, size, size]; output `logits`: f32 [batch, classes].
    """
    side = size // patch
    net = Transformer("vit_b16", hidden, heads, side * side + 1, norm_operator=bool(norm_operator))
    graph, op = net.graph, net.graph.op
    x = graph.input("x", [batch, 3, size, size])
    patches = graph.conv(x, 3, hidden, patch, patch, gain=1.0)
    patches = op("Reshape", patches, graph.constant([0, hidden, side * side], "shape", np.int64))
    tokens = op("Transpose", patches, perm=[0, 2, 1])
    # The class token is the same for all images, and is expanded to the batch.
    rows = op("Gather", op("Shape", x), graph.constant([0], "index", np.int64), axis=0)
    copies = op("Concat", rows, graph.constant([-1, -1], "keep", np.int64), axis=0)
    ones = op("ConstantOfShape", graph.constant([3], "rank", np.int64), value=numpy_helper.from_array(np.ones(1, np.int64)))
    kept = op("Where", op("Equal", copies, op("Mul", ones, graph.constant(np.int64(-1), "minus"))), ones, copies)
    first = op("Expand", graph.normal((1, 1, hidden), 0.5, "class_token"), kept)
    x = op("Concat", first, tokens, axis=1)
    x = op("Add", x, graph.normal((1, side * side + 1, hidden), 0.3, "position_embedding"))
    for _ in range(layers):
        x = _layer(net, x, net.gelu, depth=layers)
    x = net.layer_norm(x, 1e-5)
    x = op("Gather", x, graph.constant(np.int64(0), "index"), axis=1)
    graph.output(graph.linear(x, hidden, classes), "logits", [batch, classes])
    return graph.model()
