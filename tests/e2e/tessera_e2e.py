"""A service for a suite, and the command line client against it.

    with Service(workers=2) as service:
        compiled = service.compile(model_path("resnet18"), {"x": [1, 3, 224, 224]})
        outputs, timing = service.run(compiled.artifact, arrays)

Needs TESSERA_BUILD_DIR (tests/run sets it); the default is build/release.
"""

import atexit
import dataclasses
import fcntl
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TESSERA_BUILD_DIR", ROOT / "build" / "release"))
BIN = BUILD / "bin"

sys.path.insert(0, str(ROOT / "tests"))

from e2e import processes  # noqa: E402
from models import catalog  # noqa: E402

# Signing keys that the clients of these tests trust: those of the services that they start, not the user's file.
if "TESSERA_TRUST" not in os.environ:
    _trust = tempfile.mkdtemp(prefix="tessera-e2e-trust-")
    atexit.register(shutil.rmtree, _trust, ignore_errors=True)
    os.environ["TESSERA_TRUST"] = f"{_trust}/trusted-keys"

# Seconds for a single step before a test gives up. Generous: a shared machine must not fail a test.
PATIENCE_S = 120


def wait_until(condition, what, patience_s=PATIENCE_S, interval_s=0.05):
    """Polls `condition` until it returns something true, and returns that; AssertionError after the timeout."""
    give_up = time.monotonic() + patience_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > give_up:
            raise AssertionError(f"{what}: not within {patience_s} s")
        time.sleep(interval_s)


