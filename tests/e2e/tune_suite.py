"""`tessera tune`: schedules are searched by measuring, with correct results only, and used by later compilations."""

import datetime
import hashlib
import re
import signal
import sqlite3

import pytest

from checks import check, check_equal
from e2e.matching import matches
from e2e.miscalibrated import doubtful
from e2e.tessera_e2e import model_inputs, model_path, shapes_of, wait_until

GEMM = "gemm:m=61,k=67,n=131"
MODELS = (GEMM, "conv:h=17,w=19,stride=2", "bert_tiny")
EXIT_INVALID = 3


def shape_flags(spec):
    return [word for name, shape in shapes_of(model_inputs(spec, 1)).items()
            for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def tune(service, spec, *arguments, trials=5, method="walk"):
    """The result of a TUNE job, and the file of schedules."""
    pins = service.scratch("best.pins")
    job = service.cli("tune", model_path(spec), "--target", "host", "--json", "--trials", trials, "--budget", "60s",
                      "--method", method, "-o", pins, *shape_flags(spec), *arguments, timeout=600).json["job"]
    check_equal(job["state"], "SUCCEEDED", job)
    return job["tune_result"], pins


def begin(service, spec, trials, *arguments):
    """The name of a TUNE job in the background."""
    return service.cli("tune", model_path(spec), "--target", "host", "--detach", "--trials", trials, "--budget", "5m",
                       *shape_flags(spec), *arguments).out.strip()


def job(service, name):
    return service.cli("job", name, "--json").json


def ended(service, name):
    """The job, once it has ended."""
    return wait_until(lambda: (found := job(service, name))["end_time_us"] != "0" and found, f"{name} ends", 300)


def records(service, filter_):
    return service.cli("records", "--json", "--limit", "0", "--filter", filter_).json["records"]


def trials_of(service, name):
    """(workload, trial) of all trials of a job's searches, in order."""
    return sorted((each["workload_hash"], each["trial"]) for each in records(service, f'job = "{name}"')
                  if each["mode"] == "search")


def explained(service, spec, *arguments):
    return service.cli("explain", model_path(spec), "--target", "host", "--json", *shape_flags(spec), *arguments).json


@pytest.mark.parametrize("spec, method", [*((spec, "walk") for spec in MODELS), ("conv:h=7,w=5", "random")])
def test_tuned_is_right(service, oracle, spec, method):
    result, pins = tune(service, spec, method=method)
    failed = [text for each in result["workloads"] for text in each["failures"]]
    print(f"   {spec}: {result['trials']} trials, {sum(each['refused'] for each in result['workloads'])} refused, "
          f"{len(pins.read_text().splitlines())} lines of pins; {result['note']}")
    check(result["trials"] >= 4, f"only {result['trials']} candidates were measured: {result}")
    check_equal(failed, [], "candidates that were wrong, crashed or could not be built")
    matches(service, oracle, spec, 1, flags=("--pin", pins))
    pinned = ["--pin", pins] if result.get("pins") else []
    again = service.compile(model_path(spec), shapes_of(model_inputs(spec, 1)), *pinned)
    check_equal(again.job["compile_result"]["artifact_id"], result["artifact_id"], "the artifact of its pins")
    main = max(result["workloads"], key=lambda each: each["share"])
    trees = {str(each["schedule"]) for each in records(service, f'workload = "{main["hash"]}"')}
    check(len(trees) > main["trials"] / 2, f"{len(trees)} trees on record after {main['trials']} trials")


@pytest.mark.parametrize("spec", ["bert_tiny"])
def test_open_choices_are_measured(service, oracle, spec):
    """Choices that the cost model leaves open are measured, and the pins record the outcome."""
    target = doubtful(service)
    shapes = shapes_of(model_inputs(spec, 1))
    open_ones = service.cli("explain", model_path(spec), "--target", target, *shape_flags(spec)).out
    check("OPEN CHOICES" in open_ones, open_ones[-2000:])
    pins = service.scratch("choices.pins")
    answer = service.cli("tune", model_path(spec), "--target", target, "--json", "--choices", 4, "--trials", 1, "--top", 1,
                         "--budget", "90s", "-o", pins, *shape_flags(spec), timeout=600).json["job"]
    check_equal(answer["state"], "SUCCEEDED", answer)
    result = answer["tune_result"]
    measured = [each for each in result["choices"] if each["ms"] > 0]
    taken = [each for each in result["choices"] if each["taken"]]
    print(f"   {spec}: {len(result['choices'])} open choices, {len(measured)} measured, {len(taken)} taken")
    check(1 <= len(measured) <= 4, f"{len(measured)} choices were measured: {result['choices']}")
    for each in result["choices"]:
        check(each["taken"] != bool(each["untaken"]), f"taken, or the reason why not: {each}")
    lines = [line for line in pins.read_text().splitlines() if line.startswith("choice ")]
    places = [pin["place"] for each in taken for pin in each["open"]["choices"]]
    check_equal(len(lines), len(places), "choice lines of the pins")
    check("choose" in [phase["phase"] for phase in answer["phases"]], f"phases: {answer['phases']}")
    matches(service, oracle, spec, 1, target=target, flags=("--pin", pins))
    pinned = ["--pin", pins] if result.get("pins") else []
    again = service.compile(model_path(spec), shapes, *pinned, target=target)
    check_equal(again.job["compile_result"]["artifact_id"], result["artifact_id"], "the artifact of its pins")

    # Records are shared: with another tune job, and with a compilation under another name. An earlier job may have
    # measured the same kernels, if both targets' plans contain them.
    kept = [(each["workload_hash"], each["workload_summary"], each["outcome"], each["median_ms"])
            for each in records(service, 'mode = "choice"')]
    for each in measured:
        filed = (each["open"]["hash"], each["open"]["summary"], "PASSED", each["ms"])
        check(filed in kept, f"not filed: {filed} in {kept}")
    once_more = service.cli("tune", model_path(spec), "--target", target, "--json", "--choices", 1, "--trials", 1, "--top",
                            1, "--budget", "60s", *shape_flags(spec), timeout=600).json["job"]["tune_result"]
    known = {each["open"]["hash"]: each["taken"] for each in measured}
    for each in once_more["choices"]:
        if known.get(each["open"]["hash"]) is False:
            check("as record" in each["untaken"], f"measured again: {each}")
    learned = service.compile(model_path(spec), shapes, "--knowledge", "newest", "--name", "learned", target=target)
    report = service.cli("explain", learned.artifact, "--json").json["plan"]["report"]
    for each in measured:
        for pin in each["open"]["choices"]:
            found = [made["choice"] for made in report["choices"]
                     if (made["kind"], made["place"]) == (pin["kind"], pin["place"])]
            check(not each["taken"] or found == [pin["choice"]], f"{pin} was measured to be faster, and is {found}")


def test_earlier_records_are_tried_first(service):
    result, _ = tune(service, GEMM, trials=4)
    workload = f'workload = "{result["workloads"][0]["hash"]}"'
    before = records(service, workload)
    right = [each for each in before if each["outcome"] == "PASSED"]
    # Medians of a few microseconds may be equal: any of the fastest is accepted.
    fastest = [str(each["schedule"]) for each in sorted(right, key=lambda each: each["median_ms"])[:3]]
    tune(service, GEMM, "--seed", "77", trials=1)
    known = {each["id"] for each in before}
    trees = [str(each["schedule"]) for each in records(service, workload) if each["id"] not in known]
    check(any(tree in fastest for tree in trees), "none of the fastest records was the first candidate")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def blobs(service):
    """The digests whose bytes exist: files, and rows of the database."""
    database = sqlite3.connect(service.data / "tessera.db")
    rows = {sha256 for sha256, in database.execute("SELECT sha256 FROM blob_bytes")}
    database.close()
    return rows | {path.name for path in (service.data / "blobs").rglob("*") if path.is_file()}


def test_suggestions_are_followed_where_they_can_be(service, oracle):
    plan = service.scratch("plan.txt")
    explained(service, GEMM, "--plan-out", plan)
    text = plan.read_text()
    tree = text[text.index("workload "):]
    halved = service.scratch("halved.txt")
    halved.write_text(re.sub(r"vectors (\d+)\n", lambda bits: f"vectors {int(bits.group(1)) * 64}\n", tree, count=1))
    # One kernel or several, depending on this host's vector width.
    changed, *others = re.findall(r"^workload ([0-9a-f]{64})", tree, re.MULTILINE)
    followed = [(other, True) for other in others]
    for file, taken in ((plan, True), (halved, False)):
        decisions = [each for each in explained(service, GEMM, "--suggest", file)["plan"]["report"]["decisions"]
                     if each["kind"] == "schedule"]
        check_equal(sorted((each["place"], each["taken"]) for each in decisions), sorted([(changed, taken), *followed]), "what became of it")
        reasons = [each["reason"] for each in decisions if each["place"] == changed]
        check(taken or "width of a vector in bits" in reasons[0], decisions)
        matches(service, oracle, GEMM, 1, flags=("--suggest", file))
    # The same for choices: a place that does not exist is ignored, and the others are applied.
    nowhere = service.scratch("nowhere.txt")
    nowhere.write_text('choice algorithm "nowhere" winograd-2x2\n' + tree)
    report = explained(service, GEMM, "--suggest", nowhere)["plan"]["report"]
    decisions = [each for each in report["decisions"] if each["kind"] in ("algorithm", "schedule")]
    check_equal(sorted((each["place"], each["taken"]) for each in decisions), sorted([("nowhere", False), (changed, True), *followed]),
                "what became of it")
    reasons = [each["reason"] for each in decisions if each["place"] == "nowhere"]
    check("is left out: pinned choice" in reasons[0], decisions)
    matches(service, oracle, GEMM, 1, flags=("--suggest", nowhere))
    # Records of other models' workloads have no effect.
    decisions = [each for each in explained(service, "mlp", "--suggest", plan)["plan"]["report"]["decisions"]
                 if each["kind"] == "schedule"]
    check_equal(decisions, [], "decisions about another model's workloads")


def test_what_cannot_be_tuned_is_refused(service):
    plan = service.scratch("plan.txt")
    explained(service, "tiny", "--plan-out", plan)
    answer = service.cli("tune", model_path("tiny"), "--json", "--pin", plan, *shape_flags("tiny"), expect=EXIT_INVALID)
    check("leave out --pin" in answer.failure["message"], answer)
    answer = service.cli("tune", model_path("tiny"), "--json", "--dim", "N=1,3", expect=EXIT_INVALID)
    check("several variants" in answer.failure["message"], answer)
    said = service.cli("tune", model_path("tiny"), "--method", "guess", *shape_flags("tiny"), expect=2).err
    check("guess" in said and "walk" in said, said)


def test_interrupted_search_keeps_what_it_found(service):
    pins = service.scratch("best.pins")
    started = service.spawn("tune", model_path(GEMM), "--target", "host", "--trials", "10000", "--budget", "1h", "-o",
                            pins, *shape_flags(GEMM))
    before = len(records(service, 'mode = "search"'))
    wait_until(lambda: len(records(service, 'mode = "search"')) > before + 6, "some trials")
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=300)
    check_equal(started.returncode, 0, f"exit code\n{out}\n{err}")
    check(pins.exists() and "ended early" in out, out)
    service.compile(model_path(GEMM), shapes_of(model_inputs(GEMM, 1)), "--pin", pins)


