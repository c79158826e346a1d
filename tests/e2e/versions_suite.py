"""The artifact of a tune job improves while it is run: `tessera run --follow`, `tessera versions`, three modes."""

import json

import numpy as np

from checks import check, check_equal
from e2e.miscalibrated import miscalibrated
from e2e.tessera_e2e import model_inputs, model_path, save_npz, shapes_of, wait_until
from oracle.oracle import difference

MODEL = "conv:h=17,w=19,stride=2"
TOLERANCE = 1e-4  # of the output's largest magnitude
EXIT_NOT_FOUND = 5


def shape_flags(spec):
    return [word for name, shape in shapes_of(model_inputs(spec, 1)).items()
            for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def begin(service, mode, *arguments, trials=30, spec=MODEL, target="host"):
    return service.cli("tune", model_path(spec), "--target", target, "--detach", "--trials", trials, "--budget", "60s",
                       "--mode", mode, *shape_flags(spec), *arguments).out.strip()


def job(service, name):
    return service.cli("job", name, "--json").json


def ended(service, name):
    return wait_until(lambda: (found := job(service, name))["end_time_us"] != "0" and found, f"{name} ends", 300)


def versions(service, name):
    return service.cli("versions", name, "--json").json


def follow_flags(service, name, spec=MODEL):
    inputs, outputs = service.scratch("in.npz"), service.scratch("out")
    save_npz(inputs, model_inputs(spec, 1))
    return ["run", "--follow", name, "--input", inputs, "--output-dir", outputs, "--json"], outputs


def right(oracle, outputs, spec=MODEL):
    session = oracle.load(model_path(spec))
    expected, _ = session.run(model_inputs(spec, 1))
    session.close()
    for name, wanted in expected.items():
        _, relative = difference(np.load(outputs / f"{name}.npy"), wanted)
        check(relative <= TOLERANCE, f"{name} is off by {relative:.3g}")


def test_an_async_artifact_runs_while_it_is_tuned(service, oracle):
    name = begin(service, "async")
    flags, outputs = follow_flags(service, name)
    told = service.cli(*flags, timeout=300).json
    found = ended(service, name)
    listed = versions(service, name)
    check_equal(found["state"], "SUCCEEDED", found)
    check_equal(listed["mode"], "ASYNC", listed)
    numbers = [each["number"] for each in told["versions"]]
    print(f"   {told['runs']} runs of versions {numbers} of {len(listed['versions'])}, the first after "
          f"{told['versions'][0]['from_ms']:.0f} ms of {found['tune_result']['trials']} trials' job")
    check_equal([each["number"] for each in listed["versions"]], list(range(1, len(listed["versions"]) + 1)), "numbers")
    check_equal(numbers, sorted(numbers), "versions are run in order")
    first = told["versions"][0]
    check(first["number"] == 1 and first["runs"] > 10, f"the default ran while trees were searched: {told}")
    check_equal(listed["versions"][0]["artifact_id"], found["tune_result"]["default_artifact_id"], "the first version")
    check_equal(listed["versions"][-1]["artifact_id"], found["tune_result"]["artifact_id"], "the last version")
    check_equal(told["versions"][-1]["artifact_id"], found["tune_result"]["artifact_id"], "what ran last")
    right(oracle, outputs)


def test_a_static_artifact_comes_last(service, oracle):
    name = begin(service, "static", "--no-records", trials=10)
    flags, outputs = follow_flags(service, name)
    told = service.cli(*flags, timeout=300).json
    found = ended(service, name)
    listed = versions(service, name)
    check_equal((listed["mode"], len(listed["versions"])), ("STATIC", 1), listed)
    check_equal(listed["versions"][0]["artifact_id"], found["tune_result"]["artifact_id"], "the only version")
    check(told["runs"] >= 1, told)
    right(oracle, outputs)


def test_a_sync_artifact_ends_right(service, oracle):
    name = begin(service, "sync", "--no-records", trials=12)
    flags, outputs = follow_flags(service, name)
    told = service.cli(*flags, timeout=300).json
    found = ended(service, name)
    check_equal(found["state"], "SUCCEEDED", found)
    check_equal(told["versions"][0]["number"], 1, told)
    check_equal(versions(service, name)["versions"][-1]["artifact_id"], found["tune_result"]["artifact_id"], "the last")
    right(oracle, outputs)


def test_going_back_reaches_who_follows(service, oracle):
    name = begin(service, "async", trials=10000, target=miscalibrated(service))
    flags, outputs = follow_flags(service, name)
    started = service.spawn(*flags)
    wait_until(lambda: len(versions(service, name)["versions"]) >= 2, "a second version", 120)
    back = service.cli("versions", name, "--choose", 1, "--json").json
    check_equal(back["same_as"], 1, back)
    check("no version 77" in service.cli("versions", name, "--choose", 77, expect=EXIT_NOT_FOUND).err, "what there is")
    wait_until(lambda: versions(service, name)["versions"][-1]["number"] >= back["number"], "it is listed")
    service.cli("cancel", name)
    out, err = started.communicate(timeout=120)
    check_equal(started.returncode, 0, f"{out}\n{err}")
    listed = versions(service, name)["versions"]
    check(all(each["held"] for each in listed[back["number"]:]), f"later ones are held: {listed}")
    ran = json.loads(out)["versions"]
    check_equal((ran[-1]["number"], ran[-1]["artifact_id"]), (back["number"], listed[0]["artifact_id"]),
                "what ran last")
    again = service.cli("versions", name, "--choose", 0, "--json").json
    newest = [each for each in listed if not each["same_as"]][-1]
    check_equal(again["artifact_id"], newest["artifact_id"], "the newest that the job published")
    right(oracle, outputs)
    # An old version's artifact is deleted: it can no longer be selected, and new clients run the newest.
    service.operator("admin", "delete", "--artifact", listed[0]["artifact_id"])
    gone = service.cli("versions", name, "--choose", 1, expect=None)
    check(gone.code != 0 and "was collected or deleted" in gone.err, gone)
    late = service.cli(*flags, timeout=120).json["versions"]
    check_equal([each["artifact_id"] for each in late], [newest["artifact_id"]], "what a late follower ran")


def test_what_a_job_made_is_run_by_its_name(service, oracle):
    name = begin(service, "static", "--no-records", trials=6)
    inputs, outputs = service.scratch("in.npz"), service.scratch("out")
    save_npz(inputs, model_inputs(MODEL, 1))
    flags = ["--job", name, "--input", inputs]
    early = service.cli("execute", *flags, expect=None)
    check(early.code != 0 and "has no artifact yet" in early.err, f"while it is searched: {early}")
    service.cli("cancel", name)

    name = begin(service, "async", "--no-records", trials=12)
    flags = ["--job", name, "--input", inputs]
    found = ended(service, name)
    listed = versions(service, name)["versions"]
    for command in (["execute"], ["profile", "--repeat", 2]):
        newest = service.cli(*command, *flags, "--json").json
        check_equal((newest["artifact_id"], newest["version"]), (found["tune_result"]["artifact_id"], len(listed)),
                    f"what {command} ran")
        first = service.cli(*command, *flags, "--version", 1, "--json").json
        check_equal((first["artifact_id"], first["version"]), (listed[0]["artifact_id"], 1), f"what {command} ran")
    service.cli("execute", *flags, "--output-dir", outputs)
    right(oracle, outputs)
    # A selection applies to all clients that run the job by name, here and on workers.
    service.cli("versions", name, "--choose", 1)
    check_equal(service.cli("execute", *flags, "--json").json["artifact_id"], listed[0]["artifact_id"], "the chosen one")
    service.cli("run", *flags, "--output-dir", outputs, "--json")
    right(oracle, outputs)
    service.cli("run", *flags, "--version", 1, "--json")
    absent = service.cli("run", *flags, "--version", 77, expect=EXIT_NOT_FOUND)
    check("no version 77" in absent.err, absent)
    absent = service.cli("execute", *flags, "--version", 77, expect=EXIT_NOT_FOUND)
    check("no version 77" in absent.err, absent)
    compiled = service.compile(model_path(MODEL), shapes_of(model_inputs(MODEL, 1)))
    ran = service.cli("execute", "--job", compiled.job["id"], "--input", inputs, "--json").json
    check_equal((ran["artifact_id"], ran["version"]), (compiled.job["compile_result"]["artifact_id"], 0), "a compile job")
    check_equal(service.cli("execute", expect=None).code, 2, "neither an artifact nor a job")


def test_trials_are_in_the_trace(service):
    name = begin(service, "async", "--no-records", trials=6)
    found = ended(service, name)
    events = service.cli("trace", name, "--json").json["traceEvents"]
    counts = {}
    for each in events:
        if each["ph"] == "X":
            counts[each["name"]] = counts.get(each["name"], 0) + 1
    trials = found["tune_result"]["trials"]
    check(counts.get("search", 0) >= 1 and counts.get("measure", 0) >= trials and counts.get("build", 0) >= trials,
          f"{counts} of {trials} trials")


def test_what_has_no_versions_says_so(service):
    compiled = service.compile(model_path(MODEL), shapes_of(model_inputs(MODEL, 1)))
    name = compiled.job["id"]
    check("no artifact of tune job" in service.cli("versions", name, expect=EXIT_NOT_FOUND).err, "a compile job")
    answer = service.cli("run", "--follow", name, "--random", expect=None)
    check(answer.code != 0 and "no TUNE job" in answer.err, answer)
    check_equal(service.cli("run", expect=None).code, 2, "neither a file nor a job")
