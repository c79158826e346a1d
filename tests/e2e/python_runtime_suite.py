"""The Python package, artifacts in this process: all element types and odd shapes, no copies, threads, and wrong inputs."""

import os
import resource
import threading
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e import python_package
from e2e.tessera_e2e import model_inputs, model_path, shapes_of
from oracle.oracle import difference

python_package.install()
import tessera
from tessera import errors, torch_export

TOLERANCE = 1e-4  # of the output's largest magnitude
MODELS = ("mlp", "conv:h=17,w=19,stride=2,relu=1", "bert_tiny")
GEMM = "input A[M, K], B[K, N]: f32; C[i, j] += A[i, k] * B[k, j];"
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool")
PROTO = {"float32": "FLOAT", "float64": "DOUBLE"}


def raised(kind, function, *words, **fields):
    """The exception that `function` raises: of that type, with these words and fields."""
    try:
        result = function()
    except errors.TesseraError as error:
        check(isinstance(error, kind), f"{type(error).__name__}, expected {kind.__name__}: {error}")
        for word in words:
            check(word in str(error), f"no '{word}' in: {error}")
        for name, value in fields.items():
            check_equal(getattr(error, name), value, f"field {name} of {error!r}")
        return error
    raise AssertionError(f"nothing was raised, but {result!r} answered")


class Bench:
    """A service, its client, the oracle."""

    def __init__(self, service, oracle):
        self.service = service
        self.oracle = oracle
        self.client = tessera.connect(service.address)

    def load(self, model, threads=1, **options):
        return self.client.compile(model, **options).artifact.load(threads)

    def gemm(self, m, k, n, threads=1):
        return self.load(GEMM.encode(), format="te", threads=threads, shapes={"A": (m, k), "B": (k, n)})


def onnx_model(nodes, inputs, outputs):
    """Bytes of a model; inputs and outputs: name -> (type, shape)."""
    def infos(described):
        return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in described.items()]
    graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model


def gemm_inputs(m, k, n, seed=0):
    random = np.random.default_rng(seed)
    return {"A": random.standard_normal((m, k)).astype(np.float32), "B": random.standard_normal((k, n)).astype(np.float32)}


def compare(outputs, expected, what):
    check_equal(sorted(outputs), sorted(expected), f"outputs of {what}")
    for name, wanted in expected.items():
        _, relative = difference(outputs[name], wanted)
        check(relative <= TOLERANCE, f"{what}, {name}: off by {relative:.3g} of its largest magnitude, tolerance {TOLERANCE:g}")


# Results.

@pytest.fixture(scope="module")
def bench(service, oracle):
    return Bench(service, oracle)


def test_models_match_onnxruntime(bench):
    for spec in MODELS:
        session = bench.oracle.load(model_path(spec))
        for batch in (1, 3):
            arrays = model_inputs(spec, batch)
            expected, _ = session.run(arrays)
            for threads in (1, 2):
                model = bench.load(model_path(spec), threads=threads, shapes=shapes_of(arrays))
                compare(model(**arrays), expected, f"{spec} batch {batch}, {threads} threads")
                compare(model(arrays), expected, f"{spec} by a mapping")
                compare(model(*[arrays[tensor.name] for tensor in model.inputs]), expected, f"{spec} by position")
        session.close()


def test_odd_shapes_of_products(bench):
    for m, k, n in ((1, 1, 1), (1, 7, 1), (13, 1, 17), (31, 37, 41), (64, 64, 64)):
        arrays = gemm_inputs(m, k, n)
        compare(bench.gemm(m, k, n)(**arrays), {"C": arrays["A"] @ arrays["B"]}, f"{m}x{k}x{n}")


def test_every_element_type(bench):
    random = np.random.default_rng(2)
    for name in TYPES:
        kind = getattr(TensorProto, PROTO.get(name, name.upper()))
        model = onnx_model([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], {"x": (kind, [3, 5])},
                           {"y": (kind, [3, 10])})
        loaded = bench.load(model)
        check_equal(loaded.inputs[0].dtype, name, "type")
        bits = random.integers(0, 2 if name == "bool" else 100, (3, 5))
        array = bits.astype("uint16" if name == "bfloat16" else name)
        result = loaded(x=array)["y"]
        check_equal(result.dtype, array.dtype, "type of the result")
        np.testing.assert_array_equal(result, np.concatenate([array, array], axis=1))