def test_a_killed_service_goes_on_from_the_last_trial(service):
    name = begin(service, GEMM, 25)
    killed_at = []
    for least in (3, 11):
        wait_until(lambda least=least: len(trials_of(service, name)) >= least, f"{least} trials")
        service.kill()
        service.start()
        killed_at.append(len(trials_of(service, name)))
    result = ended(service, name)["tune_result"]
    # One kernel or several, depending on this host's vector width: each search counts its own trials.
    searched = {each["hash"]: each["trials"] for each in result["workloads"]}
    check_equal(trials_of(service, name), sorted((hash_, trial) for hash_, count in searched.items() for trial in range(1, count + 1)),
                f"trials, after kills at {killed_at}")
    check_equal(sum(searched.values()), result["trials"], "trials in all")
    check(set(searched.values()) == {25} or "no tree" in result["note"] or result["note"] == "", result)


def test_a_cancelled_job_leaves_nothing(service):
    spec = "gemm:m=35,k=41,n=59"
    service.compile(model_path(spec), shapes_of(model_inputs(spec, 1)))
    before = blobs(service)
    name = begin(service, spec, 10000, "--mode", "static")  # versions would remain
    wait_until(lambda: len(trials_of(service, name)) >= 20, "20 trials")
    service.cli("cancel", name)
    found = job(service, name)
    check_equal(found["state"], "CANCELLED", found)
    check(found["tune_result"]["trials"] >= 20, "the result of a cancelled job")
    wait_until(lambda: all(worker["state"] == "IDLE" for worker in service.cli("workers", "--json").json["workers"]),
               "workers let go")
    # Objects that two workers had sent but not reported stay until a collection: one object each, or a batch of trees.
    left = blobs(service) - before
    check(len(left) <= 6, f"{len(left)} blobs are left of {found['tune_result']['trials']} trials")


