"""New weights without a rebuild: `tessera reweight` gives the bytes of a full compilation, names what makes other weights
impossible, and refuses damaged files."""

import hashlib
import json
import re
import struct
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e import stateful_models
from e2e.tessera_e2e import model_inputs, model_path, shapes_of
from models import catalog
from oracle.oracle import difference

HERE = {"TESSERA_SERVER": ""}  # no service is named: a sandboxed process of this machine plans
RESNET = "resnet18:size=64"
EXIT_INVALID = 3
EXIT_USAGE = 2
TOLERANCE = 1e-4


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(path, name):
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def with_noise(model, seed=5):
    """The same graph with other values in every float weight; scalars and constant arrays keep theirs, as exporters
    write epsilons and scales so."""
    random = np.random.default_rng(seed)
    other = onnx.ModelProto.FromString(model.SerializeToString())
    changed = 0
    for tensor in other.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size > 1 and np.ptp(array) > 0:
            noise = 1 + 0.2 * random.standard_normal(array.shape)
            tensor.CopyFrom(numpy_helper.from_array((array * noise).astype(np.float32), tensor.name))
            changed += 1
    check(changed > 1, f"only {changed} weights can change")
    return other


def stored(service, model, name="new.onnx"):
    path = service.scratch(name)
    onnx.save(model, path)
    return path


def flags_of(spec, batch=1):
    return [word for name, shape in shapes_of(model_inputs(spec, batch)).items()
            for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def compiled(service, path, *flags):
    artifact = service.scratch("full.tsra")
    service.cli("compile", path, "--name", "model", "-o", artifact, *flags)
    return artifact


def reweight(service, artifact, weights, *flags, env=HERE, expect=0):
    result = service.scratch("reweighted.tsra")
    answer = service.cli("reweight", artifact, "--weights", weights, "-o", result, "--json", *flags, env=env, expect=expect)
    check_equal(result.exists(), expect == 0, "whether there is a new artifact")
    return answer, result


def refused(service, artifact, weights, *flags, expect=EXIT_INVALID):
    answer, _ = reweight(service, artifact, weights, *flags, expect=expect)
    return answer.failure["message"]


# Folded batch normalizations, Winograd and direct convolutions; groups and shuffles; transformers; recurrences.
@pytest.mark.parametrize("spec", (RESNET, catalog.REDUCED["shufflenet_v1"], "bert_tiny", catalog.REDUCED["gpt2"],
                                  catalog.REDUCED["vit_b16"], catalog.REDUCED["mi_lstm"]))
def test_equals_a_full_compilation(service, oracle, spec):
    base = compiled(service, model_path(spec), *flags_of(spec))
    path = stored(service, with_noise(onnx.load(model_path(spec))))
    full = compiled(service, path, *flags_of(spec))
    check(entry(full, "weights.bin") != entry(base, "weights.bin"), "the new weights are the old ones")
    answer, result = reweight(service, base, path)
    check_equal(digest(result), digest(full), "the artifact")
    check_equal(answer.json["kernels_built"], 0, "kernels that were built")
    inputs = model_inputs(spec, 1)
    outputs, _ = service.run(result, inputs, "--untrusted")
    expected, _ = oracle.load(path).run(inputs)
    for name, wanted in expected.items():
        _, relative = difference(outputs[name], wanted)
        check(relative <= TOLERANCE, f"{name}: off by {relative:.3g} of its largest magnitude")


@pytest.mark.parametrize("flags", (("--dim", "N=1,3"), ("--dim", "N=1..16"), ("--precision", "bf16", "--dim", "N=2"),
                                   ("-O", "1", "--dim", "N=2"), ("--target", "neoverse-n1", "--dim", "N=2"),
                                   ("--target", "opencl", "--dim", "N=2"), ("--target", "tpu-like", "--dim", "N=2")),
                         ids=("variants", "range", "bf16", "plain-loops", "another-chip", "opencl", "described-chip"))
def test_options_come_from_the_artifact(service, flags):
    base = compiled(service, model_path("mlp"), *flags)
    path = stored(service, with_noise(onnx.load(model_path("mlp"))))
    _, result = reweight(service, base, path)
    check_equal(digest(result), digest(compiled(service, path, *flags)), "the artifact")


def test_states_come_from_the_artifact(service):
    flags = ("--dim", "batch=..3", "--dim", "past_sequence_length=..4,..13", "--dim", "tokens=1", "--state", "auto")
    model = stateful_models.decoder(service.scratch("decoder.onnx"))
    base = compiled(service, model, *flags)
    path = stored(service, with_noise(onnx.load(model)))
    _, result = reweight(service, base, path)
    check_equal(digest(result), digest(compiled(service, path, *flags)), "the artifact")


def test_pinned_decisions_stay(service):
    plan = service.scratch("plan.txt")
    service.cli("explain", model_path(RESNET), "--plan-out", plan, *flags_of(RESNET))
    place = re.search(r'^choice algorithm ("[^"]*") "?winograd', plan.read_text(), re.M).group(1)
    pins = service.scratch("pins.txt")
    pins.write_text(f"choice algorithm {place} direct\n")
    base = compiled(service, model_path(RESNET), "--pin", pins, *flags_of(RESNET))
    path = stored(service, with_noise(onnx.load(model_path(RESNET)), seed=7))
    _, result = reweight(service, base, path)
    check_equal(digest(result), digest(compiled(service, path, "--pin", pins, *flags_of(RESNET))), "the artifact")


def test_a_service_builds_nothing_and_signs(service):
    base = compiled(service, model_path(RESNET), *flags_of(RESNET))
    path = stored(service, with_noise(onnx.load(model_path(RESNET)), seed=6))
    answer, result = reweight(service, base, path, env={})
    check_equal(answer.json["kernels_built"], 0, "kernels that were built")
    check_equal(digest(result), digest(compiled(service, path, *flags_of(RESNET))), "the artifact")
    service.run(result, model_inputs(RESNET, 1))  # signed
    wrong = onnx.load(path)
    next(node for node in wrong.graph.node if node.op_type == "Relu").op_type = "Sigmoid"
    answer, _ = reweight(service, base, stored(service, wrong), env={}, expect=EXIT_INVALID)
    check("cannot take these weights" in answer.failure["message"], str(answer))


def quantized(scale=0.05, seed=1):
    """Two quantized products: weights of 8 bits with a scale for each column, activations with one scale each."""
    random = np.random.default_rng(seed)
    constants = {"s1": np.float32(scale), "s2": np.float32(0.1), "z": np.uint8(128)}
    nodes = []
    for layer, (rows, columns) in enumerate(((64, 48), (48, 32)), 1):
        constants[f"w{layer}"] = random.integers(-127, 128, (rows, columns)).astype(np.int8)
        constants[f"ws{layer}"] = random.uniform(0.001, 0.01, columns).astype(np.float32)
        constants[f"wz{layer}"] = np.zeros(columns, np.int8)
        x = "x" if layer == 1 else "h"
        nodes += [helper.make_node("QuantizeLinear", [x, f"s{layer}", "z"], [f"q{layer}"]),
                  helper.make_node("DequantizeLinear", [f"q{layer}", f"s{layer}", "z"], [f"d{layer}"]),
                  helper.make_node("DequantizeLinear", [f"w{layer}", f"ws{layer}", f"wz{layer}"], [f"dw{layer}"], axis=1),
                  helper.make_node("MatMul", [f"d{layer}", f"dw{layer}"], ["h" if layer == 1 else "y"], name=f"product{layer}")]
    graph = helper.make_graph(
        nodes, "quantized", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 32])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_quantized_weights(service):
    base = compiled(service, stored(service, quantized()))
    path = stored(service, quantized(seed=2))
    _, result = reweight(service, base, path)
    check_equal(digest(result), digest(compiled(service, path)), "the artifact")
    # The scale of an activation is a constant of a kernel.
    message = refused(service, base, stored(service, quantized(scale=0.07)))
    check("cannot take these weights" in message and "step" in message, message)


