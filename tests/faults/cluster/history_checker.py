"""Checks a history: what clients were told holds, whatever happened to the processes.

`violations(calls, quiet)` returns one sentence for each contradiction. `quiet` has the results of the same work in a run
without faults: {key: {"artifact": id, "outputs": {name: digest}}}. Times of calls are used in one way only: a call that began
after another one ended must not see an older state.
"""

import collections

from faults.cluster.history import OK, TERMINAL, UNKNOWN

ORDER = {"QUEUED": 0, "RUNNING": 1, "SUCCEEDED": 2, "FAILED": 2, "CANCELLED": 2}


def violations(calls, quiet, healthy_from_s=float("inf")):
    """`healthy_from_s`: from this time on, all faults were healed, so every call has an answer."""
    jobs = acknowledged(calls)
    found = [f"{call.client}: {call.what} {call.arguments} got no answer, although nothing was harmed any more"
             for call in of(calls, "watch", UNKNOWN) + of(calls, "read", UNKNOWN) + of(calls, "fetch", UNKNOWN) +
             of(calls, "list", UNKNOWN) if call.begin >= healthy_from_s]
    for rule in (check_unknown_ends, check_one_job_per_request, check_watches, check_ends, check_cancellations, check_reads,
                 check_lists, check_artifacts, check_executions):
        found += rule(calls, jobs, quiet)
    return found


def acknowledged(calls):
    """{job: the call that created it} for all acknowledged jobs, the earliest acknowledgement of each."""
    jobs = {}
    for call in sorted(calls, key=lambda each: each.end):
        if call.what == "create" and call.outcome == OK:
            jobs.setdefault(call.value["id"], call)
    return jobs


def of(calls, what, outcome=OK):
    return [call for call in calls if call.what == what and call.outcome == outcome]


def check_unknown_ends(calls, jobs, quiet):
    """Valid requests are never rejected; a call may only end without an answer."""
    return [f"{call.client}: {call.what} {call.arguments} was rejected: {call.value}"
            for call in calls if call.outcome not in (OK, UNKNOWN)]


def check_one_job_per_request(calls, jobs, quiet):
    """A repeated request returns the job that it created."""
    ids = collections.defaultdict(set)
    for call in of(calls, "create"):
        ids[call.arguments["request_id"]].add(call.value["id"])
    return [f"request {request} created {sorted(created)}" for request, created in ids.items() if len(created) > 1]


def check_watches(calls, jobs, quiet):
    """Events of a job are 1, 2, 3, ..., end once, with the end, count no task twice, and are the same for every client."""
    found, known = [], {}
    for call in of(calls, "watch"):
        job, events = call.arguments["job"], call.value["events"]
        numbers = [event["sequence"] for event in events]
        if numbers != list(range(1, len(numbers) + 1)):
            found.append(f"{job}: events {numbers} have gaps or repetitions")
        ends = [event["state"] for event in events if event.get("state") in TERMINAL]
        if len(ends) != 1:
            found.append(f"{job} ended {len(ends)} times: {ends}")
        elif events[-1].get("state") not in TERMINAL:
            found.append(f"{job}: an event after the end")
        elif ends[0] != call.value["last"]["state"]:
            found.append(f"{job}: ended as {ends[0]}, but is {call.value['last']['state']}")
        tasks = [event["task"] for event in events if event.get("task") and not event.get("failed")]
        counts = collections.Counter(tasks)
        found += [f"{job}: task {task} succeeded {count} times" for task, count in sorted(counts.items()) if count > 1]
        if known.setdefault(job, events) != events:
            found.append(f"{job}: two clients saw different events")
    return found


def check_ends(calls, jobs, quiet):
    """Every acknowledged job has ended at the end of the run. It succeeded unless a client cancelled it."""
    cancelled = {call.arguments["job"] for call in calls if call.what == "cancel"}
    last = {}
    for call in sorted(of(calls, "read") + of(calls, "watch"), key=lambda each: each.end):
        last[call.arguments["job"]] = call.value["last"] if call.what == "watch" else call.value
    found = []
    for job in jobs:
        state = last.get(job, {}).get("state")
        allowed = ("SUCCEEDED", "CANCELLED") if job in cancelled else ("SUCCEEDED",)
        if state not in allowed:
            found.append(f"{job}, acknowledged to {jobs[job].client}, is {state or 'gone'} at the end: "
                         f"{last.get(job, {}).get('failure', '')}")
    return found


def check_cancellations(calls, jobs, quiet):
    """After an acknowledged cancellation the job has ended."""
    found = []
    for cancel in of(calls, "cancel"):
        for read in of(calls, "read"):
            if read.arguments["job"] == cancel.arguments["job"] and read.begin > cancel.end and \
                    read.value.get("state") not in TERMINAL:
                found.append(f"{read.arguments['job']}: {read.value.get('state')} after its cancellation was acknowledged")
    return found


def check_reads(calls, jobs, quiet):
    """No read is older than what any client saw before it began; the end of a job never changes."""
    seen = collections.defaultdict(list)  # job: [(time from which on, state)]
    for job, call in jobs.items():
        seen[job].append((call.end, {"state": "QUEUED"}))
    observations = []
    for call in of(calls, "read") + of(calls, "watch"):
        value = call.value["last"] if call.what == "watch" else call.value
        observations.append((call, value))
        if value.get("state"):
            seen[call.arguments["job"]].append((call.end, value))
    found = []
    for call, value in observations:
        job = call.arguments["job"]
        # A watch returns when the job has ended, so only its end is a reading of the state.
        before = [state for time, state in seen[job] if time < call.begin]
        if not value.get("state"):
            if before:
                found.append(f"{call.client}: {job} was not found after it was known")
            continue
        newest = max((ORDER[state["state"]] for state in before), default=0)
        if ORDER[value["state"]] < newest:
            found.append(f"{call.client}: {job} was {value['state']} after it had been seen in a later state")
    for job, states in seen.items():
        ends = {(state["state"], state.get("artifact", "")) for _, state in states if state["state"] in TERMINAL}
        if len(ends) > 1:
            found.append(f"{job} ended differently for different readers: {sorted(ends)}")
    return found


def check_lists(calls, jobs, quiet):
    """A list contains every job that was acknowledged before the list was requested."""
    found = []
    for call in of(calls, "list"):
        missing = [job for job, create in jobs.items() if create.end < call.begin and job not in call.value]
        found += [f"{call.client}: a list lacks {job}" for job in missing]
    return found


def check_artifacts(calls, jobs, quiet):
    """Artifacts have the bytes of a run without faults, and those that their ids say."""
    found = []
    for call in of(calls, "read") + of(calls, "watch"):
        value = call.value["last"] if call.what == "watch" else call.value
        create = jobs.get(call.arguments["job"])
        expected = quiet.get(create.arguments["key"], {}).get("artifact") if create else None
        if value.get("artifact") and expected and value["artifact"] != expected:
            found.append(f"{call.arguments['job']}: artifact {value['artifact']}, without faults {expected}")
    for call in of(calls, "fetch"):
        if call.value != call.arguments["artifact"]:
            found.append(f"{call.client}: artifact {call.arguments['artifact']} has the bytes of {call.value}")
    return sorted(set(found))


def check_executions(calls, jobs, quiet):
    """Executions compute what they compute without faults."""
    return [f"{call.client}: execution of {call.arguments['key']} returned {call.value}"
            for call in of(calls, "execute") if call.value != quiet[call.arguments["key"]]["outputs"]]
