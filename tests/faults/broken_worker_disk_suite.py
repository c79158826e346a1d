"""A worker with a broken disk fails no job: other workers do its tasks, and its state shows why."""

from checks import check, check_equal
from e2e.tessera_e2e import wait_until
from faults import fault_service as faults


def sickened(service, name):
    """Replaces the folder of a worker's attempts with a file. Returns the function that restores it."""
    attempts = service.data / "workers" / name / "attempts"
    aside = attempts.with_name("aside")
    attempts.rename(aside)
    attempts.write_text("no folder")

    def mend():
        attempts.unlink()
        aside.rename(attempts)

    return mend


def row_of(service, name):
    return next(w for w in service.cli("workers", "--json").json["workers"] if w["id"] == name)


def test_jobs_end_elsewhere(service, expected):
    mend = sickened(service, "local-0")
    try:
        for _ in range(3):
            events, finished = service.history(service.submit())
            faults.check_finished_once(events, finished)
            check_equal(service.fetch(finished), expected, "artifact")
        row = row_of(service, "local-0")
        check_equal(row["state"], "SUSPENDED", "state of the sick worker")
        check("attempts" in row.get("trouble", ""), f"the worker's row does not tell its trouble: {row}")
        check("attempts" in service.cli("workers").out, "`tessera workers` does not show the trouble")
    finally:
        mend()
    wait_until(lambda: row_of(service, "local-0")["state"] in ("IDLE", "BUSY"), "the mended worker is back")
    with service.drained("local-1"):
        faults.check_finished_once(*service.history(service.submit()))


def test_all_are_sick_for_a_while(service, expected):
    """No worker can work: the job waits, and continues when one is repaired."""
    mends = [sickened(service, name) for name in ("local-0", "local-1")]
    try:
        for name in ("local-0", "local-1"):
            wait_until(lambda n=name: row_of(service, n)["state"] == "SUSPENDED", f"{name} says it is sick")
        job = service.submit()
    finally:
        for mend in mends:
            mend()
    events, finished = service.history(job)
    faults.check_finished_once(events, finished)
    check_equal(service.fetch(finished), expected, "artifact")
