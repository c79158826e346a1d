"""The tour of deploy/quickstart: a service with two workers compiles ResNet-50; the result is checked and timed.

The script prints its commands, so that each can be repeated by hand.
"""

import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from models import catalog  # noqa: E402
from oracle.oracle import Oracle, difference  # noqa: E402

BIN = pathlib.Path(os.environ.get("TESSERA_BIN", ROOT / "build" / "release" / "bin"))
WORK = ROOT / "build" / "quickstart"
MODEL = "resnet50"
SHAPE = "x=1x3x224x224"
TOLERANCE = 1e-4
ROUNDS, RUNS = 5, 10


def say(text):
    print(f"\n== {text}", flush=True)


def tessera(*words, capture=False):
    """Prints and runs one command; its progress goes to the terminal. Returns its JSON with `capture`."""
    print(f"$ tessera {shlex.join(map(str, words))}", flush=True)
    done = subprocess.run([BIN / "tessera", *map(str, words)], stdout=subprocess.PIPE if capture else None, text=True,
                          cwd=WORK)
    if done.returncode != 0:
        sys.exit(f"quickstart: that command ended with {done.returncode}; the service's log is {WORK}/tesserad.log")
    return json.loads(done.stdout) if capture else None


class Tesserad:
    """A service with its embedded defaults: SQLite and blobs in a folder, local workers."""

    def __enter__(self):
        data = WORK / "data"
        words = ["--data-dir", str(data), "--listen", "127.0.0.1:0", "--workers", "2"]
        print(f"$ tesserad {shlex.join(words)}", flush=True)
        with open(WORK / "tesserad.log", "wb") as log:
            self.process = subprocess.Popen([BIN / "tesserad", *words], stdout=log, stderr=log, start_new_session=True)
        announced = data / "tesserad.addr"
        give_up = time.monotonic() + 30
        while not (announced.exists() and announced.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > give_up:
                self.process.kill()
                sys.exit(f"quickstart: tesserad did not start, see {WORK}/tesserad.log")
            time.sleep(0.02)
        os.environ["TESSERA_SERVER"] = announced.read_text().strip()
        print(f"serving at {os.environ['TESSERA_SERVER']}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def check(session, inputs):
    """Returns the largest error of the artifact's outputs against ONNX Runtime; exits if it exceeds the tolerance."""
    expected, _ = session.run(dict(np.load(inputs)))
    for name, wanted in expected.items():
        absolute, relative = difference(np.load(WORK / "outputs" / f"{name}.npy"), wanted)
        verdict = "ok" if relative <= TOLERANCE else "TOO LARGE"
        print(f"{name}: max error {absolute:.3g}, relative to the largest magnitude {relative:.3g}, "
              f"tolerance {TOLERANCE:g}: {verdict}")
        if verdict != "ok":
            sys.exit("quickstart: the artifact's output does not match ONNX Runtime's")


def measure(session, inputs):
    """Alternates both sides on one thread, so that a busy machine slows both."""
    ours, theirs = [], []
    arrays = dict(np.load(inputs))
    for _ in range(ROUNDS):
        command = [BIN / "tessera", "run", f"{MODEL}.tsra", "--input", inputs, "--repeat", str(RUNS), "--warmup", "3",
                   "--threads", "1", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=WORK)
        ours.append(json.loads(done.stdout)["latency_ms"]["median"])
        _, timing = session.run(arrays, repeat=RUNS, warmup=3)
        theirs.append(timing["latency_ms"]["median"])
    for name, medians in (("Tessera", ours), ("ONNX Runtime", theirs)):
        print(f"{name:13} {statistics.median(medians):8.2f} ms  (medians of {RUNS} runs, {ROUNDS} rounds: "
              f"{min(medians):.2f} to {max(medians):.2f})")
    print(f"ratio         {statistics.median(ours) / statistics.median(theirs):8.2f}     Tessera / ONNX Runtime, 1 thread")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    say("ResNet-50 with seeded weights, and an input")
    written = catalog.write(MODEL, WORK, input_batches=(1,))
    model, inputs = written["model"], written["inputs"][1]
    print(model)

    say("a service with two workers")
    with Tesserad():
        say("compile remotely")
        compile_words = ["compile", model, "--target", "host", "--shape", SHAPE, "-o", f"{MODEL}.tsra"]
        tessera(*compile_words)
        say("run the artifact")
        tessera("run", f"{MODEL}.tsra", "--input", inputs, "--output-dir", "outputs", "--repeat", RUNS, "--warmup", 3)
        with Oracle() as oracle:
            session = oracle.load(model)
            say("compare with ONNX Runtime")
            check(session, inputs)
            say("time both by turns")
            measure(session, inputs)
        say("compile again: the answer comes from the cache")
        again = tessera(*compile_words, "--json", capture=True)
        if not again["job"]["cached"]:
            sys.exit("quickstart: the second answer did not come from the cache")
        print(f"cached answer in {again['times_ms']['answer']:.1f} ms")
        say("stop the service")
    print(f"done; the artifact is {WORK}/{MODEL}.tsra (an uncompressed zip: unzip -l shows it)")


if __name__ == "__main__":
    main()
