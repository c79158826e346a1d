#!/usr/bin/python3
"""`tessera tune`: schedules are searched by measuring, right answers only, and used by later compilations."""
# suite: timeout=900

import pathlib
import re
import signal
import sys
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.matching import matches
from e2e.tessera_e2e import Service, model_inputs, model_path, shapes_of
from oracle.oracle import Oracle
from suite import check, check_equal, run

GEMM = "gemm:m=61,k=67,n=131"
MODELS = (GEMM, "conv:h=17,w=19,stride=2", "mlp", "bert_tiny")
EXIT_INVALID = 3


def shape_flags(spec):
    return [word for name, shape in shapes_of(model_inputs(spec, 1)).items()
            for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def tune(service, spec, *arguments, trials=6, method="walk"):
    """What tuning printed, and the file of schedules."""
    pins = service.scratch("best.pins")
    printed = service.cli("tune", model_path(spec), "--target", "host", "--json", "--trials", trials, "--budget", "60s",
                          "--method", method, "-o", pins, *shape_flags(spec), *arguments, timeout=600).json
    return printed, pins


def records(service, workload):
    return service.cli("records", "--json", "--limit", "0", "--filter", f'workload = "{workload}"').json["records"]


def explained(service, spec, *arguments):
    return service.cli("explain", model_path(spec), "--target", "host", "--json", *shape_flags(spec), *arguments).json


def tuned_is_right(service, oracle, spec, method):
    printed, pins = tune(service, spec, method=method)
    measured = sum(each["trials"] for each in printed["workloads"])
    refused = sum(each["refused"] for each in printed["workloads"])
    failures = [text for each in printed["workloads"] for text in each["failures"]]
    print(f"   {spec}: {measured} measured, {refused} refused, {printed['rounds']} rounds, "
          f"{printed['default_ms']:.4f} -> {printed['best_ms']:.4f} ms")
    check(measured >= 4, f"only {measured} candidates were measured: {printed}")
    check_equal(failures, [], "candidates that were wrong, crashed or could not be built")
    matches(service, oracle, spec, 1, flags=("--pin", pins))
    # Each trial is a record with the tree it was.
    main = max(printed["workloads"], key=lambda each: each["default_ms"])
    trees = {str(each["schedule"]) for each in records(service, main["hash"])}
    check(len(trees) > main["trials"] / 2, f"{len(trees)} trees on record after {main['trials']} trials")


def earlier_records_are_tried_first(service):
    printed, _ = tune(service, GEMM, trials=4)
    workload = printed["workloads"][0]["hash"]
    before = records(service, workload)
    best = str(min(before, key=lambda each: each["median_ms"])["schedule"])
    default = str(next(each for each in explained(service, GEMM)["plan"]["workloads"] if each["hash"] == workload)["schedule"])
    tune(service, GEMM, "--seed", "77", trials=1)
    after = records(service, workload)
    trees = [str(each["schedule"]) for each in after[len(before):]]
    check(best == default or best in trees, "the best record was not among the first candidates")


def suggestions_are_followed_where_they_can_be(service, oracle):
    plan = service.scratch("plan.txt")
    explained(service, GEMM, "--plan-out", plan)
    text = plan.read_text()
    tree = text[text.index("workload "):]
    halved = service.scratch("halved.txt")
    halved.write_text(re.sub(r"vectors (\d+)\n", lambda bits: f"vectors {int(bits.group(1)) * 64}\n", tree, count=1))
    hash_ = re.search(r"workload ([0-9a-f]{64})", tree).group(1)
    for file, taken in ((plan, True), (halved, False)):
        decisions = [each for each in explained(service, GEMM, "--suggest", file)["plan"]["report"]["decisions"]
                     if each["kind"] == "schedule"]
        check_equal([(each["place"], each["taken"]) for each in decisions], [(hash_, taken)], "what became of it")
        check(taken or "bits of a vector" in decisions[0]["reason"], decisions)
        matches(service, oracle, GEMM, 1, flags=("--suggest", file))
    # What another model lacks is nothing to it.
    decisions = [each for each in explained(service, "mlp", "--suggest", plan)["plan"]["report"]["decisions"]
                 if each["kind"] == "schedule"]
    check_equal(decisions, [], "decisions about another model's workloads")


def what_cannot_be_tuned_is_refused(service):
    plan = service.scratch("plan.txt")
    explained(service, "tiny", "--plan-out", plan)
    answer = service.cli("tune", model_path("tiny"), "--json", "--pin", plan, *shape_flags("tiny"), expect=EXIT_INVALID)
    check("leave out --pin" in answer.failure["message"], answer)
    answer = service.cli("tune", model_path("tiny"), "--json", "--dim", "N=1,3", expect=EXIT_INVALID)
    check("several variants" in answer.failure["message"], answer)


def interrupted_search_keeps_what_it_found(service):
    pins = service.scratch("best.pins")
    started = service.spawn("tune", model_path(GEMM), "--target", "host", "--trials", "100000", "--budget", "1h", "-o",
                            pins, *shape_flags(GEMM))
    jobs = len(service.cli("jobs", "--json", "--limit", "0").json["jobs"])
    for _ in range(600):
        if len(service.cli("jobs", "--json", "--limit", "0").json["jobs"]) > jobs + 12:
            break
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=300)
    check_equal(started.returncode, 0, f"exit code\n{out}\n{err}")
    check(pins.exists() and "times as fast" in out, out)


def main():
    with Service(workers=2) as service, Oracle() as oracle:
        cases = [(f"{spec}: what tuning finds is right", lambda spec=spec: tuned_is_right(service, oracle, spec, "walk"))
                 for spec in MODELS]
        cases += [("the same by chance", lambda: tuned_is_right(service, oracle, "conv:h=7,w=5", "random")),
                  ("earlier records are tried first", lambda: earlier_records_are_tried_first(service)),
                  ("suggestions are followed where they can be",
                   lambda: suggestions_are_followed_where_they_can_be(service, oracle)),
                  ("what cannot be tuned is refused", lambda: what_cannot_be_tuned_is_refused(service)),
                  ("an interrupted search keeps what it found", lambda: interrupted_search_keeps_what_it_found(service))]
        return run("tune", cases)


if __name__ == "__main__":
    sys.exit(main())
