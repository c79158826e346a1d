"""The Python package against a service: compiling, watching, resumed transfers, lists, errors, asyncio, examples."""

import asyncio
import hashlib
import logging
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from checks import check, check_equal
from e2e import processes, python_package
from e2e.local_suite import as_of_another_command, queued_in
from e2e.miscalibrated import miscalibrated
from e2e.tessera_e2e import BIN, PATIENCE_S, Service, model_inputs, model_path, wait_until
from faults.fault_service import FaultService

python_package.install()
import tessera
from tessera import _transfer, errors
from tessera.v1 import blob_service_pb2, tensor_pb2

GEMM = b"input A[M, K], B[K, N]: f32; C[i, j] += A[i, k] * B[k, j];"
SHAPES = {"A": (7, 5), "B": (5, 3)}
CHUNK = 1 << 20


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


def connected(service):
    return tessera.connect(service.address)


def gemm_file(service):
    path = service.scratch("gemm.te")
    path.write_bytes(GEMM)
    return path


# Compiling.

def test_a_future_with_progress(service):
    client = connected(service)
    seen, done = [], []
    compilation = client.compile(gemm_file(service), shapes=SHAPES, cache=False, on_progress=seen.append)
    compilation.add_done_callback(done.append)
    artifact = compilation.result(PATIENCE_S)
    check(compilation.done() and compilation.exception() is None, "it is not done")
    phases = [progress.phase for progress in seen]
    check(phases.index("upload") < phases.index("import") < phases.index("assemble"), f"phases: {phases}")
    check_equal([event.sequence for event in compilation.events], list(range(1, len(compilation.events) + 1)), "events")
    check_equal(compilation.job.state, "SUCCEEDED", "state")
    check("assemble" in compilation.job.phases_ms, "no times of phases")
    wait_until(lambda: done == [compilation], "the callback")
    check_equal([tensor.name for tensor in artifact.manifest.inputs], ["A", "B"], "inputs")
    check("done" in repr(compilation) and compilation.job_id in compilation._repr_html_(), "it does not describe itself")
    check("float32 [7, 5]" in artifact._repr_html_(), "the artifact does not describe itself")
    path = artifact.save(service.scratch("a.tsra"))
    check_equal(hashlib.sha256(path.read_bytes()).hexdigest(), artifact.id, "digest of the file")
    check_equal(client.artifact(artifact.id).size_bytes, path.stat().st_size, "size")


def test_the_command_line_finds_it_in_the_cache(service):
    """Equal requests of both clients have equal keys, so both describe them identically."""
    client = connected(service)
    model = gemm_file(service)
    mine = client.compile(model, shapes=SHAPES).result()
    for spec, options, flags in (
            (model, {"shapes": SHAPES}, ["--shape", "A=7x5", "--shape", "B=5x3"]),
            (model_path("mlp"), {"dims": {"N": (1, 3)}}, ["--dim", "N=1,3"]),
            (model_path("mlp"), {"dims": {"N": range(2, 7, 2)}}, ["--dim", "N=2..6:2"]),
            (model_path("mlp"), {"dims": {"N": 5}, "target": "x86-64-v3"}, ["--dim", "N=5"]),
            (model, {"shapes": {"A": [(2, 3), (4, 3)], "B": [(3, 5), (3, 6)]}},
             ["--shape", "A=2x3", "--shape", "B=3x5", "--shape", "A=4x3", "--shape", "B=3x6"])):
        first = client.compile(spec, **options)
        first.result()
        theirs = service.compile(spec, None, *flags, target=options.get("target", "host"))
        check(theirs.job.get("cached"), f"{options}: compiled again for `{flags}`")
        check_equal(theirs.job["compile_result"]["artifact_id"], first.artifact.id, f"artifact of {options}")
    again = client.compile(GEMM, format="te", name="other", shapes=SHAPES)  # the key contains neither path nor name
    check(again.artifact.id == mine.id and again.job.cached, "bytes are compiled again")
    answer = client.explain_key(model, shapes={"A": (8, 5), "B": (5, 3)})
    check_equal((answer.hit, list(answer.differing)), (False, ["input_shapes"]), "what differs")


def test_what_a_model_is(service):
    import onnx
    client = connected(service)
    path = model_path("mlp")
    wanted = client.compile(path, dims={"N": 1}).artifact.id
    check_equal(client.compile(str(path), dims={"N": 1}).artifact.id, wanted, "by a text")
    check_equal(client.compile(path.read_bytes(), dims={"N": 1}).artifact.id, wanted, "by bytes")
    outside = service.scratch("outside.onnx")
    onnx.save_model(onnx.load(path), str(outside), save_as_external_data=True, location="outside.data", size_threshold=0)
    beside = client.compile(outside, dims={"N": 1}).artifact.load()
    check_equal([tensor.name for tensor in beside.inputs], list(model_inputs("mlp", 1)), "inputs of a model with external weights")
    elsewhere = service.scratch("elsewhere")
    outside.with_name("outside.data").rename(elsewhere)
    outside.with_name("outside.data").symlink_to(elsewhere)
    check_equal(beside.steps[0].name, client.compile(outside, dims={"N": 1}).artifact.load().steps[0].name, "by a link within")
    apart = service.scratch("apart")
    apart.mkdir()
    (apart / "outside.data").symlink_to(elsewhere)
    (apart / "model.onnx").write_bytes(outside.read_bytes())
    raised(errors.InvalidModel, lambda: client.compile(apart / "model.onnx", dims={"N": 1}).artifact, str(elsewhere.resolve()),
           attribute="outside.data", reason="INVALID_MODEL")
    client.compile(apart / "model.onnx", dims={"N": 1}, external_data={"outside.data": elsewhere}).artifact.load()
    loaded = client.compile(onnx.load(path), dims={"N": 1}).artifact.load()
    check_equal([tensor.name for tensor in loaded.inputs], list(model_inputs("mlp", 1)), "inputs")