def test_scalars_and_nothing(bench):
    scalar = onnx_model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": (TensorProto.FLOAT, [])},
                        {"y": (TensorProto.FLOAT, [])})
    loaded = bench.load(scalar)
    for value in (np.float32(2.5), np.array(2.5, np.float32)):
        result = loaded(x=value)["y"]
        check_equal((result.shape, float(result)), ((), 5.0), "scalar")
    empty = onnx_model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": (TensorProto.FLOAT, [0, 3])},
                       {"y": (TensorProto.FLOAT, [0, 3])})
    check_equal(bench.load(empty)(x=np.empty((0, 3), np.float32))["y"].shape, (0, 3), "shape of nothing")


def test_names_that_are_no_identifiers(bench):
    model = onnx_model([helper.make_node("Neg", ["input.1"], ["<out>"])], {"input.1": (TensorProto.FLOAT, [3])},
                       {"<out>": (TensorProto.FLOAT, [3])})
    loaded = bench.load(model)
    np.testing.assert_array_equal(loaded({"input.1": np.ones(3, np.float32)})["<out>"], -np.ones(3))
    shown = loaded._repr_html_()
    check("&lt;out&gt;" in shown and "<out>" not in shown, f"names are not escaped: {shown}")


def test_variants_by_shapes(bench):
    spec = "mlp"
    loaded = bench.load(model_path(spec), dims={"N": (1, 3, 8)})
    check_equal([variant.dimensions for variant in loaded.variants], [{"N": 1}, {"N": 3}, {"N": 8}], "variants")
    session = bench.oracle.load(model_path(spec))
    for batch in (8, 1, 3, 1, 8):
        arrays = {name: array[np.arange(batch) % 3] for name, array in model_inputs(spec, 3).items()}
        expected, _ = session.run(arrays)
        compare(loaded(**arrays), expected, f"batch {batch}")
    session.close()
    arrays = {name: array[:2] for name, array in model_inputs(spec, 3).items()}
    raised(errors.InvalidInput, lambda: loaded(**arrays), "x=2x784", "N=8", reason="INVALID_INPUT")
    check_equal(len(bench.load(GEMM.encode(), format="te", shapes={"A": [(2, 3), (5, 3)], "B": [(3, 4), (3, 4)]}).variants),
                2, "variants of shapes in parallel")


def test_ranges_take_every_size(bench):
    spec = "conv:h=17,w=19,stride=2,relu=1"
    loaded = bench.load(model_path(spec), dims={"N": "1..6"})
    check_equal([variant.dimensions for variant in loaded.variants], [{"N": -1}, {"N": -2}, {"N": -4}, {"N": -6}], "variants")
    session = bench.oracle.load(model_path(spec))
    for batch in (3, 1, 6, 5, 4, 2):
        arrays = {name: array[np.arange(batch) % 3] for name, array in model_inputs(spec, 3).items()}
        expected, _ = session.run(arrays)
        compare(loaded(**arrays), expected, f"batch {batch}")
        compare(loaded(**arrays, N=np.array(batch)), expected, f"batch {batch}, told")
    session.close()
    raised(errors.InvalidInput, lambda: loaded(**arrays, N=np.array(7)), "takes 0 to 2")
    arrays = {name: np.concatenate([array, array, array[:1]]) for name, array in arrays.items()}
    raised(errors.InvalidInput, lambda: loaded(**arrays, N=np.array(6)), "contradicts", reason="INVALID_INPUT")
    raised(errors.InvalidInput, lambda: bench.load(model_path(spec), dims={"N": "6..1"}), "no range")
    raised(errors.InvalidInput, lambda: bench.load(model_path(spec), dims={"N": "..6,..6"}), "no range")
    chosen = bench.load(model_path(spec), dims={"N": "..6,..2"})
    check_equal([variant.dimensions for variant in chosen.variants], [{"N": -2}, {"N": -6}], "sizes named one by one")


