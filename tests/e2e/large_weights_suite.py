"""Weights of tens of megabytes: stored once however many artifacts use them, and streamed where hard links are
impossible, with the same bytes. A killed server leaves no partial files."""

import contextlib
import hashlib
import os
import pathlib
import random
import tempfile
import time

import numpy as np
import pytest

from checks import check, check_equal
from e2e.large_model import LargeModel
from e2e.tessera_e2e import Service, save_npz, wait_until
from oracle.oracle import Oracle

MIB = 1 << 20


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def stored(service):
    """Bytes of all blobs, caches and unfinished files of at least a megabyte; each file counts once, whatever its names."""
    files = {}
    for root, _, names in os.walk(service.data):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # of an ended attempt
                facts = os.lstat(os.path.join(root, name))
                if facts.st_size >= MIB:
                    files[facts.st_ino] = facts.st_size
    return sum(files.values())


def leftovers(service):
    """Files that belong to no finished blob and to no upload that continues."""
    blobs = service.data / "blobs"
    needed = {path.name.removesuffix(".composed") for path in blobs.glob("??/??/*.composed")}
    return [path.name for path in blobs.glob("tmp/*.*")] + [
        path.name for path in blobs.glob("parts/*") if path.name.split(".")[0] not in needed]


def matches(service, model, artifact):
    outputs, _ = service.run(artifact, model.inputs())
    with Oracle() as oracle:
        session = oracle.load(model.path)
        expected = session.run(model.inputs())[0][model.output]
        session.close()
    wanted = model.reference(model.inputs()["x"])
    found = outputs[model.output]
    for name, other in (("ONNX Runtime", expected), ("NumPy", wanted)):
        error = float(np.max(np.abs(found - other)) / np.max(np.abs(other)))
        check(error < 1e-5, f"differs from {name} by {error}")


def compiles(service, model, *flags):
    return service.compile(model.path, None, *model.flags, *flags, timeout=300)


@pytest.fixture(scope="module")
def model():
    with tempfile.TemporaryDirectory(prefix="tessera-large-") as folder:
        yield LargeModel(pathlib.Path(folder), 40, hidden=509, inner=2053)


def test_bytes_are_stored_once(model):
    with Service(workers=2) as service:
        service.wait_for_workers(2)
        compiled = compiles(service, model)
        matches(service, model, compiled.artifact)
        once = stored(service)
        check(once < 2.2 * model.bytes, f"{once} bytes are stored of a model of {model.bytes}")
        check("streamed" not in service.log, "blobs were streamed on one machine")
        artifact_id = compiled.job["compile_result"]["artifact_id"]
        check_equal(digest(compiled.artifact), artifact_id, "digest of the artifact")
        # A second artifact with the same weights takes no further space for them.
        other = compiles(service, model, "--no-cache", "--name", "renamed")
        check(digest(other.artifact) != artifact_id, "another name is the same artifact")
        grown = stored(service) - once
        check(grown < 0.2 * model.bytes, f"the second artifact takes {grown} bytes")
        check_equal(leftovers(service), [], "left in the blob folder")
        # Later readers: another download, and a worker that runs it.
        again = service.scratch("again.tsra")
        service.cli("fetch", artifact_id, "-o", again)
        check_equal(digest(again), artifact_id, "the artifact, fetched")
        given, wanted = service.scratch("in.npz"), service.scratch("out")
        save_npz(given, model.inputs())
        service.cli("execute", artifact_id, "--input", given, "--output-dir", wanted)
        local, _ = service.run(compiled.artifact, model.inputs())
        check(np.array_equal(np.load(wanted / f"{model.output}.npy"), local[model.output]), "a worker computes another result")


def test_streamed_bytes_are_the_same(model):
    with Service(workers=1) as service:
        service.wait_for_workers(1)
        linked = digest(compiles(service, model).artifact)
    with Service(workers=1, arguments=["--worker-arg=--blobs", "--worker-arg=/proc/self"]) as service:
        service.wait_for_workers(1)
        compiled = compiles(service, model)
        check_equal(digest(compiled.artifact), linked, "the artifact of a worker that streams")
        check("blobs are streamed instead of shared" in service.log, "nothing says that blobs are streamed")
        matches(service, model, compiled.artifact)
        check_equal(leftovers(service), [], "left in the blob folder")


def test_small_weights_are_in_the_file():
    with tempfile.TemporaryDirectory(prefix="tessera-small-") as folder, Service(workers=1) as service:
        small = LargeModel(pathlib.Path(folder), 1, hidden=61, inner=127)
        compiled = compiles(service, small)
        matches(service, small, compiled.artifact)
        check_equal(list((service.data / "blobs").glob("parts/*")), [], "parts of composed blobs")


def test_a_killed_server_leaves_nothing_half_written(model):
    random.seed(18)
    with Service(workers=2) as service:
        service.wait_for_workers(2)
        expected, whole_s = None, 1.5
        for _ in range(4):
            job = service.spawn("compile", model.path, *model.flags, "--target", "host", "--detach", "--no-cache")
            job.communicate(timeout=120)
            time.sleep(random.uniform(0, whole_s))
            service.kill()
            service.start()
            wait_until(lambda: not leftovers(service), "nothing is left by a killed server")
            service.wait_for_workers(2)
            start = time.monotonic()
            compiled = compiles(service, model, "--no-cache")
            whole_s = time.monotonic() - start
            check_equal(digest(compiled.artifact), expected or digest(compiled.artifact), "the artifact afterwards")
            expected = digest(compiled.artifact)
        matches(service, model, compiled.artifact)
