"""Recurrent networks."""

import numpy as np
from onnx import helper

from .builder import GraphBuilder


def _cell(op, weights, x, state, memory):
    """One step of Wu et al., "On Multiplicative Integration with Recurrent Neural Networks", equation 7, for all four
    gates at once: alpha * Wx * Uh + beta1 * Uh + beta2 * Wx + b. x: [batch, inputs]. Returns the new (state, memory).

    `op(type, *inputs, outputs=1, **attributes)` emits a node, in the graph or in the body of a loop.
    """
    wx, uh = op("MatMul", x, weights["W"]), op("MatMul", state, weights["U"])
    second = op("Mul", op("Mul", wx, uh), weights["alpha"])
    first = op("Add", op("Mul", uh, weights["beta1"]), op("Mul", wx, weights["beta2"]))
    gates = op("Add", op("Add", second, first), weights["b"])
    forget, enter, leave, candidate = op("Split", gates, weights["sizes"], axis=1, outputs=4)
    kept = op("Mul", op("Sigmoid", forget), memory)
    memory = op("Add", kept, op("Mul", op("Sigmoid", enter), op("Tanh", candidate)))
    return op("Mul", op("Sigmoid", leave), op("Tanh", memory)), memory


def mi_lstm(batch, steps=16, inputs=784, hidden=1024, classes=10, unrolled=0):
    """A layer of a multiplicative-integration LSTM and a classifier on its last state, as Scan or written out.

    Input `x`: f32 [batch, steps, inputs]; outputs `states`: f32 [batch, steps, hidden], `logits`: f32 [batch, classes].
    """
    graph = GraphBuilder("mi_lstm")
    op = graph.op
    x = graph.input("x", [batch, steps, inputs])
    weights = {
        "W": graph.normal((inputs, 4 * hidden), np.sqrt(1 / inputs), "W"),
        "U": graph.normal((hidden, 4 * hidden), np.sqrt(2 / hidden), "U"),
        "alpha": graph.uniform((4 * hidden,), 0.5, 1.5, "alpha"),
        "beta1": graph.uniform((4 * hidden,), 0.3, 0.9, "beta1"),
        "beta2": graph.uniform((4 * hidden,), 0.3, 0.9, "beta2"),
        "b": graph.normal((4 * hidden,), 0.2, "b"),
        "sizes": graph.constant([hidden] * 4, "sizes", np.int64),
    }
    # The state starts at zero, in as many rows as the input has.
    rows = op("Gather", op("Shape", x), graph.constant([0], "index", np.int64), axis=0)
    zero = op("ConstantOfShape", op("Concat", rows, graph.constant([hidden], "extent", np.int64), axis=0))
    if unrolled:
        states = []
        slices = op("Split", x, graph.constant([1] * steps, "sizes", np.int64), axis=1, outputs=steps)
        state = memory = zero
        axis = graph.constant([1], "axis", np.int64)
        for step in slices if steps > 1 else [slices]:
            state, memory = _cell(op, weights, op("Squeeze", step, axis), state, memory)
            states.append(op("Unsqueeze", state, axis))
        sequence = op("Concat", *states, axis=1)
    else:
        state, _, sequence = op("Scan", zero, zero, x, body=_body(weights, batch, inputs, hidden), num_scan_inputs=1,
                                scan_input_axes=[1], scan_output_axes=[1], outputs=3)
    graph.output(sequence, "states", [batch, steps, hidden])
    graph.output(graph.linear(state, hidden, classes, gain=4.0), "logits", [batch, classes])
    return graph.model()


def _body(weights, batch, inputs, hidden):
    """A step as the body of Scan; its weights come from the outer graph."""
    body = GraphBuilder("step", prefix="step_")
    state, memory, x = (body.input(name, [batch, extent])
                        for name, extent in (("state", hidden), ("memory", hidden), ("x_step", inputs)))

    state, memory = _cell(body.op, weights, x, state, memory)
    body.output(state, "state_out", [batch, hidden])
    body.output(memory, "memory_out", [batch, hidden])
    emitted = body.op("Identity", "state_out")
    body.output(emitted, "emitted", [batch, hidden])
    return helper.make_graph(body.nodes, "step", body.inputs, body.outputs)