def test_results_as_long_as_the_data_say(bench):
    model = onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": (TensorProto.FLOAT, [5, 7])},
                       {"y": (TensorProto.INT64, [2, None])})
    loaded = bench.load(model)
    check_equal(loaded.outputs[0].bounded_dims, (1,), "bounded dimensions")
    random = np.random.default_rng(3)
    for share in (0.0, 0.1, 0.5, 1.0):
        x = (random.uniform(size=(5, 7)) < share).astype(np.float32)
        np.testing.assert_array_equal(loaded(x=x)["y"], np.stack(np.nonzero(x)))


def test_fixed_inputs_may_be_left_out(bench):
    model = onnx_model([helper.make_node("Reshape", ["x", "shape"], ["y"])],
                       {"x": (TensorProto.FLOAT, [2, 3]), "shape": (TensorProto.INT64, [2])}, {"y": (TensorProto.FLOAT, None)})
    loaded = bench.load(model, fixed={"shape": np.array([3, 2])})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in ({"x": x}, {"x": x, "shape": np.array([3, 2])}):
        np.testing.assert_array_equal(loaded(given)["y"], x.reshape(3, 2))
    raised(errors.InvalidInput, lambda: loaded(x=x, shape=np.array([6, 1])), "'shape'", "[6, 1]", reason="INVALID_INPUT")


def test_defaults_may_be_left_out(bench):
    x, bias = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 10, np.float32)
    graph = helper.make_graph([helper.make_node("Add", ["x", "bias"], ["y"])], "g",
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "bias")],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
                              [numpy_helper.from_array(bias, "bias")])
    loaded = bench.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    np.testing.assert_array_equal(loaded.inputs[1].default, bias)
    check(loaded.inputs[1].value is None, "a default is no fixed value")
    for given, wanted in (({"x": x}, x + 10), ({"x": x, "bias": -bias}, x - 10), ({"x": x}, x + 10)):
        np.testing.assert_array_equal(loaded(given)["y"], wanted)
    raised(errors.InvalidInput, lambda: loaded(bias=bias), "x", reason="INVALID_INPUT")


