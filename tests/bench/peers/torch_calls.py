#!/usr/bin/python3
"""PyTorch as a peer of tests/bench/run: the protocol of libraries.cpp, `load torch KIND ...`.

Modules are traced, frozen and optimized for inference, after which PyTorch uses oneDNN in its own layouts.
"""

import os
import sys
import time

import torch
from torch import nn

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.manual_seed(0)


class Product(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.weight = None if weight is None else nn.Parameter(weight)

    def forward(self, a, b=None):
        return torch.matmul(a, self.weight if b is None else b)


class Chain(nn.Module):
    def __init__(self, softmax):
        super().__init__()
        self.softmax = softmax

    def forward(self, a, b, d):
        scores = torch.matmul(a, b)
        return torch.matmul(torch.softmax(scores, -1) if self.softmax else scores, d)


def _convolutions(relu, *layers):
    modules = []
    for c, k, kernel, stride, groups, bias in layers:
        modules.append(nn.Conv2d(c, k, kernel, stride, (kernel - 1) // 2, groups=groups, bias=bias))
        if relu:
            modules.append(nn.ReLU())
    return nn.Sequential(*modules)


def prepare(kind, v):
    """The module and its arguments."""
    if kind == "gemm":
        m, n, k, constant = v
        if constant:
            return Product(torch.randn(k, n)), (torch.randn(m, k),)
        return Product(), (torch.randn(m, k), torch.randn(k, n))
    if kind == "chain":
        batch, m, n, k, l, softmax = v
        return Chain(bool(softmax)), (torch.randn(batch, m, k), torch.randn(batch, k, l), torch.randn(batch, l, n))
    if kind == "conv":
        n, c, size, k, kernel, stride, groups, relu = v
        return _convolutions(relu, (c, k, kernel, stride, groups, True)), (torch.randn(n, c, size, size),)
    if kind == "pool":
        largest, n, c, size, kernel, stride, pad = v
        layer = nn.MaxPool2d(kernel, stride, pad) if largest else nn.AvgPool2d(kernel, stride, pad,
                                                                               count_include_pad=False)
        return layer, (torch.randn(n, c, size, size),)
    if kind == "convchain":
        c, size, k1, k2, stride1, stride2, kernel1, kernel2, relu = v
        layers = (c, k1, kernel1, stride1, 1, False), (k1, k2, kernel2, stride2, 1, False)
        return _convolutions(relu, *layers), (torch.randn(1, c, size, size),)
    raise ValueError(f"torch has no call for {kind}")


def answer(words, calls):
    if words[0] == "load":
        module, arguments = prepare(words[2], [int(word) for word in words[3:]])
        with torch.inference_mode():
            traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module.eval(), arguments)))
            for _ in range(3):
                traced(*arguments)
        calls.append((traced, arguments))
        return f"ok {len(calls)}"
    number = int(words[1]) - 1
    if words[0] == "drop":
        calls[number] = None
        return "ok"
    module, arguments = calls[number]
    times = []
    with torch.inference_mode():
        for _ in range(int(words[2])):
            start = time.perf_counter()
            module(*arguments)
            times.append(1e3 * (time.perf_counter() - start))
    return "ok " + " ".join(f"{each:.6f}" for each in times)


def main():
    calls = []
    for line in sys.stdin:
        try:
            text = answer(line.split(), calls)
        except Exception as error:  # pylint: disable=broad-except  # the bench goes on with the next row
            text = "error " + " ".join(str(error).split())
        print(text, flush=True)


if __name__ == "__main__":
    main()
