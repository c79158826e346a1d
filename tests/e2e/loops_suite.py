"""Loop, Scan and recurrent layers that stay loops: random bodies, counts given by a run or computed from data, nested
loops, compared with ONNX Runtime. Compile time does not depend on the number of iterations. Runs that take a branch of an If
that does not work for the sizes are errors, as in ONNX Runtime.

    pytest tests/e2e/loops_suite.py --seeds FIRST:COUNT [--target NAME]     runs other seeds than CI's
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from checks import check, check_equal
from e2e.tessera_e2e import save_npz
from oracle.oracle import OracleError, difference

EXTENTS = (1, 2, 3, 5, 7, 16, 17, 33)
TOLERANCE = 1e-4  # of the largest magnitude: forty iterations accumulate rounding errors
FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


class Graph:
    """A graph under construction; bodies share the numbering of names with the outer graph."""

    def __init__(self, names=None):
        self.nodes, self.inputs, self.outputs, self.constants, self.arrays = [], [], [], {}, {}
        self.names = names if names is not None else iter(f"v{i}" for i in range(1 << 30))

    def op(self, kind, *inputs, outputs=1, **attributes):
        made = [next(self.names) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, made, **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, array):
        name = next(self.names)
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array))))
        return name

    def weight(self, array):
        name = next(self.names)
        self.constants[name] = np.asarray(array)
        return name

    def input(self, array=None, shape=None, kind=FLOAT):
        name = next(self.names)
        if array is not None:
            self.arrays[name], shape = np.asarray(array), np.shape(array)
            kind = helper.np_dtype_to_tensor_dtype(self.arrays[name].dtype) if hasattr(
                helper, "np_dtype_to_tensor_dtype") else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[self.arrays[name].dtype]
        self.inputs.append(value(name, shape, kind))
        return name

    def output(self, name, shape=None, kind=FLOAT):
        # Each result has a node of its own, because a body may return one value twice, or an input.
        self.outputs.append(value(self.op("Identity", name), shape, kind))

    def proto(self, name="body"):
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs,
                                 [numpy_helper.from_array(array, key) for key, array in self.constants.items()])

    def save(self, path):
        onnx.save(helper.make_model(self.proto("loops"), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Drawn:
    """Draws loop bodies: states and captured values are matrices of a few extents."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.graph = Graph()

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def sometimes(self, share=0.5):
        return self.random.random() < share

    def floats(self, *shape, scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def step(self, body, values, shape, depth=0):
        """Some operations on values of one shape, some of them captured, bounded so that no state grows."""
        made = list(values)
        for _ in range(int(self.random.integers(1, 5))):
            kind = self.pick(("Add", "Mul", "Sub", "MatMul", "Tanh", "Softmax", "Slice", "Loop"))
            x, y = self.pick(made), self.pick(made)
            if kind == "MatMul":
                made.append(body.op("MatMul", x, self.pick(self.square)))
            elif kind == "Softmax":
                made.append(body.op("Softmax", x, axis=-1))
            elif kind == "Tanh":
                made.append(body.op("Tanh", x))
            elif kind == "Slice" and shape[0] > 1:
                cut = int(self.random.integers(1, shape[0]))
                ends = [body.op("Slice", x, body.constant(np.array([a])), body.constant(np.array([b])), body.constant(np.array([0])))
                        for a, b in ((cut, shape[0]), (0, cut))]
                made.append(body.op("Concat", *ends, axis=0))
            elif kind == "Loop" and depth == 0:
                made.append(self.loop(body, shape, [x], [y], depth=1)[0])
            else:
                made.append(body.op(kind if kind in ("Add", "Mul", "Sub") else "Add", x, y))
        return body.op("Tanh", made[-1])

    def loop(self, graph, shape, states, captured, depth=0, scans=0):
        """A Loop with these states; returns names of its results. Its count is constant, given by the run, or decided by data."""
        way = self.pick(("fixed", "run", "data"))
        count = self.pick((17, 18, 40) if depth == 0 else (1, 17, 20))
        body = Graph(graph.names)
        number, _ = body.input(shape=[], kind=INT64), body.input(shape=[], kind=BOOL)
        inner = [body.input(shape=shape) for _ in states]
        scaled = body.op("Mul", body.op("Cast", number, to=FLOAT), body.constant(np.float32(0.01)))
        values = [*inner, *captured, body.op("Add", inner[0], scaled)]
        after = [self.step(body, values, shape, depth) for _ in states]
        if len(after) > 1 and self.sometimes():
            after[1] = inner[1]  # an unchanged state
        if way == "data":
            total = body.op("ReduceMean", body.op("Abs", after[0]), keepdims=0)
            late = body.op("Less", number, body.constant(np.int64(count // 2)))
            going = body.op("Or", late, body.op("Less", total, body.constant(np.float32(0.4))))
            body.output(going, [], BOOL)
        else:
            body.output(body.constant(True), [], BOOL)
        for each in after:
            body.output(each, shape)
        for _ in range(scans):
            body.output(self.step(body, [*after, *values], shape, 1), shape)
        trips = graph.weight(np.int64(count)) if depth == 0 else graph.constant(np.int64(count))
        if way == "run" and depth == 0 and scans == 0:
            trips = graph.input(np.int64(self.pick((0, 1, 9, 33))))
        made = graph.op("Loop", trips, graph.constant(True), *states, outputs=len(states) + scans, body=body.proto())
        return made if isinstance(made, list) else [made]

    def loops(self):
        for _ in range(3):
            shape = [int(self.pick(EXTENTS)), int(self.pick(EXTENTS))]
            width = shape[1]
            graph = self.graph
            self.square = [graph.weight(self.floats(width, width, scale=width**-0.5)),
                           graph.input(self.floats(width, width, scale=width**-0.5))]
            states = [graph.input(self.floats(*shape)) for _ in range(int(self.random.integers(1, 4)))]
            captured = [graph.op("Sigmoid", graph.input(self.floats(*shape))), graph.weight(self.floats(*shape))]
            scans = int(self.random.integers(0, 3))
            for result in self.loop(graph, shape, states, captured, scans=scans):
                graph.output(result)
        return self.graph

    def scans(self):
        graph = self.graph
        for _ in range(3):
            steps, rows, width = (int(self.pick(choices)) for choices in ((17, 19, 32), EXTENTS, EXTENTS))
            shape = [rows, width]
            self.square = [graph.weight(self.floats(width, width, scale=width**-0.5))]
            body = Graph(graph.names)
            states = [graph.input(self.floats(*shape)) for _ in range(int(self.random.integers(1, 3)))]
            count = int(self.random.integers(1, 3))
            axes = [int(self.random.integers(0, 3)) for _ in range(count)]
            scanned = [graph.op("Tanh", graph.input(self.floats(*shape[:axis], steps, *shape[axis:]))) for axis in axes]
            inner = [body.input(shape=shape) for _ in states]
            parts = [body.input(shape=shape) for _ in scanned]
            captured = [graph.op("Sigmoid", graph.input(self.floats(*shape)))]
            after = [self.step(body, [*inner, *parts, *captured], shape) for _ in states]
            rows_of = [self.step(body, [*after, *parts], shape, 1) for _ in range(int(self.random.integers(1, 3)))]
            for each in (*after, *rows_of):
                body.output(each, shape)
            made = graph.op("Scan", *states, *scanned, outputs=len(states) + len(rows_of), body=body.proto(),
                            num_scan_inputs=count, scan_input_axes=axes,
                            scan_input_directions=[int(self.sometimes()) for _ in scanned],
                            scan_output_axes=[int(self.random.integers(0, 3)) for _ in rows_of],
                            scan_output_directions=[int(self.sometimes()) for _ in rows_of])
            for result in made:
                graph.output(result)
        return graph

    def recurrent(self):
        graph = self.graph
        for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            for direction, both in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
                steps, batch, inputs, hidden = (int(self.pick(choices)) for choices in ((17, 21), (1, 3), EXTENTS, EXTENTS))
                lengths = graph.input(self.random.integers(1, steps + 1, batch).astype(np.int32)) if self.sometimes() else ""
                first = graph.input(self.floats(both, batch, hidden)) if self.sometimes() else ""
                weights = [graph.weight(self.floats(both, gates * hidden, n, scale=n**-0.5)) for n in (inputs, hidden)]
                attributes = {"hidden_size": hidden, "direction": direction}
                if kind == "GRU":
                    attributes["linear_before_reset"] = int(self.sometimes())
                made = graph.op(kind, graph.input(self.floats(steps, batch, inputs)), *weights,
                                graph.weight(self.floats(both, 2 * gates * hidden, scale=0.2)), lengths, first,
                                outputs=3 if kind == "LSTM" else 2, **attributes)
                for result in made:
                    graph.output(result)
        return graph


def check_close(actual, wanted, what):
    """Decaying states end below the normal numbers of single precision."""
    off, _ = difference(actual, wanted)
    check(off <= TOLERANCE * max(np.abs(wanted).max(initial=0), 1e-30), f"{what} is off by {off:.3g}")


def agrees(service, oracle, graph, what, target="host", arguments=()):
    model = service.scratch(f"{what}.onnx")
    graph.save(model)
    expected, _ = oracle.load(model).run(graph.arrays)
    artifact = service.compile(model, None, *arguments, target=target).artifact
    for threads in (1, 2):
        actual, _ = service.run(artifact, graph.arrays, "--threads", threads)
        for name, wanted in expected.items():
            check_equal(actual[name].shape, wanted.shape, f"{what}: shape of {name}")
            check_close(actual[name], wanted, f"{what}: {name} ({threads} threads)")
    return artifact


def counting(service, iterations, bound=True):
    """Compiles a loop with that many iterations and a small body; returns the cost."""
    graph = Graph()
    body = Graph(graph.names)
    number, _, state = body.input(shape=[], kind=INT64), body.input(shape=[], kind=BOOL), body.input(shape=[4])
    even = body.op("Cast", body.op("Mod", number, body.constant(np.int64(2))), to=FLOAT)
    body.output(body.constant(True), [], BOOL)
    body.output(body.op("Add", body.op("Mul", state, body.constant(np.float32(0.5))), even), [4])
    trips = graph.weight(np.int64(iterations)) if bound else graph.input(np.int64(iterations))
    graph.output(graph.op("Loop", trips, graph.constant(True), graph.input(np.ones(4, np.float32)), body=body.proto()), [4])
    model = service.scratch("counting.onnx")
    graph.save(model)
    return graph, service.compile(model)


def test_size_follows_no_count(service):
    """Artifacts of twenty and of ten million iterations have the same size, to a page, and as many steps."""
    _, few = counting(service, 20)
    _, many = counting(service, 10_000_000)
    sizes = [compiled.artifact.stat().st_size for compiled in (few, many)]
    check(abs(sizes[0] - sizes[1]) <= 4096, f"{sizes} bytes for 20 and 10 million iterations")
    steps = [service.cli("inspect", compiled.artifact, "--json").json["steps"] for compiled in (few, many)]
    check_equal(steps[0], steps[1], "steps")


def test_counts_of_the_run(service):
    graph, compiled = counting(service, 3, bound=False)
    (count, given), = [(name, None) for name, array in graph.arrays.items() if array.dtype == np.int64]
    for trips in (-1, 0, 1, 2, 3, 100, 99_999):
        actual, _ = service.run(compiled.artifact, {**graph.arrays, count: np.int64(trips)})
        state = np.ones(4, np.float32)
        for i in range(max(trips, 0)):
            state = state * np.float32(0.5) + np.float32(i % 2)
        (name, result), = actual.items()
        check(np.array_equal(result, state), f"{trips} iterations: {result}, expected {state}")


def test_endless_rows_are_refused(service):
    """Stacked rows need a known count: the error names the node, and how to fix the count."""
    graph = Graph()
    body = Graph(graph.names)
    body.input(shape=[], kind=INT64), body.input(shape=[], kind=BOOL)
    state = body.input(shape=[3])
    body.output(body.constant(True), [], BOOL)
    body.output(body.op("Tanh", state), [3])
    body.output(state, [3])
    made = graph.op("Loop", graph.input(np.int64(12)), graph.constant(True), graph.input(np.ones(3, np.float32)), outputs=2,
                    body=body.proto())
    for result in made:
        graph.output(result)
    model = service.scratch("endless.onnx")
    graph.save(model)
    answer = service.cli("compile", model, "--target", "host", "--json", "-o", service.scratch("x.tsra"), expect=None)
    check(answer.code != 0 and "--fix" in str(answer), f"{answer}")


def test_guarded(service, oracle):
    """Kernels of bodies stay within their memory, part by part."""
    for seed, draw in ((1, Drawn.scans), (2, Drawn.loops)):
        drawn = Drawn(seed)
        graph = draw(drawn)
        model = service.scratch("guarded.onnx")
        graph.save(model)
        expected, _ = oracle.load(model).run(graph.arrays)
        actual, _ = service.run(service.compile(model).artifact, graph.arrays, "--guard")
        for name, wanted in expected.items():
            check_close(actual[name], wanted, f"{draw.__name__}: {name} under guard")


def runs_agree(service, oracle, model, artifact, runs, words, reason="INVALID_INPUT"):
    """Each of `runs` has ONNX Runtime's results or is an error in both; its message contains all of `words`. Returns the
    number of errors."""
    reference, errors = oracle.load(model), 0
    for arrays in runs:
        try:
            expected, _ = reference.run(arrays)
        except OracleError:
            errors += 1
            given = service.scratch("in.npz")
            save_npz(given, arrays)
            failure = service.cli("run", artifact, "--input", given, "--json", expect=3).failure
            check_equal(failure["reason"], reason, f"{failure}")
            for word in words:
                check(word in failure["message"], f"no '{word}' in: {failure['message']}")
            continue
        actual, _ = service.run(artifact, arrays)
        for name, wanted in expected.items():
            check_equal(actual[name].shape, wanted.shape, f"{model.stem}: shape of {name}")
            check_close(actual[name], wanted, f"{model.stem}: {name}")
    return errors


class Detector:
    """A speech detector like silero VAD: an If on the sampling rate; each branch is a network for windows of one length."""

    def __init__(self):
        self.drawn = Drawn(5)
        self.graph = graph = self.drawn.graph
        names = graph.names
        rate = graph.input(shape=[], kind=INT64)
        window, state = graph.input(shape=[1, "samples"]), graph.input(shape=[1, 1, 32])
        self.names = rate, window, state
        known = graph.op("Equal", rate, graph.constant(np.int64(16000)))
        branches = {}
        for branch, width in (("then_branch", 64), ("else_branch", 32)):
            inner = Graph(names)
            frames = inner.op("Reshape", window, inner.constant(np.array([8, 1, width])))
            weights = [inner.constant(self.drawn.floats(1, 128, n, scale=n**-0.5)) for n in (width, 32)]
            steps, last, _ = inner.op("LSTM", frames, *weights, "", "", state, outputs=3, hidden_size=32)
            inner.output(inner.op("Sigmoid", inner.op("ReduceMean", steps, keepdims=0)), [])
            inner.output(last, [1, 1, 32])
            branches[branch] = inner.proto(branch)
        speech, after = graph.op("If", known, outputs=2, **branches)
        graph.output(speech, [])
        graph.output(after, [1, 1, 32])

    def run(self, rate, samples):
        values = np.int64(rate), self.drawn.floats(1, samples), self.drawn.floats(1, 1, 32)
        return dict(zip(self.names, values))


def test_a_detector_takes_the_windows_of_its_rate(service, oracle):
    detector = Detector()
    model = service.scratch("detector.onnx")
    detector.graph.save(model)
    rate, window, _ = detector.names
    runs = [detector.run(rate, samples) for rate, samples in
            ((8000, 256), (16000, 256), (16000, 512), (8000, 512), (8000, 256), (16000, 512))]
    short = service.compile(model, {window: [1, 256]})
    errors = runs_agree(service, oracle, model, short.artifact, [runs[0], runs[1], runs[4]],
                        ("the run takes the then_branch of node", f"give input '{rate}' any value but 16000"))
    check_equal(errors, 1, "errors of the network for 16 kHz with windows of 256")
    # One value takes the branch: it is fixed, and need not be given.
    long = service.compile(model, {window: [1, 512]})
    errors = runs_agree(service, oracle, model, long.artifact, [runs[2], runs[3]], (f"'{rate}' was fixed to [16000]",),
                        "REASON_UNSPECIFIED")
    check_equal(errors, 1, "errors of the network for 8 kHz with windows of 512")
    both = service.compile(model, None, "--dim", "samples=256,512")
    check_equal(runs_agree(service, oracle, model, both.artifact, runs, ("the run takes the ", "_branch of node")), 2,
                "errors of both in one artifact")
    none = service.cli("compile", model, "--target", "host", "--json", "--shape", f"{window}=1x300", expect=3).failure
    check_equal(none["reason"], "INVALID_MODEL", "windows that no network takes")
    report = service.cli("check", model, "--shape", f"{window}=1x256", "--json").json
    check(not report.get("problems") and len(report["run_faults"]) == 1, f"check: {report}")
    check("an error of some runs" in service.cli("check", model, "--shape", f"{window}=1x256").out, "check does not tell")
    check("an error of some runs" in service.cli("inspect", short.artifact).out, "inspect does not tell")


def test_branches_within_branches_and_loops(service, oracle):
    """Ifs with a branch that does not work: one within a branch of another If, one within a Loop with a run-time count."""
    graph = Graph()
    outer, inner = graph.input(shape=[], kind=BOOL), graph.input(shape=[], kind=BOOL)
    trips, x = graph.input(shape=[], kind=INT64), graph.input(shape=["rows", 3])

    def choice(around, condition, first, second):
        branches = {}
        for name, fill in (("then_branch", first), ("else_branch", second)):
            branch = Graph(graph.names)
            branch.output(fill(branch), None)
            branches[name] = branch.proto(name)
        return around.op("If", condition, **branches)

    def unfit(branch):
        return branch.op("Reshape", x, branch.constant(np.array([5, 2])))

    def times(factor):
        return lambda branch: branch.op("Mul", x, branch.constant(np.float32(factor)))

    nested = choice(graph, outer, lambda branch: choice(branch, inner, times(2), unfit), times(3))
    body = Graph(graph.names)
    body.input(shape=[], kind=INT64)
    going, value_of = body.input(shape=[], kind=BOOL), body.input(shape=["rows", 3])
    body.output(going, [], BOOL)
    body.output(body.op("Add", value_of, choice(body, inner, times(1), unfit)), ["rows", 3])
    graph.output(nested)
    graph.output(graph.op("Loop", trips, graph.constant(True), x, body=body.proto()), None)
    model = service.scratch("branches.onnx")
    graph.save(model)
    data = Drawn(3).floats(4, 3)
    runs = [dict(zip((outer, inner, trips, x), (np.array(a), np.array(b), np.int64(n), data)))
            for a in (True, False) for b in (True, False) for n in (0, 1, 20)]
    artifact = service.compile(model, {x: [4, 3]}).artifact
    words = ("the run takes the else_branch of node", f"give input '{inner}' another value")
    # Not where the outer condition does not hold and no iteration runs.
    check_equal(runs_agree(service, oracle, model, artifact, runs, words), 5, "errors")


@pytest.mark.seeds(range(10))
@pytest.mark.parametrize("draw", (Drawn.loops, Drawn.scans, Drawn.recurrent), ids=lambda draw: draw.__name__)
def test_drawn(service, oracle, draw, seed, chosen_target):
    agrees(service, oracle, draw(Drawn(seed)), f"{draw.__name__}_{seed}", chosen_target or ("host", "haswell")[seed % 2],
           ("--verify",) if seed % 5 == 0 else ())
