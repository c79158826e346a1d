"""Transformer parts, decomposed into primitive operators as exporters of opset 13 do, and BERT."""

import numpy as np

from .builder import OPSET, GraphBuilder


class Transformer:
    """A graph and the layers built into it. Activations are [batch, seq, hidden].

    `norm_operator`: layer normalisation as the operator of opset 17 instead of its parts.
    """

    def __init__(self, name, hidden, heads, seq, dynamic_shapes=False, norm_operator=False):
        self.graph = GraphBuilder(name, 17 if norm_operator else OPSET)
        self.hidden = hidden
        self.heads = heads
        self.seq = seq
        self.dynamic_shapes = dynamic_shapes
        self.norm_operator = norm_operator

    def scalar(self, value):
        return self.graph.constant(np.float32(value), "scalar")

    def dense(self, x, fan_in, fan_out, gain=1.0):
        """MatMul and Add: a fully connected layer on [batch, seq, fan_in]."""
        weight = self.graph.normal((fan_in, fan_out), np.sqrt(gain / fan_in), "dense_weight")
        return self.graph.op("Add", self.graph.op("MatMul", x, weight),
                             self.graph.normal((fan_out,), 0.1, "dense_bias"))

    def layer_norm(self, x, epsilon=1e-12):
        op = self.graph.op
        if self.norm_operator:
            return op("LayerNormalization", x, self.graph.uniform((self.hidden,), 0.7, 1.3, "ln_scale"),
                      self.graph.normal((self.hidden,), 0.1, "ln_bias"), axis=-1, epsilon=epsilon)
        centred = op("Sub", x, op("ReduceMean", x, axes=[-1], keepdims=1))
        variance = op("ReduceMean", op("Pow", centred, self.scalar(2.0)), axes=[-1], keepdims=1)
        normal = op("Div", centred, op("Sqrt", op("Add", variance, self.scalar(epsilon))))
        scaled = op("Mul", normal, self.graph.uniform((self.hidden,), 0.7, 1.3, "ln_scale"))
        return op("Add", scaled, self.graph.normal((self.hidden,), 0.1, "ln_bias"))

    def gelu(self, x):
        op = self.graph.op
        erf = op("Erf", op("Div", x, self.scalar(np.sqrt(2.0))))
        return op("Mul", op("Mul", x, op("Add", erf, self.scalar(1.0))), self.scalar(0.5))

    def gelu_tanh(self, x):
        """The approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
        op = self.graph.op
        cubic = op("Mul", op("Pow", x, self.scalar(3.0)), self.scalar(0.044715))
        bent = op("Tanh", op("Mul", op("Add", x, cubic), self.scalar(np.sqrt(2 / np.pi))))
        return op("Mul", op("Mul", x, self.scalar(0.5)), op("Add", bent, self.scalar(1.0)))

    def reshape(self, x, tail):
        """[batch, seq, ...] -> [batch, seq, *tail].

        With dynamic_shapes the target is computed from x's own shape (Shape, Gather, Unsqueeze,
        Concat), as exporters write it when the batch is symbolic; else zeros copy both dimensions.
        """
        graph = self.graph
        if not self.dynamic_shapes:
            return graph.op("Reshape", x, graph.constant([0, 0, *tail], "shape", np.int64))
        shape = graph.op("Shape", x)
        axis = graph.constant([0], "axis", np.int64)
        parts = []
        for index in (0, 1):
            extent = graph.op("Gather", shape, graph.constant(np.int64(index), "index"), axis=0)
            parts.append(graph.op("Unsqueeze", extent, axis))
        parts.append(graph.constant(list(tail), "shape", np.int64))
        return graph.op("Reshape", x, graph.op("Concat", *parts, axis=0))

    def attention(self, x, mask=None, merged=False):
        """Multi-head self-attention. `mask`, if any, masks scores [batch, heads, seq, seq].

        `merged`: one product computes query, key and value, which Split separates.
        """
        op, width = self.graph.op, self.hidden // self.heads
        if merged:
            sizes = self.graph.constant([self.hidden] * 3, "sizes", np.int64)
            parts = op("Split", self.dense(x, self.hidden, 3 * self.hidden), sizes, axis=2, outputs=3)
        else:
            parts = None

        def part(index, perm):
            value = parts[index] if merged else self.dense(x, self.hidden, self.hidden)
            return op("Transpose", self.reshape(value, [self.heads, width]), perm=perm)

        query, key, value = part(0, [0, 2, 1, 3]), part(1, [0, 2, 3, 1]), part(2, [0, 2, 1, 3])
        scores = op("Div", op("MatMul", query, key), self.scalar(np.sqrt(width)))
        weights = op("Softmax", mask(scores) if mask else scores, axis=-1)
        context = op("Transpose", op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.dense(self.reshape(context, [self.hidden]), self.hidden, self.hidden)

    def post_norm_layer(self, x, mask, inner):
        """A layer of BERT. `mask`: [batch, 1, 1, seq], 0 where visible, very negative elsewhere."""
        op = self.graph.op
        attended = self.attention(x, lambda scores: op("Add", scores, mask))
        x = self.layer_norm(op("Add", attended, x))
        branch = self.dense(self.gelu(self.dense(x, self.hidden, inner)), inner, self.hidden, gain=2.0)
        return self.layer_norm(op("Add", branch, x))

    def embed(self, ids, vocabulary, positions):
        """Word, position and segment embeddings. All tokens are in segment 0."""
        op, graph = self.graph.op, self.graph
        word = op("Gather", graph.normal((vocabulary, self.hidden), 0.6, "word_embedding"), ids, axis=0)
        position_ids = graph.constant(np.arange(self.seq)[None, :], "position_ids", np.int64)
        table = graph.normal((positions, self.hidden), 0.6, "position_embedding")
        segment = graph.normal((1, 1, self.hidden), 0.3, "segment_embedding")
        x = op("Add", op("Add", word, segment), op("Gather", table, position_ids, axis=0))
        return self.layer_norm(x)

    def mask(self, attention_mask):
        """i64 [batch, seq] of 0 and 1 -> f32 [batch, 1, 1, seq] to be added to the scores."""
        op, graph = self.graph.op, self.graph
        wide = op("Unsqueeze", op("Unsqueeze", attention_mask, graph.constant([1], "axis", np.int64)),
                  graph.constant([2], "axis", np.int64))
        inverted = op("Sub", self.scalar(1.0), op("Cast", wide, to=1))
        return op("Mul", inverted, self.scalar(-10000.0))


def bert(name, batch, layers, hidden, heads, seq, vocabulary, positions=512, dynamic_shapes=False):
    """Devlin et al., "BERT". bert-base is layers=12, hidden=768, heads=12, vocabulary=30522.

    Inputs `input_ids` and `attention_mask`: i64 [batch, seq]; outputs `last_hidden_state`: f32 [batch, seq, hidden]
    and `pooled`: f32 [batch, hidden].
    """
    encoder = Transformer(name, hidden, heads, seq, dynamic_shapes)
    graph = encoder.graph
    ids = graph.input("input_ids", [batch, seq], np.int64)
    mask = encoder.mask(graph.input("attention_mask", [batch, seq], np.int64))
    x = encoder.embed(ids, vocabulary, positions)
    for _ in range(layers):
        x = encoder.post_norm_layer(x, mask, 4 * hidden)
    first = graph.op("Gather", x, graph.constant(np.int64(0), "index"), axis=1)
    pooled = graph.op("Tanh", graph.linear(first, hidden, hidden))
    graph.output(x, "last_hidden_state", [batch, seq, hidden])
    graph.output(pooled, "pooled", [batch, hidden])
    return graph.model()


def encoder(name, batch, layers, hidden, heads, seq):
    """Vaswani et al., "Attention Is All You Need": the encoder, with layer normalisation after each branch and ReLU.

    Input `x`: f32 [batch, seq, hidden], embedded already; output `y` of the same shape.
    """
    net = Transformer(name, hidden, heads, seq)
    graph, op = net.graph, net.graph.op
    x = graph.input("x", [batch, seq, hidden])
    for _ in range(layers):
        x = net.layer_norm(op("Add", net.attention(x), x), 1e-5)
        inner = op("Relu", net.dense(x, hidden, 4 * hidden))
        x = net.layer_norm(op("Add", net.dense(inner, 4 * hidden, hidden, gain=2.0), x), 1e-5)
    graph.output(x, "y", [batch, seq, hidden])
    return graph.model()