def test_explained_and_checked(service):
    client = connected(service)
    compilation = client.compile(model_path("mlp"), dims={"N": 3})
    explanation = compilation.explain()
    check(len(explanation.before) >= len(explanation.after) > 0, f"{explanation}")
    check_equal(len(explanation.after), len(compilation.artifact.load().steps), "fused groups and steps")
    check("<table>" in explanation._repr_html_() and explanation.to_dict()["plan"], "no table, no plan")
    check_equal(bool(client.check(model_path("mlp"), dims={"N": 3})), True, "check")
    report = client.check(model_path("mlp"))
    check(not report and report.unbound_dimensions == ["N"], f"{report!r}")
    check(isinstance(report.problems[0], errors.UnboundDimension), "kind of the problem")
    check("Gemm" in report.operators["operator"] or "MatMul" in report.operators["operator"], f"{report.operators}")


# Tuning.

TUNED = "conv:h=17,w=19,stride=2"


def given_to(spec):
    """A model, inputs for it and their shapes."""
    inputs = model_inputs(spec, 1)
    return model_path(spec), inputs, {name: array.shape for name, array in inputs.items()}


def near(results, expected, what):
    for name, wanted in expected.items():
        off = np.abs(results[name] - wanted).max()
        check(off <= 1e-4 * np.abs(wanted).max(), f"{what}: {name} is off by {off}")


def test_a_search_is_a_future(service):
    client = connected(service)
    model, inputs, shapes = given_to(TUNED)
    seen = []
    tuning = client.tune(model, shapes=shapes, trials=4, budget=60, seed=3, mode="static", on_progress=seen.append)
    check_equal(tuning.versions()["number"], [], "versions of a static search before its end")
    artifact = tuning.result(PATIENCE_S * 2)
    phases = [progress.phase for progress in seen]
    check("upload" in phases or "import" in phases, phases)
    check("search" in phases and seen[-1].done <= seen[-1].total, seen[-3:])
    check_equal((tuning.job.kind, tuning.job.artifact_id, tuning.job.state), ("tune", artifact.id, "SUCCEEDED"), "the job")
    check(tuning.job.name.startswith("conv"), f"name of the job: {tuning.job.name!r}")
    found, versions = tuning.found, tuning.versions()
    check(max(found["trials"]) == 4 and abs(sum(found["share"]) - 1) < 0.01, f"{found!r}")
    check_equal((versions["number"], versions["artifact_id"]), ([1], [artifact.id]), "the only version")
    check(versions["speed"][0] >= 1 and "<table>" in versions._repr_html_(), f"{versions!r}")
    check("done" in repr(tuning) and "tessera tuning" in tuning._repr_html_(), "it does not describe itself")
    trials = client.records(f'job = "{tuning.job_id}"', limit=0)
    check({"search"} <= set(trials["mode"]), set(trials["mode"]))
    near(artifact.load()(inputs), client.compile(model, shapes=shapes).artifact.load()(inputs), "the tuned artifact")
    raised(errors.InvalidInput, lambda: client.tune(model, mode="now"), "async, sync, static", attribute="mode")
    raised(errors.UnboundDimension, client.tune(model_path("mlp"), trials=1).result)


def test_a_followed_model_is_replaced(service):
    """Threads run it continuously; all results are correct, whichever version computed them."""
    client = connected(service)
    model, inputs, shapes = given_to("bert_tiny")
    expected = client.compile(model, shapes=shapes).artifact.load()(inputs)
    seen, wrong, stop, runs = [], [], threading.Event(), [0, 0]
    target = miscalibrated(service)  # a search finds a faster tree for it within seconds
    tuning = client.tune(model, target, shapes=shapes, trials=10000, budget=200)
    with tuning.follow(on_version=seen.append, timeout=PATIENCE_S) as followed:
        check_equal([tensor.name for tensor in followed.inputs], list(inputs), "inputs")

        def run_on(index):
            try:
                while not stop.is_set():
                    near(followed(inputs), expected, f"version {followed.version.number}")
                    runs[index] += 1
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=run_on, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: wrong or len(seen) > 1, "a second version", PATIENCE_S * 2)
            back = tuning.choose(1)
            wait_until(lambda: wrong or followed.version.number >= back.number, "the first version again")
            at_choice = sum(runs)
            wait_until(lambda: wrong or sum(runs) > at_choice, "it runs on")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            tuning.cancel()
        check_equal(wrong, [], "runs that failed")
        check_equal(followed.version.artifact_id, seen[0].artifact_id, "what runs after going back")
        check_equal([each.number for each in seen], sorted(each.number for each in seen), "versions in order")
        check(min(runs) > 10, f"runs of each thread: {runs}")
        check("float32" in repr(followed.model) and f"version {followed.version.number}" in repr(followed), repr(followed))
    raised(errors.Cancelled, tuning.result)
    check(len(tuning.found) > 0, "what was found until it was cancelled")
    again = client.follow(tuning.job_id)  # ended, and still available
    check_equal(again.version.artifact_id, seen[0].artifact_id, "what a late follower runs")
    near(again.run(inputs), expected, "a late follower")
    again.close()
    compiled = client.compile(model, shapes=shapes)
    compiled.result()
    raised(errors.InvalidInput, lambda: client.follow(compiled.job_id), "is no TUNE job")


