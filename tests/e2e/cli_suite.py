"""The command line as scripts and people use it: exit codes, JSON, lists with filters and pages, files, progress."""

import json
import os
import re
import signal
import socket
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.tessera_e2e import PATIENCE_S, model_inputs, model_path, wait_until

TINY = "tiny:seed=1"


def tiny(service, *arguments):
    return service.compile(model_path(TINY), {"x": [1, 8]}, *arguments)


# Exit codes and errors.

def test_exit_codes(service):
    free = socket.socket()
    free.bind(("127.0.0.1", 0))  # bound but not listening: no server answers here
    nowhere = f"127.0.0.1:{free.getsockname()[1]}"
    model, garbage = model_path(TINY), service.scratch("garbage.onnx")
    garbage.write_bytes(b"\xff" * 100)
    for words, code in (
            (["--help"], 0), (["--version"], 0), (["workers"], 0),
            ([], 2), (["dance"], 2), (["compile"], 2), (["run", "x.tsra", "--threads", "0"], 2),
            (["compile", garbage, "--target", "host"], 3), (["compile", model, "--target", "host"], 3),
            (["jobs", "--filter", "colour = 3"], 3), (["compile", model, "--target", "host", "--shape", "x"], 3),
            (["compile", model, "--target", "host", "--timeout", "soon"], 3),
            (["job", "no-such-job"], 5), (["cancel", "no-such-job"], 5), (["compile", "no-such-file.onnx"], 5),
            (["run", "no-such-file.tsra"], 5), (["targets", "--show", "no-such-target"], 5),
            (["workers", "--server", nowhere], 8)):
        service.cli(*words, expect=code)


def test_errors_are_json_too(service):
    answer = service.cli("job", "no-such-job", "--json", expect=5).json
    check_equal((answer["code"], answer["exit_code"]), ("NOT_FOUND", 5), "code and exit code")
    check_equal(answer["error"]["reason"], "REASON_UNSPECIFIED", "reason where the code says it all")
    check("no-such-job" in answer["error"]["message"], f"the message does not name the job: {answer}")
    answer = service.cli("compile", model_path(TINY), "--target", "host", "--json", expect=3)
    check_equal(answer.failure["reason"], "UNBOUND_DIMENSION", "reason for a symbolic batch without --shape")


def test_people_read_what_to_do(service):
    answer = service.cli("compile", model_path(TINY), "--target", "host", expect=3)
    check("--shape" in answer.err or "shape" in answer.err, f"the error says nothing of shapes: {answer}")
    check("x" in answer.err and "N" in answer.err, f"the error names neither input nor dimension: {answer}")
    check_equal(answer.out, "", "standard output of a failure")


def test_unknown_target_lists_what_there_is(service):
    answer = service.cli("compile", model_path(TINY), "--target", "pentium", "--shape", "x=1x8", expect=None)
    check(answer.code in (3, 5), str(answer))
    check("pentium" in answer.err, f"the error does not name the target: {answer}")


def test_validate_only_stores_nothing(service):
    service.cli("compile", model_path("tiny:seed=2"), "--target", "host", "--shape", "x=1x8", "--validate-only",
                "--name", "only-validated")
    jobs = service.cli("jobs", "--json", "--filter", 'name = "only-validated"').json["jobs"]
    check_equal(jobs, [], "jobs after --validate-only")


# Lists.

def test_lists_filter_and_page(service):
    for seed in range(10, 17):
        service.compile(model_path(f"tiny:seed={seed}"), {"x": [1, 8]}, "--name", f"paged{seed}")
    flags = ["jobs", "--json", "--filter", 'name : "paged"', "--order-by", "create_time"]
    everything = service.cli(*flags, "--limit", "0").json
    check_equal([job["compile"]["name"] for job in everything["jobs"]], [f"paged{n}" for n in range(10, 17)], "jobs")
    check_equal(everything["next_page_token"], "", "token at the end")
    seen, token = [], ""
    while True:
        page = service.cli(*flags, "--limit", "3", *(["--page-token", token] if token else [])).json
        check(len(page["jobs"]) <= 3, "a page is larger than its limit")
        seen += [job["id"] for job in page["jobs"]]
        token = page["next_page_token"]
        if not token:
            break
    check_equal(seen, [job["id"] for job in everything["jobs"]], "pages joined")
    newest = service.cli("jobs", "--json", "--limit", "1", "--order-by", "create_time desc",
                         "--filter", 'name : "paged"').json["jobs"]
    check_equal(newest[0]["compile"]["name"], "paged16", "first in descending order")
    failed = service.cli("jobs", "--json", "--filter", 'name : "paged" AND state = "FAILED"').json["jobs"]
    check_equal(failed, [], "failed jobs among those that succeeded")