def test_compilations_take_records_over(service, oracle):
    spec = "conv:h=17,w=19,stride=2"
    model, shapes = model_path(spec), shapes_of(model_inputs(spec, 1))
    result, _ = tune(service, spec, trials=6)
    faster = {each["hash"] for each in result["workloads"] if each["improved"]}
    newest = service.compile(model, shapes, "--knowledge", "newest")
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    before = service.compile(model, shapes, "--knowledge", now).job["compile_result"]["artifact_id"]
    check_equal(before, newest.job["compile_result"]["artifact_id"], "what is known now is the newest")
    default = service.compile(model, shapes).job["compile_result"]["artifact_id"]
    check(not faster or before != default, f"{faster} are faster, and compiled as by default")
    tune(service, spec, "--seed", "5", trials=4)
    again = service.compile(model, shapes, "--knowledge", now, "--no-cache").job["compile_result"]["artifact_id"]
    check_equal(again, before, "a snapshot is the same for ever")
    matches(service, oracle, spec, 1, flags=("--knowledge", "newest"))
    answer = service.cli("compile", model, "--json", "--knowledge", "yesterday", *shape_flags(spec), expect=None)
    check(answer.code != 0 and "accepted: none, newest" in answer.failure["message"], answer)
    tuned = service.compile(model, shapes, "--tune", "1s")
    check_equal(tuned.job["tune_result"]["artifact_id"], digest(tuned.artifact), "what was fetched is what was tuned")


def test_equal_workloads_are_searched_once(service):
    spec = "gemm:m=47,k=53,n=71"
    first = begin(service, spec, 40)
    wait_until(lambda: trials_of(service, first), "a trial")
    second = begin(service, spec, 2)
    results = [ended(service, name)["tune_result"] for name in (first, second)]
    check_equal([each["shared"] for each in results[1]["workloads"]], [True], "whose search it was")
    check_equal(trials_of(service, second), [], "own trials")
    curves = [service.cli("curve", "--job", name, "--json").json["curves"] for name in (first, second)]
    check_equal(curves[1], curves[0], "curves of the job that shared the search")
    check(len(curves[1]) == 1 and curves[1][0]["job"] == first, curves[1])
    check_equal(*[each["workloads"][0]["best_ms"] for each in results], "what came of it")
