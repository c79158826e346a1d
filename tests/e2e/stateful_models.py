"""Models with values that live from run to run: a recurrent cell and a decoder, with drawn weights."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def _save(path, nodes, inputs, outputs, initializers):
    graph = helper.make_graph(nodes, "stateful", [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*each) for each in outputs],
                              [numpy_helper.from_array(array, name) for name, array in initializers])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8).SerializeToString())
    return path


def recurrent(path, steps=3, batch=1, width=5, hidden=7):
    """An LSTM over `steps` steps: x [steps, batch, width], h0 and c0 [1, batch, hidden] give y, hn and cn."""
    random = np.random.default_rng(3)
    weights = [(name, random.standard_normal((1, 4 * hidden, size), np.float32) / 2) for name, size in (("W", width), ("R", hidden))]
    state = [1, batch, hidden]
    return _save(path, [node("LSTM", ["x", "W", "R", "", "", "h0", "c0"], ["y", "hn", "cn"], hidden_size=hidden)],
                 [("x", F32, [steps, batch, width]), ("h0", F32, state), ("c0", F32, state)],
                 [("y", F32, [steps, 1, batch, hidden]), ("hn", F32, state), ("cn", F32, state)], weights)


def rectified(path):
    """A growing value that is no plain concatenation: present = relu(concat(past, x)) [past + 2, 3], y = its sums."""
    return _save(path, [node("Concat", ["past", "x"], ["all"], axis=0), node("Relu", ["all"], ["present"]),
                        node("ReduceSum", ["present", "axes"], ["y"], keepdims=0)],
                 [("x", F32, [2, 3]), ("past", F32, ["rows", 3])], [("y", F32, [3]), ("present", F32, None)], [("axes", np.array([0]))])


def decoder(path, layers=2, heads=2, size=8, vocabulary=31, tokens="tokens", positions=4096):
    """A decoder as optimum exports it: input_ids [batch, tokens], attention_mask [batch, past + tokens], logits, and the keys
    and values of each layer, past_key_values.N.key and present.N.key."""
    random = np.random.default_rng(1)
    width = heads * size

    def drawn(*shape):
        return random.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))

    integers = {"zero": 0, "one": 1, "two": 2, "axis": 1, "axes0": [0], "axes1": [1], "axes12": [1, 2], "open": [2**63 - 1],
                "split": [0, 0, heads, size], "merge": [0, 0, width]}
    weights = [(name, np.array(value)) for name, value in integers.items()]
    weights += [("one_f", np.float32(1)), ("lowest", np.float32(-1e9)), ("scale", np.float32(size**-0.5)),
                ("places", drawn(positions, width)), ("words", drawn(vocabulary, width)), ("out", drawn(width, vocabulary))]
    nodes = [node("Shape", ["input_ids"], ["ids_shape"]), node("Gather", ["ids_shape", "one"], ["count"]),
             node("CumSum", ["attention_mask", "axis"], ["counted"]), node("Sub", ["counted", "one"], ["from_0"]),
             node("Max", ["from_0", "zero"], ["numbers"]), node("Neg", ["count"], ["first"]),
             node("Unsqueeze", ["first", "axes0"], ["start"]), node("Slice", ["numbers", "start", "open", "axes1"], ["own"]),
             node("Gather", ["places", "own"], ["p"]), node("Gather", ["words", "input_ids"], ["w"]), node("Add", ["w", "p"], ["h0"]),
             node("Cast", ["attention_mask"], ["mask_f"], to=F32), node("Sub", ["one_f", "mask_f"], ["hidden"]),
             node("Mul", ["hidden", "lowest"], ["bias"]), node("Unsqueeze", ["bias", "axes12"], ["bias4"])]
    inputs = [("input_ids", I64, ["batch", tokens]), ("attention_mask", I64, ["batch", f"past_sequence_length + {tokens}"])]
    outputs = [("logits", F32, None)]
    for layer in range(layers):
        at = f"l{layer}."
        for part in "qkvo":
            weights.append((at + "w" + part, drawn(width, width)))
        for part in "qkv":
            nodes += [node("MatMul", [f"h{layer}", at + "w" + part], [at + part + "0"]),
                      node("Reshape", [at + part + "0", "split"], [at + part + "1"]),
                      node("Transpose", [at + part + "1"], [at + part], perm=[0, 2, 1, 3])]
        past_key, past_value, key, value = (f"{of}.{layer}.{kind}" for of in ("past_key_values", "present") for kind in ("key", "value"))
        nodes += [node("Concat", [past_key, at + "k"], [key], axis=2), node("Concat", [past_value, at + "v"], [value], axis=2),
                  node("Transpose", [key], [at + "turned"], perm=[0, 1, 3, 2]), node("MatMul", [at + "q", at + "turned"], [at + "s0"]),
                  node("Mul", [at + "s0", "scale"], [at + "s"]), node("Add", [at + "s", "bias4"], [at + "b"]),
                  node("Softmax", [at + "b"], [at + "a"], axis=-1), node("MatMul", [at + "a", value], [at + "m"]),
                  node("Transpose", [at + "m"], [at + "mt"], perm=[0, 2, 1, 3]), node("Reshape", [at + "mt", "merge"], [at + "mm"]),
                  node("MatMul", [at + "mm", at + "wo"], [at + "o"]), node("Add", [f"h{layer}", at + "o"], [f"h{layer + 1}"])]
        inputs += [(name, F32, ["batch", heads, "past_sequence_length", size]) for name in (past_key, past_value)]
        outputs += [(name, F32, None) for name in (key, value)]
    nodes.append(node("MatMul", [f"h{layers}", "out"], ["logits"]))
    return _save(path, nodes, inputs, outputs, weights)


def names_of_cache(layers=2):
    return [(f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}") for layer in range(layers) for kind in ("key", "value")]