def _generated(key, write):
    """A file or folder in build/test-models, made by write(temporary path) unless equal sources have made it."""
    sources = sorted((ROOT / "tests" / "models").glob("*.py"))
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    store = ROOT / "build" / "test-models"
    store.mkdir(parents=True, exist_ok=True)
    with open(store / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        current = store / state
        if not current.exists():
            for old in store.iterdir():  # made by other versions of the generators
                if old.is_dir():
                    shutil.rmtree(old)
            current.mkdir()
        target = current / key
        if not target.exists():
            unfinished = current / f"unfinished-{key}"
            shutil.rmtree(unfinished, ignore_errors=True)
            write(unfinished)
            unfinished.rename(target)
        return target


def model_path(spec):
    """The ONNX file of a catalog spec with a symbolic batch, generated once for all suites."""
    folder = _generated(catalog.stem(spec), lambda path: catalog.write(spec, path))
    return folder / f"{catalog.stem(spec)}.onnx"


def model_inputs(spec, batch):
    """Seeded inputs by name; batch is 1 or 3."""
    path = model_path(spec)
    with np.load(path.with_name(f"{path.stem}.b{batch}.npz")) as stored:
        return {name: stored[name] for name in stored.files}


BUILTIN_TARGETS = ROOT / "compiler" / "target" / "builtin"
CODE_BLOCK = re.compile(r"^code \{.*?^\}", re.DOTALL | re.MULTILINE)


@functools.cache
def runnable_targets():
    """Values of --target: "host", then each built-in target of this architecture. A target whose instructions this
    machine lacks is replaced by a stand-in, given as the path of a description: its registers, caches and layouts,
    hence its loops and edges, with the instructions of x86-64-v3."""
    listed = subprocess.run([BIN / "tessera", "targets", "--runnable", "--json"], check=True, capture_output=True, text=True)
    runnable = {entry["target"]["name"]: entry["target"] for entry in json.loads(listed.stdout)["targets"]}
    found = ["host", *runnable]
    if "x86-64-v3" not in runnable:
        return tuple(found)
    spare = CODE_BLOCK.search((BUILTIN_TARGETS / "x86-64-v3.textproto").read_text()).group(0)
    for path in sorted(BUILTIN_TARGETS.glob("*.textproto")):
        text = path.read_text()
        if path.stem in runnable or "family: X86_64" not in text:
            continue
        stand_in = ROOT / "build" / "test-targets" / f"{path.stem}-stand-in.textproto"
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        text = CODE_BLOCK.sub(lambda _: spare, text).replace(f'name: "{path.stem}"', f'name: "{stand_in.stem}"', 1)
        if not stand_in.exists() or stand_in.read_text() != text:
            unfinished = stand_in.with_suffix(f".{os.getpid()}")
            unfinished.write_text(text)
            unfinished.rename(stand_in)
        found.append(str(stand_in))
    return tuple(found)


def rotating_target(number):
    """One of runnable_targets(): several cases cover several targets at the cost of one."""
    return runnable_targets()[number % len(runnable_targets())]


def target_name(target):
    """A name of the target for messages."""
    return pathlib.Path(target).stem


def target_value(name):
    """The value of --target for a name that target_name() returned, or any other name."""
    return next((target for target in runnable_targets() if target_name(target) == name), name)


def save_npz(path, arrays):
    """Like np.savez, which loses arrays named like NumPy's own parameters ("file", "like")."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


@dataclasses.dataclass
class Answer:
    """Output and exit code of a command."""
    command: list
    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output as one JSON value."""
        try:
            return json.loads(self.out)
        except json.JSONDecodeError as error:
            raise AssertionError(f"{self}: standard output is no JSON: {error}") from None

    @property
    def failure(self):
        """The v1.Failure that a command with --json reported, from any source."""
        printed = self.json
        if "error" in printed:
            return printed["error"]
        return printed.get("job", printed).get("failure") or {}

    def __str__(self):
        shown = " ".join(str(word) for word in self.command)
        return f"`{shown}` ended with {self.code}\n--- out\n{self.out[-2000:]}\n--- err\n{self.err[-2000:]}"


@dataclasses.dataclass
class Compiled:
    artifact: pathlib.Path
    job: dict
    times_ms: dict


class Service:
    """tesserad with its workers, on a free port, with a temporary data folder.

    `env` is added to the environment of the service and of clients. close() checks nothing and ends all processes, so
    that no suite leaves any behind.
    """

    def __init__(self, workers=2, arguments=(), env=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-e2e-"))
        self.data = self.folder / "data"
        self.mark = uuid.uuid4().hex
        self.address = None
        self.process = None
        self._arguments = ["--workers", str(workers), *arguments]
        self._env = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), **(env or {})}
        self._env.pop("TESSERA_SERVER", None)
        self._numbers = itertools.count(1)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    @property
    def log(self):
        """The output of the server and its workers so far."""
        path = self.folder / "tesserad.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self):
        """Starts tesserad (again) on the same data folder; returns when it answers."""
        self.data.mkdir(parents=True, exist_ok=True)
        announced = self.data / "tesserad.addr"
        announced.unlink(missing_ok=True)
        with open(self.folder / "tesserad.log", "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "tesserad", "--data-dir", self.data, "--listen", "127.0.0.1:0", *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**self._env, processes.MARK: self.mark})

        def answers():
            if self.process.poll() is not None:
                raise AssertionError(f"tesserad ended with {self.process.returncode}:\n{self.log[-3000:]}")
            self.address = announced.read_text().strip() if announced.exists() else ""
            return self.address and self.cli("workers", "--json", expect=None).code == 0

        wait_until(answers, "tesserad answers", 60)
        return self

    def wait_for_workers(self, count):
        """Returns the workers once there are `count` of them."""
        def there():
            workers = [w for w in self.cli("workers", "--json").json["workers"] if w["state"] in ("IDLE", "BUSY")]
            return len(workers) >= count and workers
        return wait_until(there, f"{count} workers are there")

    def stop(self):
        """SIGTERM: drains. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self):
        """kill -9 of the server alone."""
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                self.process.terminate()  # an idle worker ends only with its request for work, the second signal ends it at once
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        processes.kill_marked(self.mark)
        shutil.rmtree(self.folder, ignore_errors=True)

    def cli(self, *arguments, expect=0, timeout=PATIENCE_S, env=None):
        """Runs `tessera` against this service. `expect`: the required exit code, None for any."""
        command = [BIN / "tessera", *map(str, arguments)]
        environment = {**self._env, "TESSERA_SERVER": self.address or "", **(env or {})}
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                  timeout=timeout, env=environment, cwd=self.folder)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"`tessera {' '.join(map(str, arguments))}` took longer than {late.timeout} s; "
                                 f"end of the server's log:\n{self.log[-2000:]}") from None
        answer = Answer(command[1:], done.returncode, done.stdout, done.stderr)
        if expect is not None and answer.code != expect:
            raise AssertionError(f"{answer}\nexpected exit code {expect}")
        return answer

    def operator(self, *arguments, **options):
        """The same as the operator of this machine: through the data folder."""
        return self.cli(*arguments, "--operator-of", self.data, **options)

    def spawn(self, *arguments):
        """Starts `tessera` in the background; the caller waits for it."""
        return subprocess.Popen([BIN / "tessera", *map(str, arguments)], stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                env={**self._env, "TESSERA_SERVER": self.address, processes.MARK: self.mark})

    def scratch(self, name):
        """A new path in this service's folder."""
        return self.folder / f"{next(self._numbers)}-{name}"

    def compile(self, model, shapes=None, *arguments, target="host", timeout=PATIENCE_S):
        """Compiles, for this host by default, and returns the artifact's path with the finished job."""
        artifact = self.scratch(pathlib.Path(model).stem + ".tsra")
        flags = [word for name, shape in (shapes or {}).items()
                 for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
        answer = self.cli("compile", model, "--target", target, "--json", "-o", artifact, *flags, *arguments,
                          timeout=timeout)
        return Compiled(artifact, answer.json["job"], answer.json["times_ms"])

    def run(self, artifact, arrays, *arguments, timeout=PATIENCE_S):
        """Runs an artifact file in the client's process: ({output: array}, the printed JSON)."""
        given, wanted = self.scratch("in.npz"), self.scratch("out")
        save_npz(given, arrays)
        answer = self.cli("run", artifact, "--input", given, "--output-dir", wanted, "--json", *arguments,
                          timeout=timeout)
        return {path.stem: np.load(path) for path in sorted(wanted.glob("*.npy"))}, answer.json


def shapes_of(arrays):
    """--shape values for a set of inputs."""
    return {name: array.shape for name, array in arrays.items()}