def test_a_branch_that_does_not_fit_is_an_error_of_its_runs(bench):
    branches = [helper.make_graph([helper.make_node("Constant", [], [f"{name} shape"], value_ints=shape),
                                   helper.make_node("Reshape", ["x", f"{name} shape"], [name])], name, [],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
                for name, shape in (("fits", [3, 2]), ("does not", [4, 2]))]
    model = onnx_model([helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
                       {"x": (TensorProto.FLOAT, [2, 3]), "c": (TensorProto.BOOL, [])}, {"y": (TensorProto.FLOAT, None)})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    loaded = bench.load(model)
    for _ in range(2):
        np.testing.assert_array_equal(loaded(x=x, c=np.array(True))["y"], x.reshape(3, 2))
        raised(errors.InvalidInput, lambda: loaded(x=x, c=np.array(False)), "the run takes the else_branch",
               "give input 'c' another value", reason="INVALID_INPUT")
    session = loaded.session()
    raised(errors.InvalidInput, lambda: session(x=x, c=np.array(False)), "the run takes the else_branch")


# Memory and threads.

def test_nothing_is_copied(bench):
    rows = 1 << 16
    model = onnx_model([helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)],
                       {"x": (TensorProto.FLOAT, [rows, 1024])}, {"y": (TensorProto.FLOAT, [rows])})
    loaded = bench.load(model)
    x = np.full((rows, 1024), 2, np.float32)  # 256 MiB
    x.setflags(write=False)
    result = np.zeros(rows, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outputs = loaded.run({"x": x}, {"y": result})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(outputs["y"] is result and (result == 2).all(), "the given array was not written to")
    check(grown < 64 << 10, f"the run took {grown} KiB more at its peak; its input has 262144")


def test_tensors_of_pytorch(bench):
    torch = torch_or_skip()
    loaded = bench.gemm(3, 5, 7)
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    outputs = loaded(A=a, B=b)
    torch.testing.assert_close(torch.from_dlpack(outputs["C"]), a @ b, rtol=1e-4, atol=1e-5)
    shared = torch.from_dlpack(outputs["C"])
    shared += 1
    check_equal(float(outputs["C"][0, 0]), float(shared[0, 0]), "memory shared with the tensor")
    raised(errors.InvalidInput, lambda: loaded(A=a.double(), B=b), "float64 [3, 5]", attribute="A")
    raised(errors.InvalidInput, lambda: loaded(A=a.t().contiguous().t(), B=b), "densely", attribute="A")
    raised(errors.InvalidInput, lambda: loaded(A=a.requires_grad_(), B=b), "DLPack", attribute="A")


def test_others_run_meanwhile(bench):
    """The GIL is released: another Python thread runs in the middle of a long run."""
    n = 512
    loaded = bench.gemm(n, 1 << 14, n)
    arrays = gemm_inputs(n, 1 << 14, n)
    loaded(**arrays)
    ticks, ended = [], threading.Event()

    def tick():
        while not ended.wait(0.0005):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.monotonic()
    while time.monotonic() - start < 60:  # until a tick occurs in the middle of a run, at most for a minute
        begin = time.monotonic()
        loaded(**arrays)
        end = time.monotonic()
        if any(begin + (end - begin) / 4 < when < end - (end - begin) / 4 for when in list(ticks)):
            break
        ticks.clear()
    else:
        ended.set()
        raise AssertionError("no other thread ran in the middle of any run")
    ended.set()
    ticker.join()


def test_threads_share_a_model(bench):
    loaded = bench.gemm(33, 65, 17, threads=2)
    wrong = []

    def work(seed):
        arrays = gemm_inputs(33, 65, 17, seed)
        wanted = arrays["A"] @ arrays["B"]
        for _ in range(200):
            if not np.allclose(loaded(**arrays)["C"], wanted, atol=1e-3):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_equal(wrong, [], "threads that got another's result")


def test_a_session_runs_once_at_a_time(bench):
    session = bench.gemm(256, 1 << 12, 256).session()
    arrays = gemm_inputs(256, 1 << 12, 256)
    wanted = arrays["A"] @ arrays["B"]
    refused, results, give_up = [], [], time.monotonic() + 60

    def work():
        while not refused and time.monotonic() < give_up:
            try:
                results.append(session.run(arrays)["C"])
            except errors.Busy as busy:
                refused.append(busy)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(refused and "for each thread" in refused[0].fix, f"two runs of one session at once: {refused}")
    for result in results:
        compare({"C": result}, {"C": wanted}, "a run concurrent with a rejected one")


def test_a_forked_child_runs_too(bench):
    loaded = bench.gemm(16, 16, 16, threads=2)
    arrays = gemm_inputs(16, 16, 16)
    wanted = loaded(**arrays)["C"]
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(loaded(**arrays)["C"], wanted) else 1)
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return check_equal(os.waitstatus_to_exitcode(status), 0, "exit code of the child")
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def test_sessions_outlive_their_model(bench):
    session = bench.gemm(3, 4, 5).session()
    arrays = gemm_inputs(3, 4, 5)
    compare(session(**arrays), {"C": arrays["A"] @ arrays["B"]}, "a session whose model is gone")
    check(len(session.profile(arrays)) >= 1, "no step was timed")


# Rejected inputs.

def test_a_session_goes_over_to_another_artifact(bench):
    inputs = gemm_inputs(7, 5, 3)
    plain = bench.load(GEMM.encode(), format="te", shapes={"A": (7, 5), "B": (5, 3)}, opt_level=1)
    full, session = bench.gemm(7, 5, 3), plain.session()
    before = session(inputs)["C"]
    session.replace(full)
    compare(session(inputs), {"C": before}, "after it went over")
    check_equal(len(session.profile(inputs)), len(full.steps), "steps of the other artifact")
    raised(errors.InvalidInput, lambda: session.replace(bench.gemm(7, 5, 4)))
    compare(session(inputs), {"C": before}, "after it refused another model's")
    del plain, full
    compare(session(inputs), {"C": before}, "without the models")


def test_wrong_inputs_are_named(bench):
    loaded = bench.gemm(7, 5, 3)
    good = gemm_inputs(7, 5, 3)
    a, b = good["A"], good["B"]
    cases = (
        ({"A": a}, "B", ("is missing", "B: float32 [5, 3]")),
        ({}, "A", ("is missing", "none")),
        ({"A": a, "B": None}, "B", ("is missing",)),
        ({**good, "c": b}, "c", ("there is no input 'c'", "A, B")),
        ({"A": a.astype(np.float64), "B": b}, "A", ("float64 [7, 5]", "float32 [7, 5]", "A.astype('float32')")),
        ({"A": a.astype(">f4"), "B": b}, "A", ("element type",)),
        ({"A": a[:, :4], "B": b}, "A", ("another shape", "[7, 4]")),
        ({"A": a.T, "B": b}, "A", ("another shape", "[5, 7]")),
        ({"A": a.ravel(), "B": b}, "A", ("another shape", "[35]")),
        ({"A": np.asfortranarray(a), "B": b}, "A", ("densely", "ascontiguousarray(A)")),
        ({"A": np.repeat(a, 2, axis=1)[:, ::2], "B": b}, "A", ("densely",)),
        ({"A": np.frombuffer(bytearray(141), np.float32, 35, 1).reshape(7, 5), "B": b}, "A", ("densely",)),
        ({"A": a.tolist(), "B": b}, "A", ("no array", "list", "__dlpack__")),
        ({"A": "a", "B": b}, "A", ("no array", "str")),
        ({"A": np.float32(1), "B": b}, "A", ("another shape",)),
        ({"A": np.array([["a"] * 5] * 7), "B": b}, "A", ("element type",)),
    )
    for arrays, name, words in cases:
        error = raised(errors.InvalidInput, lambda given=arrays: loaded(given), *words, attribute=name, reason="INVALID_INPUT")
        check(isinstance(error, ValueError), "no ValueError")
    raised(errors.InvalidInput, lambda: loaded(a, b, a), "3 arrays")
    raised(errors.InvalidInput, lambda: loaded(a, A=a), "twice")
    compare(loaded(**good), {"C": a @ b}, "after all that")


def test_wrong_results_arrays_are_named(bench):
    loaded = bench.gemm(4, 4, 4)
    good = gemm_inputs(4, 4, 4)
    read_only = np.zeros((4, 4), np.float32)
    read_only.setflags(write=False)
    for array, words in ((np.zeros((4, 5), np.float32), "shape"), (np.zeros((4, 4)), "element type"),
                         (np.zeros((4, 4), np.float32, order="F"), "densely"), (read_only, "read-only"), ([1], "NumPy array")):
        raised(errors.InvalidInput, lambda given=array: loaded.run(good, {"C": given}), words, attribute="C")
    raised(errors.InvalidInput, lambda: loaded.run(good, {"D": good["A"]}), "no output 'D'")
    raised(errors.InvalidInput, lambda: loaded.run(good, {"C": good["A"]}), "overlap")


def test_files_that_are_no_artifacts(bench):
    service = bench.service
    good = bench.client.compile(GEMM.encode(), format="te", shapes={"A": (2, 2), "B": (2, 2)}).artifact.save(service.scratch("a.tsra"))
    check_equal(tessera.load(good).inputs[0].shape, (2, 2), "shape")
    data = good.read_bytes()
    for name, text in (("empty", b""), ("text", b"hello"), ("half", data[:len(data) // 2]),
                       ("turned", data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])):
        path = service.scratch(f"{name}.tsra")
        path.write_bytes(text)
        raised(errors.CorruptArtifact, lambda p=path: tessera.load(p, trust=False))
        if text.startswith(b"PK"):
            raised(errors.InvalidInput, lambda p=path: tessera.load(p), "no trusted signature", "trust=False")
        else:
            raised(errors.InvalidInput, lambda p=path: tessera.load(p), "is not an artifact", "tessera compile")
    raised(errors.NotFound, lambda: tessera.load("/nowhere/a.tsra"), "/nowhere/a.tsra")
    raised(errors.InvalidInput, lambda: tessera.load(service.folder), "is not an artifact")
    raised(errors.InvalidInput, lambda: tessera.load(7), "int")
    for threads in (0, -1, 1025, "2"):
        raised(errors.InvalidInput, lambda n=threads: tessera.load(good, n), "1 to 1024", attribute="threads")
    other = bench.client.compile(GEMM.encode(), "aarch64" if os.uname().machine == "x86_64" else "x86-64-v3", format="te",
                                 shapes={"A": (2, 2), "B": (2, 2)}).artifact
    raised(errors.IncompatibleHost, other.load, reason="INCOMPATIBLE_HOST")


# Inputs with the shape of others.

def test_in_the_shape_of_onnxruntime(bench):
    spec = "mlp"
    session = bench.oracle.load(model_path(spec))
    deferred = tessera.InferenceSession(model_path(spec), client=bench.client)  # its batch is open
    raised(errors.UnboundDimension, deferred.get_inputs, "shapes=")
    for batch in (1, 3, 1):
        arrays = model_inputs(spec, batch)
        expected, _ = session.run(arrays)
        compare(dict(zip(session.outputs, deferred.run(None, arrays))), expected, f"batch {batch}")
        fortran = {name: np.asfortranarray(array) for name, array in arrays.items()}
        compare(dict(zip(session.outputs, deferred.run(session.outputs, fortran))), expected, "columns first")
    arrays = model_inputs(spec, 3)
    options = tessera.SessionOptions(intra_op_num_threads=2)
    bound = tessera.InferenceSession(model_path(spec), options, ["CPUExecutionProvider"], client=bench.client, dims={"N": 3})
    described = [(each.name, each.type, each.shape) for each in bound.get_inputs()]
    check_equal(described, [(name, "tensor(float)", list(array.shape)) for name, array in arrays.items()], "inputs")
    check_equal([each.name for each in bound.get_outputs()], session.outputs, "outputs")
    expected, _ = session.run(arrays)
    compare(dict(zip(session.outputs, bound.run(None, arrays))), expected, "bound")
    session.close()
    path = bench.client.compile(model_path(spec), dims={"N": 3}).artifact.save(bench.service.scratch("m.tsra"))
    compare(dict(zip(session.outputs, tessera.InferenceSession(path).run(None, arrays))), expected, ".tsra")
    raised(errors.InvalidInput, lambda: bound.run(["nope"], arrays), "no output 'nope'")
    raised(errors.InvalidInput, lambda: bound.run(None, {}), "is missing")
    raised(errors.InvalidModel, lambda: tessera.InferenceSession(b"\x08\x07garbage", client=bench.client))


def torch_or_skip():
    try:
        import torch
    except ImportError as missing:
        pytest.skip(str(missing))
    return torch


def test_modules_of_pytorch(bench):
    torch = torch_or_skip()
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 7, 3, stride=2), torch.nn.BatchNorm2d(7), torch.nn.ReLU(), torch.nn.Dropout(),
                              torch.nn.Flatten(), torch.nn.Linear(7 * 8 * 5, 11))
    net.train()
    image = torch.randn(1, 3, 17, 11)
    compilation = torch_export.compile(net, (image,), client=bench.client, dynamic_axes={"input_0": {0: "N"}},
                                       dims={"N": (1, 5)})
    loaded = compilation.artifact.load()
    check(net.training, "the module was left in another mode")
    net.eval()
    for batch in (1, 5):
        image = torch.randn(batch, 3, 17, 11)
        with torch.no_grad():
            torch.testing.assert_close(torch.from_dlpack(loaded(image)["output_0"]), net(image), rtol=1e-4, atol=1e-5)
    raised(errors.InvalidInput, lambda: torch_export.export(net, (image,), input_names=["a", "b"]), "2 names for 1")


def test_the_model_describes_itself(bench):
    loaded = bench.gemm(7, 5, 3)
    check_equal(repr(loaded), "<tessera.Model A: float32 [7, 5], B: float32 [5, 3] -> C: float32 [7, 3]>", "repr")
    check_equal(loaded.steps["flops"], [2 * 7 * 5 * 3], "operations")
    check("name" in repr(loaded.steps) and "<table>" in loaded.steps._repr_html_(), "steps are no table")
