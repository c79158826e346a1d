"""Dimensions that exporters name by other dimensions, "past + 1" or "floor(N/2)", as ranges: compared with ONNX Runtime
at each size. They need no size at compile time, and a run with a contradicting size is rejected."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.ranged import f32s, ranged_against_oracle, same, save, tessera
from e2e.tessera_e2e import save_npz

F32, I64, HEADS, WIDTH, VOCABULARY = TensorProto.FLOAT, TensorProto.INT64, 2, 8, 11
node = helper.make_node


def decoder(service, random, tokens, together, positions="last"):
    """A decoder with past keys and values as optimum exports it: token ids [batch, tokens], a mask of 0 and 1 [batch,
    together], logits and the new state as outputs. Positions are counted by the mask (the last `tokens` of them), are
    those after the past ("behind"), or are numbers from the length of the past ("numbered")."""
    w = lambda *shape: random.standard_normal(shape).astype(np.float32) / 2  # noqa: E731
    counted = [
        node("CumSum", ["mask", "axis"], ["counted"]), node("Sub", ["counted", "one"], ["from_0"]), node("Max", ["from_0", "zero"], ["positions"]),
        *([node("Neg", ["tokens"], ["first"])] if positions == "last" else [node("Identity", ["past"], ["first"])]),
        node("Unsqueeze", ["first", "axes0"], ["start"]), node("Slice", ["positions", "start", "open", "axes1"], ["own_positions"])]
    nodes = [
        node("Shape", ["ids"], ["ids_shape"]), node("Gather", ["ids_shape", "one"], ["tokens"]),
        node("Shape", ["past_key"], ["state_shape"]), node("Gather", ["state_shape", "two"], ["past"]),
        *([node("Add", ["past", "tokens"], ["end"]), node("Range", ["past", "end", "one"], ["own_positions"])] if positions == "numbered" else counted),
        node("Gather", ["places", "own_positions"], ["p"]), node("Gather", ["words", "ids"], ["w"]), node("Add", ["w", "p"], ["h"])]
    for part in "qkv":
        nodes += [node("MatMul", ["h", "w" + part], [part + "0"]), node("Reshape", [part + "0", "split"], [part + "1"]),
                  node("Transpose", [part + "1"], [part], perm=[0, 2, 1, 3])]
    nodes += [
        node("Concat", ["past_key", "k"], ["present_key"], axis=2), node("Concat", ["past_value", "v"], ["present_value"], axis=2),
        node("Transpose", ["present_key"], ["turned"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "turned"], ["scores"]),
        node("Cast", ["mask"], ["mask_f"], to=F32), node("Sub", ["one_f", "mask_f"], ["masked"]), node("Mul", ["masked", "lowest"], ["bias"]),
        node("Unsqueeze", ["bias", "axes12"], ["bias4"]), node("Add", ["scores", "bias4"], ["biased"]),
        node("Softmax", ["biased"], ["weights"], axis=-1), node("MatMul", ["weights", "present_value"], ["mixed"]),
        node("Transpose", ["mixed"], ["mixed_t"], perm=[0, 2, 1, 3]), node("Reshape", ["mixed_t", "merge"], ["merged"]),
        node("MatMul", ["merged", "out"], ["logits"])]
    past = ["batch", HEADS, "past_sequence_length", WIDTH // HEADS]
    return save(service, nodes, [("ids", I64, ["batch", tokens]), ("mask", I64, ["batch", together]), ("past_key", F32, past), ("past_value", F32, past)],
                [(name, F32, None) for name in ("logits", "present_key", "present_value")],
                [("axis", np.array(1)), ("one", np.array(1)), ("two", np.array(2)), ("zero", np.array(0)), ("axes0", np.array([0])), ("axes1", np.array([1])),
                 ("axes12", np.array([1, 2])), ("open", np.array([2**63 - 1])), ("split", np.array([0, 0, HEADS, WIDTH // HEADS])),
                 ("merge", np.array([0, 0, WIDTH])), ("one_f", np.float32(1)), ("lowest", np.float32(-1e9)), ("places", w(96, WIDTH)),
                 ("words", w(VOCABULARY, WIDTH)), ("out", w(WIDTH, VOCABULARY)), *(("w" + part, w(WIDTH, WIDTH)) for part in "qkv")])


def fused_decoder(service, random, kind, tokens, together):
    """One attention layer as ONNX Runtime's optimizer and exporters write it, after an embedding: "multi-head" with a
    mask bias, "grouped" queries with rotary embedding, or "packed", with keys and values in one state. "grouped" has
    heads of 16 elements, as ONNX Runtime requires."""
    w = lambda *shape: random.standard_normal(shape).astype(np.float32) / 4  # noqa: E731
    heads, groups, size = (4, 2, 16) if kind == "grouped" else (HEADS, HEADS, WIDTH // HEADS)
    width, microsoft = heads * size, {"domain": "com.microsoft", "num_heads": heads}
    past, names = ["batch", groups, "past_sequence_length", size], ["past_key", "past_value"]
    projected = [node("Gather", ["words", "ids"], ["h"]), *(node("MatMul", ["h", "w" + part], [part]) for part in "qkv")]
    if kind == "multi-head":
        attention = [node("Cast", ["mask"], ["mask_f"], to=F32), node("Sub", ["one_f", "mask_f"], ["masked"]), node("Mul", ["masked", "lowest"], ["bias"]),
                     node("Unsqueeze", ["bias", "axes12"], ["bias4"]), node("Shape", ["ids"], ["ids_shape"]), node("Slice", ["ids_shape", "one", "two"], ["tokens"]),
                     node("Shape", ["mask"], ["mask_shape"]), node("Slice", ["mask_shape", "zero", "one"], ["batch"]),
                     node("Slice", ["mask_shape", "one", "two"], ["all"]), node("Concat", ["batch", "one", "tokens", "all"], ["sizes"], axis=0),
                     node("Expand", ["bias4", "sizes"], ["added"]),
                     node("MultiHeadAttention", ["q", "k", "v", "", "", "added", *names], ["y", "present_key", "present_value"], **microsoft)]
    elif kind == "grouped":
        attention = [node("ReduceSum", ["mask", "one"], ["counted"], keepdims=0), node("Sub", ["counted", "one"], ["lengths"]),
                     node("Shape", ["mask"], ["mask_shape"]), node("Slice", ["mask_shape", "one", "two"], ["all"]),
                     *(node("Cast", [name], [name + "_32"], to=TensorProto.INT32) for name in ("lengths", "all")),
                     node("GroupQueryAttention", ["q", "k", "v", *names, "lengths_32", "all_32", "cos", "sin"], ["y", "present_key", "present_value"],
                          kv_num_heads=groups, do_rotary=1, **microsoft)]
    else:
        projected, past, names = projected[:1], [2, *past], ["past"]
        attention = [node("Cast", ["mask"], ["mask_32"], to=TensorProto.INT32),
                     node("Attention", ["h", "packed", "shift", "mask_32", "past"], ["y", "present"], unidirectional=1, **microsoft)]
    angles = np.arange(96)[:, None] / 10000 ** (np.arange(size // 2) * 2 / size)
    return save(service, [*projected, *attention, node("MatMul", ["y", "out"], ["logits"])],
                [("ids", I64, ["batch", tokens]), ("mask", I64, ["batch", together]), *((name, F32, past) for name in names)],
                [(name, F32, None) for name in ("logits", *(name.replace("past", "present") for name in names))],
                [("zero", np.array([0])), ("one", np.array([1])), ("two", np.array([2])), ("axes12", np.array([1, 2])), ("one_f", np.float32(1)),
                 ("lowest", np.float32(-1e4)), ("words", w(VOCABULARY, width)), ("wq", w(width, width)), ("wk", w(width, groups * size)),
                 ("wv", w(width, groups * size)), ("packed", w(width, 3 * width)), ("shift", w(3 * width)), ("out", w(width, VOCABULARY)),
                 ("cos", np.cos(angles).astype(np.float32)), ("sin", np.sin(angles).astype(np.float32))], microsoft=True)


def fused_inputs(random, path, past, batch, tokens):
    sizes = {"batch": batch, "past_sequence_length": past, "tokens": tokens}
    shapes = {each.name: [dim.dim_value or sizes[dim.dim_param] for dim in each.type.tensor_type.shape.dim]
              for each in onnx.load(path).graph.input if each.name.startswith("past")}
    arrays = {name: f32s(random, *shape) for name, shape in shapes.items()}
    return arrays | {"ids": random.integers(0, VOCABULARY, (batch, tokens)), "mask": np.ones((batch, past + tokens), np.int64)}


def decoder_inputs(random, past, batch, tokens):
    mask = np.ones((batch, past + tokens), np.int64)
    mask[0, :past // 2] = 0  # padded on the left
    state = lambda: f32s(random, batch, HEADS, past, WIDTH // HEADS)  # noqa: E731
    return {"ids": random.integers(0, VOCABULARY, (batch, tokens)), "mask": mask, "past_key": state(), "past_value": state()}


def test_decoders_step_by_step(service, oracle):
    random = np.random.default_rng(41)
    path = decoder(service, random, 1, "past_sequence_length + 1")
    sizes = [(past, batch) for past in (0, 1, 2, 3, 7, 8, 17, 62, 63) for batch in (1, 3, 4)]
    ranged_against_oracle(service, oracle, path, {"past_sequence_length": "0..63", "batch": "1..4"}, sizes,
                          lambda past, batch: decoder_inputs(random, past, batch, 1), "a decoder, token by token", threads=("2",))


def test_decoders_of_several_tokens(service, oracle):
    random = np.random.default_rng(42)
    sizes = [(0, 1), (0, 9), (1, 1), (5, 4), (16, 1), (23, 12), (31, 2)]
    for positions in ("last", "behind", "numbered"):
        path = decoder(service, random, "tokens", "past_sequence_length + tokens", positions)
        ranged_against_oracle(service, oracle, path, {"past_sequence_length": "0..31", "tokens": "..12", "batch": "1"}, sizes,
                              lambda past, tokens: decoder_inputs(random, past, 1, tokens), f"a decoder of several tokens, {positions}", threads=("2",))


def test_fused_decoders(service, oracle):
    random = np.random.default_rng(45)
    for kind in ("multi-head", "grouped", "packed"):
        path = fused_decoder(service, random, kind, 1, "past_sequence_length + 1")
        ranged_against_oracle(service, oracle, path, {"past_sequence_length": "0..33", "batch": "1..3"}, [(0, 1), (1, 3), (7, 2), (16, 1), (32, 3), (33, 2)],
                              lambda past, batch, path=path: fused_inputs(random, path, past, batch, 1), f"{kind}, token by token", threads=("2",))
        path = fused_decoder(service, random, kind, "tokens", "past_sequence_length + tokens")
        ranged_against_oracle(service, oracle, path, {"past_sequence_length": "0..17", "tokens": "..6", "batch": "1"}, [(0, 1), (0, 6), (5, 3), (16, 2), (17, 5)],
                              lambda past, tokens, path=path: fused_inputs(random, path, past, 1, tokens), f"{kind}, several tokens", threads=("2",))
    # A mask with a dimension name of its own: grouped queries depend on its length only.
    path = fused_decoder(service, random, "grouped", "tokens", "total_sequence_length")
    ranged_against_oracle(service, oracle, path, {"past_sequence_length": "0..9", "tokens": "..4", "total_sequence_length": "..13", "batch": "1"},
                          [(0, 3), (4, 1), (9, 4)], lambda past, tokens, path=path: fused_inputs(random, path, past, 1, tokens), "a mask by itself", threads=("2",))


def test_what_a_request_says(service, oracle):
    """A mask with a dimension name of its own, declared to follow from others."""
    random = np.random.default_rng(46)
    path = decoder(service, random, "tokens", "total")
    ranged_against_oracle(service, oracle, path, {"past_sequence_length": "0..20", "tokens": "..5", "batch": "1", "total": "past_sequence_length + tokens"},
                          [(0, 1), (0, 5), (9, 2), (20, 5)], lambda past, tokens, *_: decoder_inputs(random, past, 1, tokens), "a total that is said to be the sum",
                          threads=("2",))
    with tessera.connect(service.address) as client:
        artifact = client.compile(path, dims={"past_sequence_length": "..20", "tokens": 1, "batch": 1, "total": "past_sequence_length + tokens"}).artifact
        inputs = decoder_inputs(random, 6, 1, 1)
        same(artifact.load()(inputs), oracle.load(path).run(inputs)[0], "the same from Python")
    answer = service.cli("compile", path, "--dim", "past_sequence_length=..9", "--dim", "tokens=1", "--dim", "batch=1", "--dim", "total=past + tokens", expect=None).err
    check("'total' cannot follow from 'past + tokens'" in answer and "past_sequence_length" in answer, answer)


def test_arithmetic_in_names(service, oracle):
    """x of 2N and y of N: pairs of elements of x, x without its last element, all concatenated."""
    random = np.random.default_rng(43)
    nodes = [node("Concat", ["y", "y"], ["yy"], axis=0), node("Add", ["yy", "x"], ["sum"]),
             node("Slice", ["x", "zero", "open", "axes", "two"], ["evens"]), node("Add", ["evens", "half"], ["halves"]),
             node("Slice", ["y", "zero", "last", "axes"], ["front"]), node("Add", ["front", "short"], ["shortened"]),
             node("Conv", ["image", "kernel"], ["strided"], strides=[2], pads=[1, 1]), node("Add", ["strided", "map"], ["mapped"])]
    path = save(service, nodes,
                [("x", F32, ["2*N", 3]), ("y", F32, ["N", 3]), ("half", F32, ["(2*N)/2", 3]), ("short", F32, ["N - 1", 3]),
                 ("image", F32, [1, 2, "N"]), ("map", F32, [1, 4, "floor(N/2 - 1/2) + 1"])],
                [(name, F32, None) for name in ("sum", "halves", "shortened", "mapped")],
                [("zero", np.array([0])), ("open", np.array([2**63 - 1])), ("axes", np.array([0])), ("two", np.array([2])),
                 ("last", np.array([-1])), ("kernel", f32s(random, 4, 2, 3))])
    ranged_against_oracle(service, oracle, path, {"N": "2..14"}, [(n,) for n in range(2, 15)],
                          lambda n: {"x": f32s(random, 2 * n, 3), "y": f32s(random, n, 3), "half": f32s(random, n, 3), "short": f32s(random, n - 1, 3),
                                     "image": f32s(random, 1, 2, n), "map": f32s(random, 1, 4, (n - 1) // 2 + 1)},
                          "arithmetic in names", threads=("2",))


def test_others_are_refused(service):
    random = np.random.default_rng(44)
    path = decoder(service, random, 1, "past_sequence_length + 1")
    compiled = service.compile(path, None, "--dim", "past_sequence_length=..9", "--dim", "batch=1")
    long = dict(decoder_inputs(random, 4, 1, 1), mask=np.ones((1, 8), np.int64))
    given, said = service.scratch("long.npz"), "input 'mask' has 8 along 'past_sequence_length + 1', which is 5 for past_sequence_length=4"
    save_npz(given, long)
    for words in ((), ("--guard",), ("--sandbox",)):
        answer = service.cli("run", compiled.artifact, "--input", given, *words, expect=None)
        check(answer.code != 0 and said in answer.err + answer.out, f"{words}: {answer}")
    try:
        tessera.load(compiled.artifact).session().run(long)
        check(False, "a mask of another length ran from Python")
    except tessera.errors.InvalidInput as error:
        check(said in str(error), str(error))
    # Sizes by name only, here, in the sandbox and on a worker.
    for words in ((), ("--sandbox",)):
        answer = service.cli("run", compiled.artifact, "--random", "--dim", "past_sequence_length=4", *words).out
        check("float32[1,2,5,4]" in answer, f"{words}: {answer}")
    profiled = service.cli("profile", compiled.job["compile_result"]["artifact_id"], "--dim", "past_sequence_length=4", "--repeat", "1", "--json").json
    check(profiled["result"]["kernels"], "cannot be profiled")
    for given, said in ((["past_sequence_length + 1=1..80"], "derived from other"), (["past_sequence_length + 1=1,2"], "derived from other")):
        answer = service.cli("compile", path, "--dim", "past_sequence_length=..9", "--dim", "batch=1",
                             *(word for each in given for word in ("--dim", each)), expect=None)
        check(answer.code != 0 and said in answer.err and "leave it out" in answer.err, f"{given}: {answer.err}")
    answer = service.cli("compile", path, "--dim", "batch=1", expect=None).err
    check("--dim past_sequence_length=1" in answer and "+ 1=" not in answer, answer)
    # An expression with a symbol that no input has is an ordinary name.
    unknown = decoder(service, random, 1, "total + 1")
    answer = service.cli("compile", unknown, "--dim", "past_sequence_length=4", "--dim", "batch=1", expect=None).err
    check("--dim 'total + 1=1'" in answer, answer)
    exact = service.compile(unknown, None, "--dim", "past_sequence_length=4", "--dim", "batch=1", "--dim", "total + 1=5")
    check_equal(exact.job["state"], "SUCCEEDED", "each size given")
    report = service.cli("check", path, "--json", expect=None).json
    check_equal(report["unbound_dimensions"], ["batch", "past_sequence_length"], "what a check says to bind")