def test_jobs_are_found_by_labels(service):
    words = {"compile": ("compile", model_path("tiny:seed=21"), "--target", "host", "--shape", "x=1x8", "--detach")}
    compiled = service.compile(model_path("tiny:seed=20"), {"x": [1, 8]}, "--label", "team=vision", "--label", "run=7")
    artifact = compiled.job["compile_result"]["artifact_id"]
    words["profile"] = ("profile", artifact, "--repeat", "1")
    given = service.scratch("given.npz")
    np.savez(given, x=np.ones((1, 8), np.float32))
    words["execute"] = ("execute", artifact, "-i", given)
    words["tune"] = ("tune", model_path("tiny:seed=22"), "--target", "host", "--shape", "x=1x8", "--budget", "1s", "--detach")
    for kind, command in words.items():
        service.cli(*command, "--label", "team=vision", "--label", f"kind={kind}")

    def found(*labels):
        flags = [word for label in labels for word in ("--label", label)]
        return service.cli("jobs", "--json", "--limit", "0", *flags).json["jobs"]
    check_equal([job["id"] for job in found("run=7")], [compiled.job["id"]], "the job of one label")
    check_equal(len(found("team=vision")), 5, "jobs of all kinds with the label")
    for kind in words:
        jobs = found("team=vision", f"kind={kind}")
        check(len(jobs) == 1 and kind in jobs[0], f"{kind}: {jobs}")
    check_equal(found("team=vision", "kind=none"), [], "jobs with both")
    either = service.cli("jobs", "--json", "--label", "run=7", "--filter", "state = FAILED OR state = SUCCEEDED").json["jobs"]
    check_equal(len(either), 1, "a filter with OR stays one condition")
    shown = service.cli("job", compiled.job["id"]).out
    check("labels run=7, team=vision" in shown, shown)
    for wrong in ("team", "Team=1", "=1"):
        service.cli("compile", model_path("tiny:seed=20"), "--shape", "x=1x8", "--label", wrong, "--json", expect=3)
    service.cli("jobs", "--label", "a = 1 OR b=2", expect=3)


def test_tasks_and_one_worker_are_shown(service):
    job = tiny(service, "--no-cache").job
    tasks = service.cli("tasks", "--json", "--limit", "0").json["tasks"]
    check({"PLAN"} <= {task["kind"] for task in tasks} and all("T" in task["create_time"] for task in tasks),
          f"tasks: {tasks[:3]}")
    plans = service.cli("tasks", "--json", "--filter", "kind = PLAN AND state = DONE", "--limit", "1").json
    check(len(plans["tasks"]) == 1 and plans["next_page_token"], f"a page of plans: {plans}")
    check("PLAN" not in service.cli("tasks").out and "plan" in service.cli("tasks").out, "kinds as people read them")
    name = plans["tasks"][0]["worker_id"]
    check(any(name == worker["id"] for worker in service.wait_for_workers(2)), f"{name} is no worker")
    one = service.cli("workers", name, "--json").json
    check_equal((one["id"], bool(one["sandbox"])), (name, True), "the worker")
    check("sandbox: system-calls" in service.cli("workers", name).out, service.cli("workers", name).out)
    service.cli("workers", "nobody", "--json", expect=5)
    check_equal(service.cli("workers", name, "--drain", name, expect=None).code, 2, "a worker and --drain")
    check(job["id"], "a job")


def test_page_tokens_are_checked(service):
    service.cli("jobs", "--page-token", "made-up", expect=3)


def test_every_list_is_json(service):
    tiny(service)
    for command, plural in (("jobs", "jobs"), ("artifacts", "artifacts"), ("records", "records"),
                            ("targets", "targets"), ("workers", "workers"), ("ops", "operators")):
        answer = service.cli(command, "--json").json
        check(isinstance(answer[plural], list), f"{command}: no list '{plural}'")
        check(command == "records" or answer[plural], f"{command}: nothing listed")
        check(service.cli(command).out.splitlines()[0].isupper(), f"{command}: no headings for people")


