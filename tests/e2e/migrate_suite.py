"""tessera admin migrate: a service moves from a data folder to PostgreSQL and an S3 bucket, and back, without losing a job,
an artifact, a token or its signing key; a run that was killed, or that copied a service in use, is continued."""

import hashlib
import os
import pathlib
import signal
import subprocess
import time

import pytest

from checks import check, check_equal
from e2e.postgres_suite import PROGRAMS, Database
from e2e.swift_s3 import Swift
from e2e.tessera_e2e import BIN, Service, model_inputs, model_path

MODEL = "gemm:m=17,k=256,n=256"  # its artifact is more than the 64 KiB that a row of the database may hold


@pytest.fixture(scope="module")
def database():
    if not (PROGRAMS / "postgres").exists():
        pytest.skip("PostgreSQL 15 is not installed; install Debian's package postgresql-15")
    with Database() as started:
        yield started


@pytest.fixture(scope="module")
def swift():
    with Swift() as started:
        yield started


def migrate(service, *arguments, expect=0):
    return service.cli("admin", "migrate", *arguments, expect=expect)


def seen(service, artifact):
    """A client's view: jobs, the artifact's bytes, the key that signs."""
    fetched = service.scratch("fetched.tsra")
    service.cli("fetch", artifact, "-o", fetched)
    return (service.cli("jobs", "--json", "--limit", "0").json["jobs"],
            hashlib.sha256(fetched.read_bytes()).hexdigest(), service.operator("admin", "signing-key").out.strip())


def test_a_service_moves_and_comes_back(database, swift, tmp_path_factory):
    model, arrays = model_path(MODEL), model_inputs(MODEL, 1)
    to = ("--to", database.uri, "--blobs", swift.url)
    with Service(workers=1, env=swift.environment) as origin:
        origin.wait_for_workers(1)
        first = origin.compile(model)
        artifact = first.job["compile_result"]["artifact_id"]
        origin.operator("admin", "token", "create", "--name", "ci", "--role", "client")
        source = ("--from", origin.data)

        # While it runs: a copy that is not complete, from which no service starts.
        early = migrate(origin, *source, *to, expect=1)
        check("stop it and run the command again" in early.err, early.err)
        check_equal(origin.cli("jobs", "--json").json["jobs"][0]["id"], first.job["id"], "the service answers")
        done = subprocess.run([BIN / "tesserad", "--data-dir", origin.scratch("early"), "--listen", "127.0.0.1:0",
                               "--store", database.uri, "--blobs", swift.url], check=False, capture_output=True,
                              text=True, timeout=60, env={**os.environ, **swift.environment})
        check(done.returncode != 0 and "is not complete" in done.stderr, f"{done.returncode} {done.stderr}")

        second = origin.compile(model_path("mlp"), None, "--dim", "N=1")
        before = seen(origin, artifact)
        tokens = origin.operator("admin", "token", "list", "--json").json
        origin.stop()
        killed = origin.spawn("admin", "migrate", *source, *to)
        time.sleep(0.1)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        done = migrate(origin, *source, *to, "--json").json
        check(done["complete"] and done["blobs_missing"] == 0, str(done))
        again = migrate(origin, *source, *to, expect=1)
        check("has data already" in again.err, again.err)

        with Service(workers=1, arguments=("--store", database.uri, "--blobs", swift.url),
                     env=swift.environment) as moved:
            moved.wait_for_workers(1)
            check_equal(seen(moved, artifact), before, "after the move")
            check_equal(moved.operator("admin", "token", "list", "--json").json, tokens, "the tokens")
            check(moved.compile(model).job["cached"], "the job is not from the cache")
            check_equal(moved.operator("admin", "verify", "--json").json.get("problems", []), [], "problems")
            moved.run(moved.compile(model).artifact, arrays)
            now = seen(moved, artifact)
            moved.stop()

    with Service(workers=1, env=swift.environment) as back:
        back.stop()
        folder = pathlib.Path(tmp_path_factory.mktemp("back")) / "data"
        done = migrate(back, "--from", database.uri, "--blobs-from", swift.url, "--to", folder, "--json").json
        check(done["complete"] and done["blobs_copied"] == done["blobs"] > 0, str(done))
        back.data = folder
        back.start()
        back.wait_for_workers(1)
        check_equal(seen(back, artifact), now, "after the way back")
        check_equal(back.operator("admin", "verify", "--json").json.get("problems", []), [], "problems")
        check(back.compile(model_path("mlp"), None, "--dim", "N=1").job["cached"], "the job is not from the cache")
    check_equal(second.job["state"], "SUCCEEDED", "state")


def test_wrong_places_are_named(database):
    with Service(workers=0) as service:
        service.stop()
        for arguments, words in ((("--from", service.data, "--to", service.scratch("other")), "tessera admin backup"),
                                 (("--from", service.data, "--to", database.uri), "--blobs"),
                                 (("--from", service.scratch("nothing"), "--to", database.uri, "--blobs", "/tmp"),
                                  "it has no tessera.db")):
            refused = migrate(service, *arguments, expect=1)
            check(words in refused.err, f"{arguments}: {refused.err}")
