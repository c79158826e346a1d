"""Single operators and small networks, for tests of one thing at a time."""

import numpy as np

from .builder import GraphBuilder


def gemm(batch, m=0, k=256, n=256, transb=0, bias=1):
    """y = x . w (+ b). x: f32 [m, k]; m = 0 takes the batch. y: f32 [m, n]."""
    graph = GraphBuilder("gemm")
    rows = m or batch
    x = graph.input("x", [rows, k])
    weight = graph.normal((n, k) if transb else (k, n), np.sqrt(1 / k))
    inputs = [x, weight] + ([graph.normal((n,), 0.1, "bias")] if bias else [])
    graph.output(graph.op("Gemm", *inputs, transB=transb), "y", [rows, n])
    return graph.model()


def matmul(batch, m=64, k=64, n=64):
    """y = a . b, both inputs. a: f32 [batch, m, k], b: f32 [batch, k, n], y: f32 [batch, m, n]."""
    graph = GraphBuilder("matmul")
    a = graph.input("a", [batch, m, k])
    b = graph.input("b", [batch, k, n])
    graph.output(graph.op("MatMul", a, b), "y", [batch, m, n])
    return graph.model()


def conv(batch, cin=16, cout=32, h=28, w=28, kh=3, kw=3, stride=1, pad=1, group=1, dilation=1, bias=1, relu=0):
    """y = conv2d(x), NCHW. x: f32 [batch, cin, h, w]. Extents need not be multiples of anything."""
    graph = GraphBuilder("conv")
    x = graph.input("x", [batch, cin, h, w])
    y = graph.conv(x, cin, cout, (kh, kw), stride, pad, group, dilation, bool(bias))
    if relu:
        y = graph.op("Relu", y)

    def extent(size, kernel):
        return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1

    graph.output(y, "y", [batch, cout, extent(h, kh), extent(w, kw)])
    return graph.model()


def mlp(batch, inputs=784, hidden=256, layers=2, classes=10):
    """Fully connected layers with Relu, then Softmax. x: f32 [batch, inputs], y: f32 [batch, classes]."""
    graph = GraphBuilder("mlp")
    x = graph.input("x", [batch, inputs])
    width = inputs
    for _ in range(layers):
        x = graph.op("Relu", graph.linear(x, width, hidden, gain=2.0))
        width = hidden
    x = graph.op("Softmax", graph.linear(x, width, classes), axis=-1)
    graph.output(x, "y", [batch, classes])
    return graph.model()


def tiny(batch, n=8, seed=0):
    """y = relu(x + c): the smallest useful compile request. Different seeds are different models."""
    graph = GraphBuilder(f"tiny{seed}")
    x = graph.input("x", [batch, n])
    graph.output(graph.op("Relu", graph.op("Add", x, graph.normal((n,), 1.0, "c"))), "y", [batch, n])
    return graph.model()
