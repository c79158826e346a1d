"""The checker of histories accepts a correct history, and names the fault in each history that has one."""

import copy

import pytest

from checks import check, check_equal
from faults.cluster.history import FAILED, OK, UNKNOWN, Call
from faults.cluster.history_checker import violations

QUIET = {"mlp 1": {"artifact": "a1", "outputs": {"y": "d1"}}}


def call(what, begin, end, value=None, client="client-0", outcome=OK, **arguments):
    return Call(client, what, begin, arguments, end, outcome, value)


def event(sequence, **fields):
    return {"sequence": sequence, **fields}


EVENTS = [event(1, state="QUEUED"), event(2, state="RUNNING"), event(3, task="t1", failed="LEASE_LOST"), event(4, task="t1"),
          event(5, state="SUCCEEDED")]
DONE = {"state": "SUCCEEDED", "artifact": "a1"}


def history():
    """A client creates a job, repeats the request without an answer, watches it, and another client reads it."""
    return [
        call("create", 0, 1, {"id": "job-1"}, request_id="r1", key="mlp 1"),
        call("create", 0, float("inf"), outcome="unknown", request_id="r1", key="mlp 1"),
        call("read", 2, 3, {"state": "RUNNING"}, job="job-1"),
        call("read", 2.5, 3.5, {"state": "QUEUED"}, client="client-1", job="job-1"),  # at the same time: either is correct
        call("watch", 2, 9, {"events": EVENTS, "last": DONE}, job="job-1"),
        call("list", 4, 5, ["job-1", "job-9"]),
        call("read", 10, 11, DONE, client="client-1", job="job-1"),
        call("fetch", 10, 11, "a1", artifact="a1"),
        call("execute", 10, 12, {"y": "d1"}, key="mlp 1")]


def test_a_correct_history_is_accepted():
    check_equal(violations(history(), QUIET), [], "violations")


def cancelled():
    calls = [each for each in history() if each.what in ("create", "list")]
    return calls + [call("cancel", 2, 3, job="job-1"), call("read", 4, 5, {"state": "CANCELLED"}, job="job-1")]


def test_a_cancelled_job_may_end_either_way():
    check_equal(violations(cancelled(), QUIET), [], "violations")
    calls = [each for each in cancelled() if each.what != "read"] + [call("read", 4, 5, DONE, job="job-1")]
    check_equal(violations(calls, QUIET), [], "violations of one that was done")


SECOND = call("create", 6, 7, {"id": "job-2"}, request_id="r2", key="x")
FAULTS = {
    "a request was rejected": ("was rejected", [call("create", 0, 1, "no", outcome=FAILED, request_id="r2", key="mlp 1")]),
    "a repeated request made another job":
        ("created ['job-1', 'job-2']", [call("create", 3, 4, {"id": "job-2"}, request_id="r1", key="mlp 1"),
                                        call("read", 12, 13, DONE, job="job-2")]),
    "a job is lost": ("job-2, acknowledged to client-0, is gone", [SECOND]),
    "a job failed": ("is FAILED at the end", [SECOND, call("read", 8, 9, {"state": "FAILED"}, job="job-2")]),
    "a job never ended": ("is RUNNING at the end", [SECOND, call("read", 8, 9, {"state": "RUNNING"}, job="job-2")]),
    "a read is older": ("was RUNNING after it had been seen in a later state",
                        [call("read", 12, 13, {"state": "RUNNING"}, job="job-1"), call("read", 14, 15, DONE, job="job-1")]),
    "a known job is not found": ("was not found after it was known",
                                 [call("read", 4, 5, {"missing": True}, client="client-2", job="job-1")]),
    "a job ended twice, differently": ("ended differently", [call("read", 12, 13, {"state": "CANCELLED"}, job="job-1"),
                                                             call("read", 14, 15, DONE, job="job-1")]),
    "a list lacks a job": ("a list lacks job-1", [call("list", 4, 5, [], client="client-1")]),
    "other bytes than without faults": ("artifact a2, without faults a1",
                                        [call("read", 12, 13, {**DONE, "artifact": "a2"}, job="job-1")]),
    "damaged bytes": ("has the bytes of a9", [call("fetch", 12, 13, "a9", artifact="a1")]),
    "a wrong output": ("returned {'y': 'd2'}", [call("execute", 12, 13, {"y": "d2"}, key="mlp 1")]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named(name):
    words, calls = FAULTS[name]
    found = violations(history() + calls, QUIET)
    check(any(words in each for each in found), f"{words} is not among {found}")


EVENT_FAULTS = {
    "a gap": ("have gaps", lambda events: events.pop(2)),
    "a repetition": ("have gaps", lambda events: events.insert(2, event(2, state="RUNNING"))),
    "two ends": ("ended 2 times", lambda events: events.append(event(6, state="FAILED"))),
    "no end": ("ended 0 times", lambda events: events.pop()),
    "an event after the end": ("after the end", lambda events: events.append(event(6, task="t2"))),
    "a task that succeeded twice": ("task t1 succeeded 2 times", lambda events: events[2].pop("failed")),
    "another end than the job's": ("ended as CANCELLED", lambda events: events[4].update(state="CANCELLED")),
}


@pytest.mark.parametrize("name", EVENT_FAULTS)
def test_faults_of_events_are_named(name):
    words, spoil = EVENT_FAULTS[name]
    calls = copy.deepcopy(history())
    spoil(next(each for each in calls if each.what == "watch").value["events"])
    found = violations(calls, QUIET)
    check(any(words in each for each in found), f"{words} is not among {found}")


def test_calls_without_an_answer_are_allowed_only_during_faults():
    calls = history() + [call("read", 20, 90, outcome=UNKNOWN, job="job-1")]
    check_equal(violations(calls, QUIET, healthy_from_s=30), [], "violations")
    found = violations(calls, QUIET, healthy_from_s=15)
    check(len(found) == 1 and "got no answer" in found[0], f"{found}")


def test_clients_see_the_same_events():
    other = copy.deepcopy(EVENTS)
    other[2] = event(3, task="t1", failed="CRASHED")
    again = call("watch", 12, 13, {"events": other, "last": DONE}, client="client-1", job="job-1")
    found = violations(history() + [again], QUIET)
    check_equal(found, ["job-1: two clients saw different events"], "violations")


def test_a_cancelled_job_does_not_run_again():
    found = violations(cancelled() + [call("read", 3.5, 3.7, {"state": "RUNNING"}, job="job-1")], QUIET)
    check(any("after its cancellation was acknowledged" in each for each in found), f"{found}")