def test_what_makes_it_impossible_is_named(service):
    model = onnx.load(model_path("mlp"))
    base = compiled(service, model_path("mlp"), "--dim", "N=2")
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    matrices = [name for name, tensor in weights.items() if len(tensor.dims) == 2]

    def changed(name, array):
        other = with_noise(model)
        tensor = next(each for each in other.graph.initializer if each.name == name)
        tensor.CopyFrom(numpy_helper.from_array(array, name))
        return stored(service, other)

    zeros = np.zeros(list(weights[matrices[0]].dims), np.float32)
    message = refused(service, base, changed(matrices[0], zeros))
    check("cannot take these weights" in message and ("step" in message or "rewrite" in message), message)
    larger = np.ones([extent + 1 for extent in weights[matrices[0]].dims], np.float32)
    refused(service, base, changed(matrices[0], larger))  # another shape: not the model of the artifact
    other = onnx.ModelProto.FromString(model.SerializeToString())
    other.graph.node[0].name = "renamed"
    relu = next(node for node in other.graph.node if node.op_type == "Relu")
    relu.op_type = "Tanh"
    message = refused(service, base, stored(service, other))
    check("tanh" in message, message)


def safetensors(path, arrays, spoil=lambda header: None):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        begin = len(data)
        data += array.tobytes()
        header[name] = {"dtype": {"float32": "F32", "int64": "I64"}[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [begin, len(data)]}
    spoil(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_safetensors(service):
    spec, flags = "bert_tiny", flags_of("bert_tiny")
    base = compiled(service, model_path(spec), *flags)
    model = with_noise(onnx.load(model_path(spec)), seed=8)
    full = compiled(service, stored(service, model), *flags)
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
              if tensor.data_type == TensorProto.FLOAT and tensor.dims}
    path = safetensors(service.scratch("new.safetensors"), arrays)
    graph = ("--model", model_path(spec))
    answer, result = reweight(service, base, path, *graph)
    check_equal(answer.json["weights_bound"], len(arrays), "replaced weights")
    for name in ("code.so", "weights.bin"):
        check_equal(entry(result, name), entry(full, name), name)

    check("--model" in refused(service, base, path, expect=EXIT_INVALID), "no graph")
    name = next(iter(arrays))
    unknown = safetensors(service.scratch("unknown.safetensors"), {**arrays, "lm_head": np.ones(3, np.float32)})
    check("'lm_head'" in refused(service, base, unknown, *graph), "the unknown tensor is not named")
    shorter = safetensors(service.scratch("shape.safetensors"), {name: arrays[name].reshape(-1)[:-1].copy()})
    check(f"'{name}'" in refused(service, base, shorter, *graph), "the tensor of another shape is not named")


def adapted(dense, factors=None, scale=1.0):
    """Two products: weights of rows of outputs, and weights of rows of inputs. `factors` are merged by NumPy."""
    w1, w2 = dense
    if factors:
        (a1, b1), (a2, b2) = factors
        w1 = (w1.astype(np.float64) + scale * (b1.astype(np.float64) @ a1)).astype(np.float32)
        w2 = (w2.astype(np.float64) + scale * (b2.astype(np.float64) @ a2).T).astype(np.float32)
    nodes = [helper.make_node("Gemm", ["x", "up.weight"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "down.weight"], ["y"])]
    graph = helper.make_graph(nodes, "adapted", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 24])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 24])],
                              [numpy_helper.from_array(w1, "up.weight"), numpy_helper.from_array(w2, "down.weight")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_low_rank_products_are_merged(service):
    random = np.random.default_rng(3)
    dense = [random.standard_normal(shape).astype(np.float32) for shape in ((40, 24), (40, 24))]
    # Eighths of small integers: their products and sums are exact, so that the order of a sum does not matter.
    factors = [tuple((random.integers(-8, 9, shape) / 8).astype(np.float32) for shape in ((3, inputs), (outputs, 3)))
               for inputs, outputs in ((24, 40), (40, 24))]
    model = stored(service, adapted(dense))
    base = compiled(service, model)
    full = compiled(service, stored(service, adapted(dense, factors, 0.5)))
    named = {}
    for module, (a, b) in zip(("up", "down"), factors):
        named[f"base_model.model.{module}.lora_A.weight"] = a
        named[f"base_model.model.{module}.lora_B.weight"] = b
    adapter = safetensors(service.scratch("adapter.safetensors"), named)
    answer, result = reweight(service, base, model, "--lora", adapter, "--lora-scale", 0.5)
    check_equal(answer.json["weights_merged"], 2, "merged weights")
    for name in ("code.so", "weights.bin"):
        check_equal(entry(result, name), entry(full, name), name)

    alone = safetensors(service.scratch("alone.safetensors"), {"up.lora_A.weight": factors[0][0]})
    check("'up'" in refused(service, base, model, "--lora", alone), "the missing factor is not named")
    absent = safetensors(service.scratch("absent.safetensors"), {"q.lora_A.weight": factors[0][0], "q.lora_B.weight": factors[0][1]})
    check("'q.weight'" in refused(service, base, model, "--lora", absent), "the missing initializer is not named")
    crossed = {"up.lora_A.weight": factors[1][0], "up.lora_B.weight": factors[1][1]}
    message = refused(service, base, model, "--lora", safetensors(service.scratch("crossed.safetensors"), crossed))
    check("'up.weight'" in message and "[24,40]" in message, message)


def outside(header):
    next(value for key, value in header.items() if key != "__metadata__")["data_offsets"][1] += 1 << 40


def overlapping(header):
    first, second = [value for key, value in header.items() if key != "__metadata__"][:2]
    second["data_offsets"] = first["data_offsets"]


def of_unknown_type(header):
    next(value for key, value in header.items() if key != "__metadata__")["dtype"] = "F7"


@pytest.mark.parametrize("spoil", (outside, overlapping, of_unknown_type), ids=lambda each: each.__name__)
def test_damaged_safetensors(service, spoil):
    base = compiled(service, model_path("mlp"), "--dim", "N=2")
    arrays = {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)}
    path = safetensors(service.scratch("bad.safetensors"), arrays, spoil)
    message = refused(service, base, path, "--model", model_path("mlp"))
    check("accepted is a safetensors file" in message, message)
    path.write_bytes(path.read_bytes()[:20])
    refused(service, base, path, "--model", model_path("mlp"))


def test_damaged_artifacts(service):
    base = compiled(service, model_path("mlp"), "--dim", "N=2")
    path = stored(service, with_noise(onnx.load(model_path("mlp"))))
    content = base.read_bytes()
    code = content.index(entry(base, "code.so"))
    flipped = bytearray(content)
    flipped[code + 300] ^= 1
    for name, damaged in (("cut.tsra", content[:-100]), ("flipped.tsra", bytes(flipped)), ("text.tsra", b"no artifact")):
        bad = service.scratch(name)
        bad.write_bytes(damaged)
        check(str(bad) in refused(service, bad, path), f"{name} is not named")
    check(str(path) not in refused(service, base, service.scratch("absent.onnx")), "another file is blamed")
    service.cli("reweight", base, "--weights", path, "-o", service.folder, env=HERE, expect=EXIT_INVALID)
    service.cli("reweight", base, env=HERE, expect=EXIT_USAGE)
