"""Blobs in an object store (tesserad --blobs): OpenStack Swift's S3 service, and a shared folder. Jobs go through, artifacts
outlive the server's folder, lost objects are noticed and built again, and the store gets few requests."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.request

import numpy as np
import pytest

from checks import check, check_equal
from e2e.swift_s3 import Swift
from e2e.tessera_e2e import BIN, Service, model_inputs, model_path

MODEL = "gemm:m=17,k=256,n=256"  # more than the 64 KiB that a row of the database may hold
PREFIX = "blobs/"


class Bucket:
    """A prefix of its own in the bucket of a service."""

    def __init__(self, swift, name):
        self.swift, self.prefix = swift, f"{name}/"
        bucket, options = swift.url.split("?")
        self.place, self.env = f"{bucket}/{name}?{options}", swift.environment

    def blobs(self):
        start = self.prefix + PREFIX
        return {name.removeprefix(start) for name in self.swift.names() if name.startswith(start)}

    def remove(self, sha256):
        self.swift.remove(self.prefix + PREFIX + sha256)

    def another(self):
        return Bucket(self.swift, self.prefix.rstrip("/") + "-another")


class Folder:
    """A folder that several servers could mount."""

    def __init__(self, folder):
        self.folder, self.place, self.env = pathlib.Path(folder), str(folder), {}

    def blobs(self):
        return {path.name for path in self.folder.glob("blobs/??/??/*")}

    def remove(self, sha256):
        (self.folder / "blobs" / sha256[:2] / sha256[2:4] / sha256).unlink()

    def another(self):
        folder = self.folder / "another"
        folder.mkdir(exist_ok=True)
        return Folder(folder)


def served(store, **options):
    arguments = ("--blobs", store.place, "--metrics-listen", "127.0.0.1:0")
    return Service(workers=1, arguments=arguments, env=store.env, **options)


def requests_of(service):
    """{method: requests that the server has sent to the object store}."""
    address = (service.data / "metrics.addr").read_text().strip()
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {method: int(float(count)) for method, count in
            re.findall(r'tessera_object_store_requests_total\{method="(\w+)"\} (\S+)', text)}


def forget_copies(service):
    """Deletes the local copies, as if the server moved to another machine."""
    service.stop()
    for folder in (service.data / "blobs").glob("??"):
        if re.fullmatch("[0-9a-f]{2}", folder.name):
            shutil.rmtree(folder)
    service.start()
    service.wait_for_workers(1)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def swift():
    with Swift() as started:
        yield started


@pytest.fixture(scope="module", params=["bucket", "folder"])
def store(request, tmp_path_factory):
    if request.param == "bucket":
        return Bucket(request.getfixturevalue("swift"), "jobs")
    return Folder(tmp_path_factory.mktemp("blobs"))


def test_conformance(swift):
    """The conformance suite of object stores, against this service."""
    done = subprocess.run([BIN / "s3_object_store_test", "--gtest_filter=*Conformance*Service*", "--gtest_brief=1"],
                          capture_output=True, text=True, timeout=200,
                          env={**os.environ, **swift.environment, "TESSERA_TEST_S3": swift.url, "NO_PROXY": "127.0.0.1"})
    check_equal(done.returncode, 0, f"exit code of the suite; its output: {done.stdout[-3000:]}{done.stderr[-1000:]}")
    passed = re.search(r"PASSED  \] (\d+) tests", done.stdout)
    check(passed and int(passed.group(1)) >= 8, f"the suite ran: {done.stdout[-500:]}")


def test_a_job_goes_through(store):
    model, arrays = model_path(MODEL), model_inputs(MODEL, 1)
    with served(store) as service:
        service.wait_for_workers(1)
        idle = requests_of(service)
        compiled = service.compile(model)
        artifact = digest(compiled.artifact)
        check_equal(compiled.job["compile_result"]["artifact_id"], artifact, "the artifact")
        used = {method: count - idle[method] for method, count in requests_of(service).items()}
        print(f"   requests of a compile job: {used}, objects: {len(store.blobs())}")
        check_equal((used["head"], used["get"]), (0, 0), "requests for what the rows and the copies answer")
        check_equal(used["put"], len(store.blobs()), "one request for each object")
        check(artifact in store.blobs(), f"the artifact is an object: {store.blobs()}")
        before = requests_of(service)
        again = service.compile(model)
        check(again.job["cached"], "the second request is cached")
        check_equal(requests_of(service), before, "requests for a cached answer")

        forget_copies(service)
        fetched = service.scratch("fetched.tsra")
        service.cli("fetch", artifact, "-o", fetched)
        check_equal(digest(fetched), artifact, "the artifact after the server lost its folder")
        first, _ = service.run(compiled.artifact, arrays)
        second, _ = service.run(fetched, arrays)
        for name, values in first.items():
            check(np.array_equal(values, second[name]), f"output {name} differs")

        # The object store loses everything.
        lost = store.blobs()
        for sha256 in lost:
            store.remove(sha256)
        forget_copies(service)
        failed = service.cli("fetch", artifact, "-o", service.scratch("lost.tsra"), expect=None)
        check_equal(failed.code, 5, f"exit code for a blob that is gone: {failed}")
        check(artifact in service.log and " is lost" in service.log, "the log names the object")
        healed = service.compile(model)
        check_equal(digest(healed.artifact), artifact, "the artifact that was built again")
        check(artifact in store.blobs(), "it is an object again")


def test_a_place_belongs_to_one_database(store):
    def start(data, *options):
        return subprocess.run([BIN / "tesserad", "--data-dir", data, "--listen", "127.0.0.1:0", "--workers", "0", "--blobs",
                               store.place, *options], check=False, capture_output=True, text=True, timeout=100,
                              env={**os.environ, **store.env})

    with tempfile.TemporaryDirectory() as data:
        refused = start(data)
        check(refused.returncode != 0, "a second database got the objects of the first")
        mark = re.search(r"start once with --bind-blobs (\w+)", refused.stderr)
        check(mark is not None, refused.stderr)
        wrong = start(data, "--bind-blobs", "none")
        check(wrong.returncode != 0 and mark.group(1) in wrong.stderr, wrong.stderr)


def test_the_place_is_not_forgotten(store):
    with served(store.another()) as service:
        service.stop()
        without = subprocess.run([BIN / "tesserad", "--data-dir", service.data, "--listen", "127.0.0.1:0", "--workers", "0"],
                                 capture_output=True, text=True, timeout=60)
        check(without.returncode != 0 and "start with --blobs" in without.stderr, without.stderr)


def test_mistakes_are_explained(swift):
    def ends(place, env, *words):
        with tempfile.TemporaryDirectory() as data:
            done = subprocess.run([BIN / "tesserad", "--data-dir", data, "--listen", "127.0.0.1:0", "--workers", "0",
                                   "--blobs", place], capture_output=True, text=True, timeout=100,
                                  env={**os.environ, **swift.environment, **env})
            check(done.returncode != 0, f"{place}: tesserad started")
            for word in words:
                check(word in done.stderr, f"{place}: {word!r} is not in {done.stderr}")

    ends("relative/folder", {}, "--blobs", "accepted: s3://")
    ends("s3://bucket?zone=1", {}, "--blobs", "zone")
    ends("/nowhere/at/all", {}, "/nowhere/at/all", "mount")
    ends(swift.url.replace("s3://tessera", "s3://another"), {}, "NoSuchBucket", "create the bucket")
    ends(swift.url, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch", "credentials")
    ends(swift.url, {"AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": "/absent"}, "AWS_ACCESS_KEY_ID", "/absent")