def test_workers_drain(service):
    def state(worker):
        return {w["id"]: w["state"] for w in service.cli("workers", "--json").json["workers"]}[worker]

    # Four jobs each, one after the other: a single job might have gone to the other worker by chance.
    workers = [worker["id"] for worker in service.wait_for_workers(2)]
    for worker, other in (workers, workers[::-1]):
        service.operator("workers", "--drain", worker)
        wait_until(lambda w=worker: state(w) == "DRAINING", "the worker drains")
        jobs = [tiny(service, "--no-cache").job["id"] for _ in range(4)]
        lines = [line for job in jobs for line in service.cli("watch", job, "--json").out.splitlines()]
        events = [json.loads(line) for line in lines if '"attempt":' in line]
        ran = {event["attempt"]["worker"] for event in events if "attempt" in event}
        check_equal(ran, {other}, f"who did the work while {worker} drains")
        service.operator("workers", "--undrain", worker)
        wait_until(lambda w=worker: state(w) in ("IDLE", "BUSY"), "the worker is back")


def test_wanted_workers_follow_the_queue(service):
    def wanted():
        return service.cli("workers", "--wanted", "--json").json["wanted"]

    wait_until(lambda: not wanted(), "nothing waits or runs")
    workers = [worker["id"] for worker in service.wait_for_workers(2)]
    slots = int(service.cli("workers", workers[0], "--json").json["slots"])
    for worker in workers:
        service.operator("workers", "--drain", worker)
    jobs = [service.cli("compile", model_path("mlp"), "--target", "host", "--dim", f"N={rows}", "--detach", "--json",
                        "--no-cache").json["id"] for rows in (50, 51, 52)]
    count = -(-3 // slots)
    expected = {"kind": "PLAN", "target": "", "waiting": "3", "running": "0", "slots": "3", "workers": str(count)}
    check_equal(wanted(), [expected], "workers wanted by three jobs that wait")
    table = service.cli("workers", "--wanted").out.splitlines()
    check_equal([line.split() for line in table], [["KIND", "TARGET", "WAITING", "RUNNING", "SLOTS", "WORKERS"],
                                                   ["plan", "(any)", "3", "0", "3", str(count)]], "the table")
    for flags in (("--drain", "x"), ("--undrain", "x"), (workers[0],)):
        check_equal(service.cli("workers", "--wanted", *flags, expect=None).code, 2, f"--wanted with {flags}")
    for job in jobs:
        service.cli("cancel", job)
    for worker in workers:
        service.operator("workers", "--undrain", worker)
    wait_until(lambda: not wanted(), "no worker is wanted by jobs that ended")


# Jobs.

def test_detached_jobs_are_watched(service):
    answer = service.cli("compile", model_path("resnet18"), "--target", "host", "--shape", "x=2x3x224x224", "--detach",
                         "--json").json
    lines = service.cli("watch", answer["id"], "--json", timeout=300).out.splitlines()
    *events, job = [json.loads(line) for line in lines]
    check_equal(job["state"], "SUCCEEDED", "state")
    check_equal([int(event["sequence"]) for event in events], list(range(1, len(events) + 1)), "sequence of events")
    phases = [event["progress"]["phase"] for event in events if "progress" in event]
    check("build" in phases, f"no progress of the build phase: {phases}")
    check({"plan", "build", "assemble"} <= {phase["phase"] for phase in job["phases"]}, f"phases: {job['phases']}")
    check_equal(service.cli("job", answer["id"], "--json").json, job, "job as shown later")


def test_cancelled_jobs_end(service):
    job = service.cli("compile", model_path("resnet50"), "--target", "host", "--shape", "x=4x3x224x224", "--detach",
                      "--json").json["id"]
    service.cli("cancel", job)
    ended = service.cli("watch", job, "--json", expect=7).out.splitlines()
    last = json.loads(ended[-1])
    check_equal((last["state"], last["failure"]["reason"]), ("CANCELLED", "CANCELLED"), "state and reason")
    service.cli("cancel", job)  # repeating it changes nothing
    check_equal(service.cli("job", job, "--json").json, last, "job after a second cancel")


def test_interrupt_cancels(service):
    client = service.spawn("compile", model_path("resnet50"), "--target", "host", "--shape", "x=5x3x224x224", "--name",
                           "interrupted", "--json")

    def job():
        jobs = service.cli("jobs", "--json", "--filter", 'name = "interrupted"').json["jobs"]
        return jobs and jobs[0]

    wait_until(lambda: (job() or {}).get("state") in ("QUEUED", "RUNNING"), "the job is there")

    client.send_signal(signal.SIGINT)
    client.communicate(timeout=PATIENCE_S)
    check_equal(client.returncode, 7, "exit code of the interrupted client")
    check_equal(job()["state"], "CANCELLED", "state of the job")


def test_queue_deadline(service):
    workers = [worker["id"] for worker in service.wait_for_workers(2)]
    for worker in workers:
        service.operator("workers", "--drain", worker)
    try:
        answer = service.cli("compile", model_path("tiny:seed=3"), "--target", "host", "--shape", "x=1x8", "--json",
                             "--queue-timeout", "1s", expect=6)
        check_equal(answer.failure["reason"], "QUEUE_DEADLINE_EXCEEDED", "reason")
    finally:
        for worker in workers:
            service.operator("workers", "--undrain", worker)


def test_run_deadline(service):
    answer = service.cli("compile", model_path("resnet50"), "--target", "host", "--shape", "x=6x3x224x224", "--json",
                         "--timeout", "50ms", expect=6)
    check_equal(answer.failure["reason"], "RUN_DEADLINE_EXCEEDED", "reason")


# Artifacts and running them.

def test_artifact_is_a_zip(service):
    compiled = tiny(service)
    with zipfile.ZipFile(compiled.artifact) as archive:
        check_equal(archive.testzip(), None, "first broken member")
        names = {info.filename: info for info in archive.infolist()}
        check({"manifest.json", "code.so", "plan.pb"} <= set(names), f"members: {sorted(names)}")
        check(all(info.compress_type == zipfile.ZIP_STORED for info in names.values()), "a member is compressed")
        manifest = json.loads(archive.read("manifest.json"))
    printed = service.cli("inspect", compiled.artifact, "--json").json
    # `inspect` prints empty fields too; the file omits them.
    check_equal([{key: value for key, value in each.items() if value != []} for each in printed["outputs"]],
                manifest["outputs"], "outputs of `inspect` and of manifest.json")
    check_equal(printed["outputs"][0]["shape"], ["1", "8"], "shape of y")


def test_artifacts_are_fetched(service):
    compiled = tiny(service)
    fetched = service.scratch("fetched.tsra")
    service.cli("fetch", compiled.job["compile_result"]["artifact_id"], "-o", fetched)
    check_equal(fetched.read_bytes(), compiled.artifact.read_bytes(), "fetched artifact")


def test_run_prints_latency(service):
    arrays = model_inputs("mlp", 3)
    compiled = service.compile(model_path("mlp"), {"x": [3, 784]})
    _, printed = service.run(compiled.artifact, arrays, "--repeat", "20", "--threads", "2")
    latency = printed["latency_ms"]
    check(0 < latency["min"] <= latency["median"] <= latency["p90"], f"not in order: {latency}")
    check_equal((printed["runs"], printed["threads"]), (20, 2), "runs and threads")
    text = service.cli("run", compiled.artifact, "--random").out
    check(re.search(r"median \d", text), f"no latency for people: {text}")


def test_run_takes_npy(service):
    compiled = service.compile(model_path("mlp"), {"x": [3, 784]})
    arrays = model_inputs("mlp", 3)
    by_npz, _ = service.run(compiled.artifact, arrays)
    single, wanted = service.scratch("x.npy"), service.scratch("out")
    np.save(single, arrays["x"])
    service.cli("run", compiled.artifact, "--input", f"x={single}", "--output-dir", wanted)
    check(np.array_equal(np.load(wanted / "y.npy"), by_npz["y"]), "npy and npz inputs give different outputs")


def test_weights_lie_beside_the_model(service):
    """External data of large models: the file is found, or the error names it if it is elsewhere."""
    folder = service.scratch("with spaces")
    folder.mkdir()
    model, weights = folder / "model.onnx", folder / "model.onnx.data"
    onnx.save_model(onnx.load(model_path("mlp")), str(model), save_as_external_data=True, location=weights.name,
                    size_threshold=0)
    shapes, arrays = {"x": [3, 784]}, model_inputs("mlp", 3)
    wanted, _ = service.run(service.compile(model_path("mlp"), shapes).artifact, arrays)
    beside = service.compile(model, shapes)
    check_equal(list(beside.job["compile"]["external_data"]), [weights.name], "what was uploaded with it")
    found, _ = service.run(beside.artifact, arrays)
    check(np.array_equal(found["y"], wanted["y"]), "other weights, other results")
    elsewhere = weights.rename(service.scratch("elsewhere"))
    failure = service.cli("compile", model, "--target", "host", "--shape", "x=3x784", "--json", expect=5).failure
    check_equal((failure["reason"], failure["found"]), ("MISSING_BLOB", weights.name), "what is missing")
    check("next to the model" in failure["fix"], f"what to do: {failure}")
    named = service.compile(model, shapes, "--external-data", f"{weights.name}={elsewhere}")
    check_equal(named.job["compile_result"]["artifact_id"], beside.job["compile_result"]["artifact_id"], "the artifact")


def test_links_beside_the_model_stay_there(service):
    """A link out of the model's folder is followed only if its target is named; links of Hugging Face's cache are followed."""
    shapes, secret = {"x": [3, 784]}, service.scratch("secret")
    repository = service.scratch("hub") / "models--org--mlp"
    snapshot, blobs = repository / "snapshots" / "4f1ab2", repository / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    model = snapshot / "model.onnx"
    onnx.save_model(onnx.load(model_path("mlp")), str(model), save_as_external_data=True, location="weights.bin",
                    size_threshold=0)
    for file in (model, snapshot / "weights.bin"):
        file.rename(blobs / f"of-{file.name}")
        file.symlink_to(f"../../blobs/of-{file.name}")
    in_cache = service.compile(model, shapes)
    check_equal(list(in_cache.job["compile"]["external_data"]), ["weights.bin"], "what was uploaded of a hub's cache")
    (blobs / "of-weights.bin").rename(secret)
    (snapshot / "weights.bin").unlink()
    (snapshot / "weights.bin").symlink_to(secret)
    failure = service.cli("compile", model, "--target", "host", "--shape", "x=3x784", "--json", expect=3).failure
    check_equal((failure["reason"], failure["attribute"], failure["found"]),
                ("INVALID_MODEL", "weights.bin", str(secret.resolve())), "a link to elsewhere")
    check("--external-data" in failure["fix"], f"what to do: {failure}")
    named = service.compile(model, shapes, "--external-data", f"weights.bin={secret}")
    check_equal(named.job["compile_result"]["artifact_id"], in_cache.job["compile_result"]["artifact_id"], "the artifact")


def test_wrong_inputs_are_named(service):
    compiled = service.compile(model_path("mlp"), {"x": [3, 784]})
    path = service.scratch("in.npz")
    for arrays, words in (({}, ["x", "float32[3,784]"]),
                          ({"x": np.zeros((3, 783), np.float32)}, ["x", "float32[3,783]", "float32[3,784]"]),
                          ({"x": np.zeros((3, 784), np.float64)}, ["x", "float64"]),
                          ({"x": np.zeros((3, 784), np.float32), "z": np.zeros(1)}, ["z"])):
        np.savez(path, **arrays)
        failure = service.cli("run", compiled.artifact, "--input", path, "--json", expect=3).failure
        check_equal(failure["reason"], "INVALID_INPUT", "reason")
        check(all(word in failure["message"] for word in words), f"{words} not all in '{failure['message']}'")


def test_broken_artifacts_are_refused(service):
    whole = tiny(service).artifact.read_bytes()
    path = service.scratch("broken.tsra")
    for content in (b"", b"PK", whole[:len(whole) // 2], whole[:100] + bytes(4096) + whole[4196:]):
        path.write_bytes(content)
        answer = service.cli("run", path, "--random", expect=None)
        check(answer.code in (1, 3), f"a broken artifact: {answer}")
        check(answer.err.strip(), "no message")


def test_foreign_artifacts_are_refused(service):
    artifact = service.scratch("arm.tsra")
    targets = [entry["target"] for entry in service.cli("targets", "--json", "--limit", "0").json["targets"]]
    foreign = [target["name"] for target in targets if target["family"] == "AARCH64"]
    check(foreign, "there is no AArch64 target")
    service.cli("compile", model_path(TINY), "--target", foreign[0], "--shape", "x=1x8", "-o", artifact)
    failure = service.cli("run", artifact, "--random", "--json", expect=9).failure
    check_equal(failure["reason"], "INCOMPATIBLE_HOST", "reason")


def test_output_names_cannot_leave_the_folder(service):
    made = helper.make_model(helper.make_graph(
        [helper.make_node("Relu", ["x"], ["../../escaped"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("../../escaped", TensorProto.FLOAT, [4])]),
        opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    model, wanted = service.scratch("escape.onnx"), service.scratch("a") / "b" / "c"
    model.write_bytes(made.SerializeToString())
    compiled = service.compile(model)
    service.cli("run", compiled.artifact, "--random", "--output-dir", wanted)
    check_equal(len(list(wanted.glob("*.npy"))), 1, "files in the output folder")
    check(not list(service.folder.rglob("escaped.npy")), "an output was written outside the output folder")


def test_remote_execution_agrees(service):
    arrays = model_inputs("mlp", 3)
    compiled = service.compile(model_path("mlp"), {"x": [3, 784]})
    local, _ = service.run(compiled.artifact, arrays)
    given, wanted = service.scratch("in.npz"), service.scratch("out")
    np.savez(given, **arrays)
    identity = compiled.job["compile_result"]["artifact_id"]
    service.cli("execute", identity, "--input", given, "--output-dir", wanted)
    check(np.array_equal(np.load(wanted / "y.npy"), local["y"]), "the worker's outputs differ from the client's")


def test_profile_leaves_records(service):
    compiled = service.compile(model_path("mlp"), {"x": [3, 784]})
    identity = compiled.job["compile_result"]["artifact_id"]
    answer = service.cli("profile", identity, "--repeat", "5", "--json").json["result"]
    check_equal(len(answer["latency_ms"]), 5, "raw times")
    check(answer["kernels"] and all(kernel["median_ms"] > 0 for kernel in answer["kernels"]), f"kernels: {answer}")
    records = service.cli("records", "--json", "--limit", "0").json["records"]
    check(any(record["artifact_id"] == identity for record in records), "no tuning record of the profiled artifact")
    exported = [json.loads(line) for line in service.cli("records", "--export").out.splitlines()]
    check_equal({r["id"] for r in exported}, {r["id"] for r in records}, "exported records")


def test_records_are_asked_and_travel(service):
    compiled = service.compile(model_path("mlp"), {"x": [5, 784]})
    identity = compiled.job["compile_result"]["artifact_id"]
    profiled = service.cli("profile", identity, "--repeat", "5", "--json").json["job_id"]
    mine = f'job = "{profiled}"'
    records = service.cli("records", "--json", "--filter", mine, "--order-by", "median_ms").json["records"]
    fastest = records[0]
    check_equal(fastest["outcome"], "UNCHECKED", "outcome of a profile")
    shown = service.cli("records", "show", fastest["id"])
    check(fastest["workload_hash"] in shown.out and "vectors " in shown.out, f"no tree: {shown.out}")
    service.cli("records", "show", "none", expect=5)
    groups = service.cli("records", "best", "--workload", fastest["workload_hash"], "--top", "2", "--json").json["groups"]
    check(any(group["records"][0]["median_ms"] <= fastest["median_ms"] for group in groups), f"best: {groups}")
    pins = service.scratch("best.pins")
    service.cli("records", "best", "--target", fastest["target_name"], "--threads", fastest["threads"], "-o", pins)
    check(f"workload {fastest['workload_hash']}" in pins.read_text(), "no schedule of the fastest record")
    counts = service.cli("records", "stats", "--by", "mode", "--filter", mine, "--json").json["groups"]
    check_equal([(group["value"], int(group["records"])) for group in counts], [("profile", len(records))], "counts")
    check("mode, method" in service.cli("records", "stats", "--by", "times", expect=3).err, "accepted columns")

    lines = service.scratch("records.jsonl")
    service.cli("records", "export", lines, "--filter", mine)
    moved = lines.read_text().replace(fastest["hostname"], "elsewhere")
    service.cli("records", "import", lines, expect=11)
    again = json.loads(service.operator("records", "import", lines, "--json").out)
    check_equal((int(again["imported"]), int(again["known"])), (0, len(records)), "what is there already")
    lines.write_text(moved)
    for imported in (len(records), 0):
        answer = json.loads(service.operator("records", "import", lines, "--json").out)
        check_equal(int(answer["imported"]), imported, "records of another host")
    there = service.cli("records", "--json", "--filter", f'host = elsewhere AND {mine}').json["records"]
    check_equal(sorted(r["median_ms"] for r in there), sorted(r["median_ms"] for r in records), "what came over")
    lost = json.loads(moved.splitlines()[0])  # in its own workload, and slower than the default's
    lost.update(id="lost", workload_hash="a" * 64, target_name="of its own", baseline_ms=lost["median_ms"] / 2)
    lines.write_text(json.dumps(lost) + "\n")
    service.operator("records", "import", lines)
    told = service.cli("records", "best", "--workload", "a" * 64, "-o", pins)
    check("left out: 1 whose fastest schedule was slower than the default" in told.out and "workload" not in pins.read_text(), f"a tree that lost: {told.out}")
    lines.write_text('{"id": "no\n')
    said = service.operator("records", "import", lines, expect=3).err
    check("records.jsonl:1" in said and said.count("\n") <= 2, f"the line at fault: {said}")


def test_metaschedule_leaves_times(service):
    folder = service.scratch("metaschedule")
    folder.mkdir()
    (folder / "database_workload.json").write_text('["1443259347859275", "eyJyb290IjogMX0="]\n')
    trace = [[["GetBlock", [], ["T_matmul_NT", "main"], ["b0"]]], []]
    target = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2, "keys": ["cpu"], "tag": ""}
    arguments = [["TENSOR", "float32", shape] for shape in ([13, 7], [5, 7], [13, 5])]
    rows = [[0, [trace, seconds, target, arguments]] for seconds in ([0.003, 0.002, 0.0021], [1e10], None)]
    (folder / "database_tuning_record.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for imported in (2, 0):
        answer = service.operator("records", "import", folder, "--json", expect=3)
        told = json.loads(answer.out)
        check_equal((int(told["imported"]), int(told["known"]), int(told["refused"])), (imported, 2 - imported, 1), "told")
        check("database_tuning_record.json:3" in told["problems"][0], f"what has no place: {told}")
    found = service.cli("records", "--json", "--filter", 'mode = "metaschedule"', "--order-by", "trial").json["records"]
    check_equal([record["median_ms"] for record in found], [2.1, 0], "times")
    check_equal(found[0]["workload_summary"], "T_matmul_NT float32[13,7] float32[5,7] float32[13,5]", "summary")
    best = service.cli("records", "best", "--workload", "metaschedule-1443259347859275", "--json").json["groups"]
    check_equal([group["records"][0]["median_ms"] for group in best], [2.1], "the best that ran")
    pins = service.scratch("metaschedule.pins")
    service.cli("records", "best", "--workload", "metaschedule-1443259347859275", "-o", pins)
    check("workload" not in pins.read_text(), "a time without a tree was made a schedule")


def test_searches_and_jobs_are_drawn(service):
    compiled = service.compile(model_path("mlp"), {"x": [6, 784]})
    job = compiled.job["id"]
    picture, trace = service.scratch("job.svg"), service.scratch("job.trace.json")
    table = service.cli("trace", job, "-o", trace, "--svg", picture).out
    check("build" in table and "assemble" in table, f"who did what: {table}")
    events = json.loads(trace.read_text())["traceEvents"]
    check({"plan", "build", "assemble"} <= {event["name"] for event in events if event["ph"] == "X"}, f"trace: {events}")
    check(picture.read_text().count("<title>") >= 3, "bars in the chart")
    identity = compiled.job["compile_result"]["artifact_id"]
    profiled = service.cli("profile", identity, "--repeat", "5", "--json").json["job_id"]
    curve = service.scratch("curve.svg")
    drawn = service.cli("curve", "--job", profiled, "-o", curve, "--json").json["curves"]
    check(drawn and all(each["points"][0]["best_ms"] > 0 for each in drawn), f"curves: {drawn}")
    check("</svg>" in curve.read_text(), "no picture")
    service.cli("curve", "--job", "none", "-o", curve, expect=3)


def test_spaces_are_analysed(service):
    expression = service.scratch("gemm.te")
    expression.write_text("input A[64, 96], B[96, 48]: f32; C[i, j] += A[i, k] * B[k, j];")
    printed = service.cli("space", expression).out
    check("#sl/#rl 2/1, #node 1" in printed and "stc 64x48, rtc 96" in printed, printed)
    for words in (["--json", "space"], ["space", "--json"]):
        (workload,) = service.cli(*words, expression, "--refusals", "5").json["workloads"]
        check_equal((workload["nodes"][0]["stc"], workload["nodes"][0]["rtc"]), ([64, 48], [96]), "extents as JSON")
        check(workload["trees_log10"] > 1 and workload["refusals"]["neighbours"] > 0, workload)
    check("GMM" in {each["name"] for each in service.cli("space", "--table", "--json").json["operators"]}, "table 4.2 as JSON")
    check("shape" in service.cli("space", expression, "--shape", "A", "--json", expect=3).json["error"]["message"], "an error as JSON")
    refused = service.cli("space", expression, "--refusals", "40").out.splitlines()[-1]
    before, after = (int(share) for share in re.findall(r"(\d+) %", refused))
    check(after < before and after <= 20, f"what is proposed is refused too often: {refused}")


# Targets.

def test_targets_are_described(service):
    names = {entry["target"]["name"] for entry in service.cli("targets", "--json", "--limit", "0").json["targets"]}
    check({"x86-64-v3", "cascadelake"} <= names, f"targets: {sorted(names)}")
    description = service.scratch("chip.textproto")
    text = service.cli("targets", "--show", "x86-64-v3").out
    description.write_text(re.sub(r'^name: ".*"', 'name: "my-chip"', text))
    service.cli("targets", "--validate", description)
    service.cli("targets", "--register", description)
    service.cli("targets", "--register", description)  # the same content again
    service.cli("compile", model_path(TINY), "--target", "my-chip", "--shape", "x=1x8", "-o", service.scratch("t.tsra"))
    description.write_text(description.read_text().replace("vector_bits: 256", "vector_bits: 7"))
    problems = service.cli("targets", "--validate", description, "--json", expect=3).json["problems"]
    check(any("vector_bits" in problem["field"] for problem in problems), f"problems: {problems}")
    service.cli("targets", "--register", description, expect=3)


def test_runnable_targets_run_here(service):
    known = {entry["target"]["name"]: entry for entry in service.cli("targets", "--json", "--limit", "0").json["targets"]}
    runnable = service.cli("targets", "--runnable", "--json", env={"TESSERA_SERVER": "127.0.0.1:1"}).json["targets"]
    check(runnable and all(known[entry["target"]["name"]] == entry for entry in runnable), f"runnable: {runnable}")
    for entry in runnable:
        name = entry["target"]["name"]
        artifact = service.compile(model_path(TINY), {"x": [1, 8]}, target=name).artifact
        answer = service.cli("run", artifact, "--random", "--guard", "--threads", "2", "--json").json
        check(answer["guarded"] and answer["runs"] == 2, f"{name}: {answer}")
    others = [name for name, entry in known.items() if entry["builtin"] and entry not in runnable]
    check(others, "this machine runs code for AArch64 and x86-64 alike")
    artifact = service.compile(model_path(TINY), {"x": [1, 8]}, target=others[0]).artifact
    service.cli("run", artifact, "--random", expect=9)


def test_host_target_runs_here(service):
    shown = service.cli("targets", "--show", "host", "--json").json
    check_equal(shown["code"]["triple"].split("-")[0], os.uname().machine, "architecture of the host target")


# Progress.

def test_progress_is_plain_in_a_pipe(service):
    answer = service.cli("compile", model_path(TINY), "--target", "host", "--shape", "x=1x8", "--no-cache", "-o",
                         service.scratch("p.tsra"))
    check("\x1b" not in answer.err and "\r" not in answer.err, f"terminal codes in a pipe: {answer.err!r}")
    check("build" in answer.err, f"no progress: {answer.err!r}")
    quiet = service.cli("compile", model_path(TINY), "--target", "host", "--shape", "x=1x8", "--no-cache", "-q", "-o",
                        service.scratch("p.tsra"))
    check_equal(quiet.err, "", "standard error with --quiet")
