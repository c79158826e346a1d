"""ONNX Runtime from Python: one process that serves many models, and the comparison of results."""

import json
import pathlib
import subprocess
import tempfile

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent


class OracleError(RuntimeError):
    """ONNX Runtime rejected a model or an input; the message is its own."""


class Session:
    """A loaded model. `inputs` and `outputs` are names in the model's order."""

    def __init__(self, oracle, answer):
        self._oracle = oracle
        self._number = answer["session"]
        self.inputs = answer["inputs"]
        self.outputs = answer["outputs"]

    def run(self, arrays, repeat=1, warmup=0):
        """Returns ({output name: array}, {"latency_ms": ..., "times_ms": [...]})."""
        with tempfile.TemporaryDirectory(prefix="tessera-oracle-") as folder:
            given, wanted = f"{folder}/in.npz", f"{folder}/out.npz"
            np.savez(given, **arrays)
            timing = self._oracle.call(op="run", session=self._number, input=given, output=wanted,
                                       repeat=repeat, warmup=warmup)
            with np.load(wanted) as stored:
                return {name: stored[name] for name in stored.files}, timing

    def close(self):
        self._oracle.call(op="unload", session=self._number)


class Oracle:
    """A context manager; its process ends with it."""

    def __init__(self):
        subprocess.run([FOLDER / "install"], check=True, stdout=subprocess.DEVNULL)
        self._process = subprocess.Popen(["node", FOLDER / "run.mjs", "--serve"], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def ended(self):
        """Whether its process has ended: a model can crash it."""
        return self._process.poll() is not None

    def call(self, **request):
        self._id += 1
        self._process.stdin.write(json.dumps({"id": self._id, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise OracleError(f"the oracle process ended with code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise OracleError(answer["error"])
        return answer

    def load(self, model, threads=1, optimize="all"):
        """`optimize`: "disabled" runs the operators as they are in the model."""
        return Session(self, self.call(op="load", model=str(model), threads=threads, optimize=optimize))


def difference(actual, expected):
    """Largest absolute difference, and the same relative to the largest magnitude in `expected`.

    Shapes and dtypes must be equal (ValueError). NaNs and infinities must be in the same places
    with the same sign, else the difference is infinite. Integers and booleans are compared exactly.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"shape {list(actual.shape)}, expected {list(expected.shape)}")
    if actual.dtype != expected.dtype:
        raise ValueError(f"dtype {actual.dtype}, expected {expected.dtype}")
    if expected.size == 0:
        return 0.0, 0.0
    if not np.issubdtype(expected.dtype, np.floating):
        # Differences of i64 may overflow i64 and lose bits in f64; Python's integers do neither.
        worst = 0 if np.array_equal(actual, expected) else max(
            abs(int(a) - int(e)) for a, e in zip(actual.ravel(), expected.ravel()))
        largest = max(abs(int(expected.max())), abs(int(expected.min())))
        return float(worst), worst / largest if largest else float(worst)
    wide_actual, wide_expected = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wide_expected)
    same = np.array_equal(np.where(finite, 0, wide_actual), np.where(finite, 0, wide_expected), equal_nan=True)
    if not same or not np.isfinite(wide_actual[finite]).all():
        return np.inf, np.inf
    if not finite.any():
        return 0.0, 0.0
    worst = float(np.abs(wide_actual[finite] - wide_expected[finite]).max())
    largest = float(np.abs(wide_expected[finite]).max())
    return worst, worst / largest if largest else worst


def load_arrays(path):
    """{name: array} of an .npz, an .npy (under its stem) or a folder of .npy files."""
    path = pathlib.Path(path)
    if path.is_dir():
        return {item.stem: np.load(item) for item in sorted(path.glob("*.npy"))}
    loaded = np.load(path)
    if isinstance(loaded, np.ndarray):
        return {path.stem: loaded}
    return {name: loaded[name] for name in loaded.files}