# Errors.

def test_errors_have_their_fields(service):
    import onnx
    from onnx import TensorProto, helper
    client = connected(service)
    graph = helper.make_graph([helper.make_node("Frobnicate", ["x"], ["y"], name="it")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    unknown = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    error = raised(errors.UnsupportedOperator, lambda: client.compile(unknown).result(), node="it", op_type="Frobnicate",
                   reason="UNSUPPORTED_OPERATOR")
    check(isinstance(error, NotImplementedError) and client.job(error.job_id).state == "FAILED", "its job is not named")
    check_equal(client.job(error.job_id).error.node, "it", "the job's error")
    raised(errors.InvalidModel, lambda: client.compile(b"input A[2];\nB[i] = C[i];", format="te").result(), "line 2, column 8")
    raised(errors.InvalidModel, lambda: client.compile(b"").result())
    raised(errors.UnboundDimension, lambda: client.compile(GEMM, format="te").result(), "'M'", reason="UNBOUND_DIMENSION")
    raised(errors.NotFound, lambda: client.compile("/nowhere/m.onnx").result(), "/nowhere/m.onnx")
    raised(errors.InvalidTarget, lambda: client.compile(GEMM, "no-such-chip", format="te", shapes=SHAPES).result(), "no-such-chip")
    raised(errors.InvalidTarget, lambda: client.compile(GEMM, tessera.targets.parse('name: "x"'), format="te",
                                                        shapes=SHAPES).result())
    raised(errors.NotFound, lambda: client.job("job-x"), "job-x", code="NOT_FOUND")
    raised(errors.NotFound, lambda: client.artifact("0" * 64))
    raised(errors.InvalidInput, lambda: client.jobs(filter="colour = 1"), "colour")
    raised(errors.InvalidInput, lambda: client.jobs(limit=-1), attribute="limit")
    raised(errors.InvalidInput, lambda: client.compile(7).result(), "int")
    raised(errors.InvalidInput, lambda: client.compile(GEMM, format="pt").result(), "onnx, mlir, te", attribute="format")


def test_arguments_are_checked_before_anything_is_sent(service):
    client = connected(service)
    before = len(client.jobs(limit=0))
    for options, words in (({"shapes": {"A": (7, -5)}}, "at least 0"), ({"shapes": {"A": 7}}, "list of extents"),
                           ({"shapes": {"A": "7x5"}}, "list of extents"), ({"shapes": {"A": (7, 5.0)}}, "whole number"),
                           ({"shapes": {"A": [(1, 2), (2, 2)], "B": [(2, 2)] * 3}}, "as many for each"),
                           ({"dims": {"M": ()}}, "at least one size"), ({"dims": {"M": (3, 3)}}, "each once"),
                           ({"dims": {"M": True}}, "whole number"), ({"dims": {"M": range(10**9)}}, "variants"),
                           ({"dims": {"M": range(1, 10), "K": range(1, 10)}}, "81 variants"),
                           ({"fixed": {"A": np.array(["a"])}}, "no tensor has")):
        raised(errors.InvalidInput, lambda given=options: client.compile(GEMM, format="te", **given).result(), words)
    raised(errors.InvalidInput, lambda: client.compile(GEMM, queue_timeout=0), attribute="queue_timeout")
    for wrong in ("5m", float("inf"), float("nan"), -1):
        raised(errors.InvalidInput, lambda given=wrong: client.tune(GEMM, budget=given), attribute="budget", found=repr(wrong))
    check_equal(len(client.jobs(limit=0)), before, "jobs")


def test_knows_what_it_sent(service):
    """A client sends a small model with its request, and queries the existence of a large one once. Data that the
    service has lost since is sent again automatically."""
    client = connected(service)
    small, calls, method = GEMM.replace(b"C[", b"D["), [], client._connection.method

    def counted(name):
        calls.append(name.partition(".")[2])
        return method(name)

    def asked():
        return [calls.count(name) for name in ("FindMissingBlobs", "UploadBlob", "CreateJob")]

    client._connection.method = counted
    def compiled(model):
        calls.clear()
        client.compile(model, format="te", shapes=SHAPES).result(PATIENCE_S)
        return asked()

    large = small + b"\n//" + b"." * 65_536
    for model, first in ((small, [0, 0, 1]), (large, [1, 1, 1])):
        check_equal(compiled(model), first, "questions, uploads and jobs of a new model")
        check_equal(compiled(model), [0, 0, 1], "of one that is known")
        sha256 = hashlib.sha256(model).hexdigest()
        with sqlite3.connect(service.data / "tessera.db", timeout=PATIENCE_S) as database:
            database.execute("DELETE FROM blob_bytes WHERE sha256 = ?", (sha256,))
        database.close()
        for path in service.data.glob(f"blobs/**/{sha256}"):
            path.unlink()
        service.operator("admin", "verify", expect=None)  # which finds that it is gone
        check_equal(compiled(model), [1, 1, 2], "with a rejection that the client hides")


def test_nobody_answers(service):
    raised(errors.Unreachable, lambda: tessera.connect("127.0.0.1:1").jobs(), "127.0.0.1:1", code="UNAVAILABLE")
    error = raised(errors.Unreachable, lambda: tessera.connect("127.0.0.1:1").compile(GEMM, format="te", shapes=SHAPES).result())
    check(isinstance(error, ConnectionError) and "tesserad" in error.fix, f"no way out: {error}")


# Jobs.

def test_a_closed_client_says_so(service):
    client = tessera.connect(service.address)
    compilation = client.compile(GEMM, format="te", shapes=SHAPES)
    compilation.result(PATIENCE_S)
    client.close()
    client.close()  # doing it twice has the same effect
    for call in (client.jobs, client.workers, lambda: client.compile(GEMM, format="te", shapes=SHAPES).result(PATIENCE_S)):
        raised(errors.Closed, call, "the client is closed", fix="make another with tessera.connect")


# Transfers.

def random_blob(size):
    data = np.random.default_rng(size).bytes(size)
    return data, tensor_pb2.Digest(sha256=hashlib.sha256(data).hexdigest(), size_bytes=size)


def test_transfers_of_every_size(service):
    client = connected(service)
    for size in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 17):
        data, digest = random_blob(size)
        path = service.scratch("blob")
        path.write_bytes(data)
        seen = []
        client._drive(_transfer.upload(path, digest, lambda done, total: seen.append((done, total))))
        check_equal(seen[-1:], [(size, size)] if size else [], "progress")
        client._drive(_transfer.upload(path, digest, seen.append))  # it exists already: no byte is sent
        check(client._drive(_transfer.download_bytes(digest)) == data, f"another blob of {size} bytes came back")
        check_equal(client._drive(_transfer.find(digest.sha256)).size_bytes, size, "size")


def test_a_download_goes_on_where_it_stopped(service):
    client = connected(service)
    data, digest = random_blob(3 * CHUNK + 5)
    client._drive(_transfer.upload(data, digest))
    for name, part, first in (("half", data[:2 * CHUNK], 3 * CHUNK), ("wrong", b"x" * CHUNK, 2 * CHUNK),
                              ("longer", data + b"x", CHUNK), ("all of it", data, None)):
        path = service.scratch("blob")
        path.with_name(path.name + ".part").write_bytes(part)
        seen = []
        client._drive(_transfer.download_file(digest, path, lambda done, total: seen.append(done)))
        check(path.read_bytes() == data, f"{name}: another blob came")
        check(not path.with_name(path.name + ".part").exists(), f"{name}: the part is left")
        check_equal(seen[0] if seen else None, first, f"{name}: first bytes that came")
        client._drive(_transfer.download_file(digest, path, lambda done, total: check(False, "it was there")))


def test_a_download_takes_no_device_s_place(service):
    client, place = connected(service), service.scratch("device")
    place.symlink_to("/dev/null")
    artifact = client.compile(GEMM, format="te", shapes=SHAPES).artifact
    for path in (place, service.folder):
        raised(errors.InvalidInput, lambda given=path: artifact.save(given), "no ordinary file")
    check(place.is_symlink(), "a file in the place of a device")


def test_a_file_that_shrinks_is_named(service):
    client = connected(service)
    data, digest = random_blob(3 * CHUNK)
    path = service.scratch("blob")
    path.write_bytes(data[:CHUNK])
    raised(errors.InvalidInput, lambda: client._drive(_transfer.upload(path, digest)), "became shorter")
    raised(errors.NotFound, lambda: client._drive(_transfer.upload(pathlib.Path("/nowhere/x"), random_blob(9)[1])), "/nowhere/x")


def test_digests_are_remembered(service):
    """Shares the command line's cache: a file that one has read is not read again by the other."""
    folder = service.scratch("cache")
    path = service.scratch("model.te")
    path.write_bytes(GEMM)
    os.utime(path, (time.time() - 100, time.time() - 100))
    service.cli("compile", path, "--shape", "A=7x5", "--shape", "B=5x3", "--detach", env={"XDG_CACHE_HOME": str(folder)})
    entries = list((folder / "tessera" / "digests").iterdir())
    check_equal(len(entries), 1, "entries")
    remembered = entries[0].read_text()
    program = python_package.script(service.folder, "digest.py", f"""
import pathlib
from tessera import _digests
print(_digests.of_file(pathlib.Path({str(path)!r})).sha256)
""")
    made_up = "f" * 64
    entries[0].write_text(remembered.splitlines()[0] + f"\n{made_up}\n")
    code, out, err = python_package.run(program, env={"XDG_CACHE_HOME": str(folder)})
    check_equal((code, out.strip()), (0, made_up), f"what the command line remembered is not read: {err}")
    path.write_bytes(GEMM + b" ")
    code, out, err = python_package.run(program, env={"XDG_CACHE_HOME": str(folder)})
    check_equal((code, out.strip()), (0, hashlib.sha256(GEMM + b" ").hexdigest()), f"a changed file: {err}")


# Lists.

def test_lists_are_tables(service):
    client = connected(service)
    for n in (3, 4, 5):
        client.compile(GEMM, format="te", name=f"table {n}", shapes={"A": (n, n), "B": (n, n)}).result()
    jobs = client.jobs('name = "table*"', "create_time")
    check_equal(jobs["name"], ["table 3", "table 4", "table 5"], "names")
    check_equal([job.name for job in jobs], jobs["name"], "names of the items")
    first = client.jobs('name = "table*"', "create_time", limit=2)
    rest = client.jobs('name = "table*"', "create_time", limit=2, page_token=first.next_page_token)
    check_equal(first["name"] + rest["name"], jobs["name"], "two pages")
    check(first.next_page_token and not rest.next_page_token and "more on the service" in repr(first), "tokens")
    check_equal(jobs[1:]["name"], ["table 4", "table 5"], "a slice")
    check_equal(jobs.rows()[0]["state"], "SUCCEEDED", "a row")
    check("<table>" in jobs._repr_html_() and "table 4" in repr(jobs), "it does not show itself")
    try:
        jobs["colour"]
        raise AssertionError("a column that is not there")
    except KeyError as error:
        check("create_time" in str(error), f"columns are not named: {error}")
    check_equal(len(client.artifacts('name = "table*"')), 3, "artifacts")
    check(len(client.operators()) > 150 and len(client.workers()) == 2, "operators and workers")
    check_equal(len(client.jobs('name = "none"')), 0, "jobs of that name")
    check_equal(client.wanted_workers().rows(), [], "workers wanted by an idle service")
    try:
        client.wanted_workers("brew")
        raise AssertionError("a kind of task that is not there")
    except tessera.errors.InvalidInput as error:
        check("measure" in str(error), f"kinds are not named: {error}")
    check("0 rows" in repr(client.jobs('name = "none"')), "an empty table")


def test_execute_profile_and_records(service):
    client = connected(service)
    artifact = client.compile(GEMM, format="te", shapes={"A": (700, 500), "B": (500, 3)}).artifact  # A is sent as a blob
    random = np.random.default_rng(1)
    a, b = random.standard_normal((700, 500)).astype(np.float32), random.standard_normal((500, 3)).astype(np.float32)
    np.testing.assert_allclose(client.execute(artifact, {"A": a, "B": b})["C"], a @ b, rtol=1e-3, atol=1e-3)
    raised(errors.InvalidInput, lambda: client.execute(artifact, {"A": a[1:], "B": b}), reason="INVALID_INPUT")
    profile = client.profile(artifact.id, {"A": a}, repeat=7, warmup=1, threads=2)
    check_equal(len(profile.latency_ms), 7, "runs")
    check_equal(profile.kernels["flops"], [2 * 700 * 500 * 3], "operations")
    records = wait_until(lambda: client.records(f'job = "{profile.job_id}"'), "records")
    check_equal([len(times) for times in records["times_ms"]], [7], "times")
    check_equal((records["threads"], records["artifact_id"]), ([2], [artifact.id]), "what was measured")
    check(records.columns["median_ms"][0] > 0 and "median_ms" in repr(records), "a table of columns")


def test_targets_are_data(service):
    client = connected(service)
    theirs = service.cli("targets", "--show", "host").out
    check_equal(tessera.targets.parse(theirs), client.target("host"), "this machine, as the command line describes it")
    check("x86-64-v3" in client.targets()["name"], "built-in targets")
    own = client.target("x86-64-v3")
    own.name = "our-chip"
    check_equal(client.validate_target(own), [], "problems")
    check_equal([client.register_target(own), client.register_target(own)], [True, False], "registered once")
    check_equal(client.targets('name = "our-chip"')["builtin"], [False], "from")
    check(client.compile(GEMM, "our-chip", format="te", shapes=SHAPES).artifact.manifest.target_name == "our-chip", "target")
    own.registers.vector_bits = 7
    problems = client.validate_target(own)
    check(any("vector_bits" in field for field, _ in problems), f"problems: {problems}")
    raised(errors.InvalidTarget, lambda: client.register_target(own))
    raised(errors.NotFound, lambda: client.target("nothing"), "nothing")
    path = service.scratch("bad.textproto")
    path.write_text("name: 7")
    raised(errors.InvalidTarget, lambda: client.compile(GEMM, path, format="te", shapes=SHAPES).result(), str(path))


# asyncio, and separate programs.

ASYNC = """
import asyncio, numpy, tessera
GEMM = {gemm!r}

async def main():
    tessera.connect({address!r}).jobs()              # a blocking client in the same process
    async with tessera.aio.Client({address!r}) as client:
        compilations = [client.compile(GEMM, format="te", shapes={{"A": (n, 3), "B": (3, n)}}) for n in (2, 3, 5, 7)]
        artifacts = await asyncio.gather(*compilations)
        for n, artifact in zip((2, 3, 5, 7), artifacts):
            model = await artifact.load()
            assert model.outputs[0].shape == (n, n), model
            assert (await artifact.manifest()).kernels == 1
        explanation = await compilations[0].explain()
        assert len(explanation.after) == 1
        assert [phase.phase async for phase in client.compile(GEMM, format="te", shapes={{"A": (2, 9), "B": (9, 2)}})]
        assert len(await client.jobs(limit=3)) == 3 and await client.workers() and await client.operators(limit=5)
        assert not await client.wanted_workers("build")
        assert (await client.target("host")) == tessera.targets.host()
        out = await client.execute(artifacts[0], {{"A": numpy.ones((2, 3), "f4"), "B": numpy.ones((3, 2), "f4")}})
        assert (out["C"] == 3).all()
        profile = await client.profile(artifacts[0], repeat=2)
        assert len(await client.records('job = "' + profile.job_id + '"')) == 1
        assert (await client.wait(compilations[0].job_id)).state == "SUCCEEDED"
        tuning = client.tune(GEMM, format="te", shapes={{"A": (31, 67), "B": (67, 61)}}, trials=2, budget=30)
        assert "search" in [progress.phase async for progress in tuning]
        tuned = await tuning
        versions = await client.versions(tuning.job_id)
        assert versions["artifact_id"][-1] == tuned.id, versions
        assert (await client.choose_version(tuning.job_id, 1)).artifact_id == versions["artifact_id"][0]
        async with await client.follow(tuning.job_id) as followed:
            a, b = numpy.ones((31, 67), "f4"), numpy.ones((67, 61), "f4")
            assert (followed(A=a, B=b)["C"] == 67).all() and followed.version.artifact_id == versions["artifact_id"][0]
        assert bool(await client.check(GEMM, format="te", shapes={{"A": (2, 9), "B": (9, 2)}}))
        try:
            await client.compile(b"input", format="te")
        except tessera.errors.InvalidModel as error:
            print(error.reason)

asyncio.run(main())
"""


def test_awaited(service):
    program = python_package.script(service.folder, "awaited.py", ASYNC.format(gemm=GEMM, address=service.address))
    code, out, err = python_package.run(program)
    check_equal((code, out, err), (0, "INVALID_MODEL\n", ""), "asyncio")


LOCAL = """
import sys, tessera
with tessera.local({folder!r}, workers=1) as client:
    outer = client.address
    with tessera.local({folder!r}) as second:        # the folder has one owner
        assert second.address == outer
        assert second.compile({gemm!r}, format="te", shapes={{"A": (2, 2), "B": (2, 2)}}).artifact.load()
    assert client.workers()                          # still there
    print(outer.partition(":")[0])
try:
    with tessera.local({folder!r}, binary="no-such-program"):
        pass
except tessera.errors.NotFound as error:
    print(error.fix.split(",")[0])
"""


def test_services_of_their_own(service):
    for folder, kind in ((service.scratch("data"), "unix"), (service.scratch("d" * 100), "127.0.0.1")):
        program = python_package.script(service.folder, "local.py", LOCAL.format(folder=str(folder), gemm=GEMM))
        mark = f"local-{folder.name[:5]}-{os.getpid()}"
        code, out, err = python_package.run(program, env={processes.MARK: mark})
        check_equal((code, out, err), (0, f"{kind}\nput the folder of tesserad into PATH\n", ""), "local")
        check_equal(processes.marked(mark), [], "processes that are left")


SHARED = """
import tessera
with tessera.local({folder!r}, workers=1) as client:     # another program's, without workers
    future = client.compile({gemm!r}, format="te", shapes={{"A": (2, 2), "B": (2, 2)}})
    assert future.artifact.load()
    print(client.workers()[0].state)
"""


def test_a_program_goes_on_where_another_ends_their_service(service):
    data = service.scratch("shared")
    other = as_of_another_command(service, data)
    program = python_package.script(service.folder, "shared.py", SHARED.format(folder=str(data), gemm=GEMM))
    answer = []
    waiter = threading.Thread(target=lambda: answer.extend(python_package.run(program)))
    waiter.start()
    wait_until(lambda: queued_in(data), "its job is there")
    other.kill()
    other.wait()
    waiter.join()
    check_equal(answer[0], 0, f"exit code\n{answer}")


KILLED = """
import os, signal, threading, time
import tessera
service = tessera.local({folder!r}, workers=1)
starter = threading.Thread(target=service.start)
starter.start()
starter.join()                                       # the thread that started it is gone, the service is not
time.sleep(0.5)
end = time.monotonic() + 60
while not service._client.workers() and time.monotonic() < end:  # the worker registers when it has started
    time.sleep(0.1)
assert service._client.workers()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_service_ends_with_a_program_that_is_killed(service):
    program = python_package.script(service.folder, "killed.py", KILLED.format(folder=str(service.scratch("killed"))))
    mark = f"killed-{os.getpid()}"
    code, out, err = python_package.run(program, env={processes.MARK: mark})
    check_equal((code, out, err), (-signal.SIGKILL, "", ""), "the program")
    wait_until(lambda: not processes.marked(mark), "the service and its workers end")


TYPED = """
import numpy as np
import tessera

model: tessera.Model = tessera.load("m.tsra")
result: dict[str, np.ndarray] = model(x=np.zeros(3))
names: list[str] = [tensor.name for tensor in model.inputs]
compilation: tessera.Compilation = tessera.compile("m.onnx", shapes={"x": (1, 3)}, dims={"N": (1, 4)})
job: tessera.Job = tessera.connect().jobs()[0]
state: int = job.state
tessera.load(path="m.tsra")
tessera.connect().jobs(limit="7")
"""


def test_typed(service):
    """Type checkers know the package: mistakes on the last three lines are found, and nothing else."""
    try:
        import mypy
    except ImportError as missing:
        pytest.skip(str(missing))
    program = python_package.script(service.folder, "typed.py", TYPED)
    checker = python_package.script(service.folder, "mypy_of.py", "import sys\nfrom mypy.main import main\nmain(args=sys.argv[1:], clean_exit=True)")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    package = python_package.environment() / "lib" / version / "site-packages" / "tessera"
    config = python_package.script(service.folder, "mypy.ini",
                                   "[mypy]\n" + "".join(f"[mypy-{name}.*]\nignore_missing_imports = True\n"
                                                       for name in ("google", "grpc", "onnx", "pandas", "torch")))
    settings = ("--python-version", "3.11", "--config-file", config, "--no-error-summary", "--cache-dir",
                service.folder / "mypy")
    code, out, err = python_package.run(checker, *settings, program, timeout=300)
    lines = sorted({int(line.split(":")[1]) for line in out.splitlines() if ": error:" in line})
    count = len(TYPED.splitlines())
    check_equal((lines, err), ([count - 2, count - 1, count], ""), f"mistakes that were found\n{out}")
    code, out, err = python_package.run(checker, "--strict", "--no-warn-return-any", "--follow-imports=silent", *settings,
                                        *sorted(package.glob("*.py")), timeout=300)
    check_equal((code, out), (0, ""), f"the package itself, --strict\n{err}")


def test_examples(service):
    found = sorted(python_package.EXAMPLES.glob("*.py"))
    check(len(found) >= 3, f"examples: {found}")
    for path in found:
        words = [str(service.scratch("data"))] if "DATA_FOLDER" in path.read_text() else []
        code, out, err = python_package.run(path, *words, env={"TESSERA_SERVER": service.address})
        check_equal((code, err), (0, ""), f"{path.name}\n{out}")
        check(out, f"{path.name} prints nothing")


def test_it_says_who_calls():
    service = Service(workers=0)
    try:
        service.start()
        token = service.operator("admin", "token", "create", "--name", "ada", "--role", "client").out.split()[-1]
        service.stop()
        keys = service.folder / "keys"
        service.cli("admin", "certificates", keys, "--host", "localhost", "--caller", "reader:bob")
        service._arguments += ["--require-tokens", "--tls-cert", keys / "server.pem", "--tls-key", keys / "server.key",
                               "--tls-client-ca", keys / "ca.pem"]
        with open(service.folder / "tesserad.log", "ab") as log:
            (service.data / "tesserad.addr").unlink(missing_ok=True)
            service.process = subprocess.Popen(
                [BIN / "tesserad", "--data-dir", service.data, "--listen", "127.0.0.1:0", *service._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, processes.MARK: service.mark})
        wait_until((service.data / "tesserad.addr").exists, "tesserad answers")
        address = "localhost:" + (service.data / "tesserad.addr").read_text().strip().rsplit(":", 1)[1]
        ca, file = {"tls_ca": keys / "ca.pem"}, service.scratch("ada.token")
        file.write_text(token + "\n")
        with tessera.connect(address, **ca) as client:
            raised(errors.TesseraError, client.jobs, code="UNAUTHENTICATED")
        for known in ({"token": token}, {"token_file": file}, {"tls_cert": keys / "reader-bob.pem",
                                                               "tls_key": keys / "reader-bob.key"}):
            with tessera.connect(address, **ca, **known) as client:
                check_equal(len(client.jobs()), 0, f"jobs with {list(known)}")
        with tessera.connect(address, **ca, token_file=file) as client:
            file.write_text("tessera-guessed\n")
            raised(errors.TesseraError, client.jobs, code="UNAUTHENTICATED")
            file.write_text(token)
            check_equal(len(client.jobs()), 0, "jobs after the token was renewed")
        os.environ.update(TESSERA_SERVER=address, TESSERA_TOKEN=token, TESSERA_TLS_CA=str(keys / "ca.pem"))
        try:
            check_equal(len(tessera.default_client().jobs()), 0, "jobs by the environment")
        finally:
            for name in ("TESSERA_SERVER", "TESSERA_TOKEN", "TESSERA_TLS_CA"):
                del os.environ[name]
        raised(errors.InvalidInput, lambda: tessera.connect("build.example:7400", token=token), "in plain text")
        raised(errors.InvalidInput, lambda: tessera.connect(address, tls_cert=file), "private key")
        raised(errors.InvalidInput, lambda: tessera.connect(address, tls_ca=service.folder / "none"), "cannot read")
        check(token not in repr(tessera.Identity(token=token)), "a token in a repr")
        file.write_text(f"{token}\n{token}\n")
        refused = raised(errors.InvalidInput, lambda: tessera.connect(address, **ca, token_file=file), attribute="token_file")
        check(token not in str(refused), "a token in an error")
        raised(errors.InvalidInput, lambda: tessera.connect(address, **ca, token="tökén"), attribute="token")
        raised(errors.InvalidInput, lambda: tessera.connect(address, **ca, project="größe"), attribute="project")
    finally:
        service.close()


def test_an_upload_goes_on_where_it_stopped():
    """The server is killed after half of the upload; the client's next attempt sends the other half."""
    with FaultService(workers=0) as service:
        client = connected(service)
        data, digest = random_blob(4 * CHUNK + 5)
        stopped = threading.Event()

        def half():
            yield blob_service_pb2.UploadBlobRequest(digest=digest)
            yield blob_service_pb2.UploadBlobRequest(data=data[:CHUNK])
            yield blob_service_pb2.UploadBlobRequest(data=data[CHUNK:2 * CHUNK])
            stopped.wait()

        call = client._connection.method("BlobService.UploadBlob").func.future(half())
        query = client._connection.method("BlobService.QueryUpload")
        wait_until(lambda: query(blob_service_pb2.QueryUploadRequest(digest=digest)).committed_bytes == 2 * CHUNK, "half")
        service.kill()
        stopped.set()
        check(call.exception() is not None, "the upload outlived its server")
        service.start()
        seen = []
        client._drive(_transfer.upload(data, digest, lambda done, total: seen.append(done)))
        check_equal(seen, [3 * CHUNK, 4 * CHUNK, 4 * CHUNK + 5], "bytes that the server had, after each chunk")
        check(client._drive(_transfer.download_bytes(digest)) == data, "another blob came back")


def test_cancelled_and_late():
    with Service(workers=0) as service:
        client = connected(service)
        compilation = client.compile(GEMM, format="te", shapes=SHAPES)
        wait_until(lambda: compilation.job is not None, "the job")
        try:
            compilation.result(timeout=0.05)
            raise AssertionError("there is an artifact without any worker")
        except TimeoutError as error:
            check(not isinstance(error, errors.TesseraError), "the wait ended, not the job")
        check_equal(client.job(compilation.job_id).state, "QUEUED", "state")
        compilation.cancel()
        raised(errors.Cancelled, compilation.result, job_id=compilation.job_id)
        check_equal(client.job(compilation.job_id).state, "CANCELLED", "state")
        raised(errors.DeadlineExceeded,
               lambda: client.compile(GEMM, format="te", shapes=SHAPES, queue_timeout=0.2).result(PATIENCE_S),
               reason="QUEUE_DEADLINE_EXCEEDED")

        async def both():
            async with tessera.aio.Client(service.address) as aio:
                waiting = aio.compile(GEMM, format="te", shapes=SHAPES)
                while not waiting.job:
                    await asyncio.sleep(0.01)
                try:
                    await asyncio.wait_for(waiting, 0.05)
                    raise AssertionError("there is an artifact without any worker")
                except asyncio.TimeoutError:
                    check(not waiting.done(), "who gave up waiting has ended the job")
                await waiting.cancel()
                try:
                    await waiting
                except errors.Cancelled as error:
                    return error.job_id
        check(client.job(asyncio.run(both())).state == "CANCELLED", "state")


def test_a_watch_goes_on_after_a_restart():
    with FaultService(workers=0) as service:
        client = connected(service)
        compilation = client.compile(GEMM, format="te", shapes=SHAPES)
        wait_until(lambda: len(compilation.events) >= 2, "events")
        service.kill()
        service._arguments[1] = "2"  # workers
        service.start()
        loaded = compilation.result(PATIENCE_S).load()
        numbers = [event.sequence for event in compilation.events]
        check_equal(numbers, list(range(1, len(numbers) + 1)), "events, none lost and none twice")
        check_equal(loaded.outputs[0].shape, (7, 3), "shape")


def test_calls_outlast_a_restart():
    """An operation that began while the server was there continues when it is back, and reports in between that it waits."""
    with FaultService(workers=1) as service:
        client = connected(service)
        artifact = client.compile(GEMM, format="te", shapes=SHAPES).artifact

        async def job_of_another_client():
            async with tessera.aio.Client(service.address) as other:
                await other.workers()
                service.kill()
                threading.Timer(2.5, service.start).start()
                return await other.artifact(artifact.id)

        said = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        logging.getLogger("tessera").addHandler(handler)
        try:
            check_equal(asyncio.run(job_of_another_client()).id, artifact.id, "asyncio's answer")
            service.kill()
            threading.Timer(2.5, service.start).start()
            path = artifact.save(service.scratch("a.tsra"))
        finally:
            logging.getLogger("tessera").removeHandler(handler)
        check_equal(hashlib.sha256(path.read_bytes()).hexdigest(), artifact.id, "digest of the download")
        check_equal(len(said), 2, f"notices: {said}")
        check(all("does not answer" in line and "60 s at most" in line for line in said), f"notices: {said}")
