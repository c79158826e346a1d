"""The processes that tests/bench/run times alternately. Each keeps its prepared calls, is pinned to as many cores as it
has threads, and answers with wall milliseconds of single runs."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TESSERA_BUILD_DIR", ROOT / "build" / "release")) / "bin"
HERE = pathlib.Path(__file__).resolve().parent


class NotOffered(Exception):
    """A side cannot do the request; the message is its own."""


class _Process:
    def __init__(self, name, command, threads):
        self.name, self.threads = name, threads
        cores = sorted(os.sched_getaffinity(0))[:threads]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(["taskset", "--cpu-list", ",".join(map(str, cores)), *map(str, command)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise NotOffered(f"{self.name} ended with {self._process.wait()}")
        return answer

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Words(_Process):
    def words(self, *words):
        answer = self.ask(" ".join(map(str, words))).split()
        if answer[0] != "ok":
            raise NotOffered(" ".join(answer[1:]))
        return answer[1:]

    def run(self, prepared, repeat):
        return [float(word) for word in self.words("run", prepared, repeat)]

    def drop(self, prepared):
        self.words("drop", prepared)


class Artifacts(_Words):
    """Tessera. `compute` excludes the steps that only change layouts."""

    def __init__(self, threads):
        super().__init__("tessera", [BIN / "bench_artifact"], threads)

    def load(self, path):
        return int(self.words("load", path, self.threads)[0])

    def compute(self, prepared, repeat):
        return [float(word) for word in self.words("compute", prepared, repeat)]


class Library(_Words):
    """oneDNN and OpenBLAS (both in one program), or PyTorch."""

    def __init__(self, name, threads):
        command = [HERE / "peers" / "torch_calls.py"] if name == "torch" else [BIN / "bench_libraries"]
        super().__init__(name, command, threads)

    def load(self, call):
        return int(self.words("load", self.name, *call)[0])

    def peak(self, what):
        return float(self.words("peak", what)[0])


class OnnxRuntime(_Process):
    """ONNX Runtime through its Node.js package, which adds about 50 microseconds a call."""

    def __init__(self, threads):
        super().__init__("onnxruntime", ["node", ROOT / "tests" / "oracle" / "run.mjs", "--serve"], threads)

    def _call(self, **request):
        answer = json.loads(self.ask(json.dumps({"id": 0, **request})))
        if "error" in answer:
            raise NotOffered(answer["error"])
        return answer

    def load(self, model, inputs):
        return self._call(op="load", model=str(model), threads=self.threads)["session"], str(inputs)

    def run(self, prepared, repeat, output=None):
        request = {"op": "run", "session": prepared[0], "input": prepared[1], "repeat": repeat}
        if output:
            request["output"] = str(output)
        return self._call(**request)["times_ms"]

    def drop(self, prepared):
        self._call(op="unload", session=prepared[0])
