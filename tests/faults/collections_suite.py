"""Garbage collections, backups and kill -9: referenced data stays, whatever is deleted and whenever the service dies."""

import shutil
import sqlite3
import time

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_path
from faults import fault_service as faults

pytestmark = pytest.mark.service(workers=1, arguments=("--collect-every", "0"))

TINY = ("--target", "host", "--shape", "x=1x8")
HOUR_US = 3600 * 1000 * 1000


def tiny(service, seed, *arguments):
    return service.cli("compile", model_path(f"tiny:seed={seed}"), *TINY, "--json", *arguments).json["job"]


def grow_older(service, days, keep=()):
    """Makes all data of the stopped service old, except the jobs in `keep` and the data that they reference."""
    with sqlite3.connect(service.data / "tessera.db") as database:
        past = days * 24 * HOUR_US
        database.execute("UPDATE jobs SET end_time = end_time - ? WHERE end_time > 0 "
                         f"AND id NOT IN ({','.join('?' * len(keep))})", (past, *keep))
        database.execute("UPDATE artifacts SET last_use = last_use - ? "
                         f"WHERE job NOT IN ({','.join('?' * len(keep))})", (past, *keep))
        for table in ("objects", "blobs", "blob_holders"):
            database.execute(f"UPDATE {table} SET last_use = last_use - ?", (past,))
    database.close()


def verified(service):
    found = service.operator("admin", "verify", "--json").json
    check_equal(found["problems"], [], "problems of the verification")


@pytest.fixture(scope="module")
def moments():
    return faults.seeded_random("collections")


def test_collects_what_is_old(service):
    old, young = tiny(service, 21), tiny(service, 22)
    service.stop()
    grow_older(service, 400, keep=[young["id"]])
    service.start()
    said = service.operator("admin", "gc", "--dry-run", "--json").json
    check(int(said["jobs"]) >= 1, f"nothing would go: {said}")
    service.cli("job", old["id"])
    done = service.operator("admin", "gc", "--json").json
    check_equal(done["jobs"], said["jobs"], "jobs that went, and those that were said to")
    check(int(done["blobs"]) >= 3, f"blobs that went: {done}")
    service.cli("job", old["id"], expect=5)
    check_equal(service.cli("job", young["id"], "--json").json["state"], "SUCCEEDED", "the young job")
    service.cli("fetch", young["compile_result"]["artifact_id"], "-o", service.scratch("young.tsra"))
    verified(service)
    again = tiny(service, 21)
    check(not again["cached"], "its artifact was collected and rebuilt")


def test_pinned_jobs_stay(service):
    pinned, other = tiny(service, 23), tiny(service, 24)
    service.operator("admin", "pin", "--job", pinned["id"])
    service.stop()
    grow_older(service, 400)
    service.start()
    service.operator("admin", "gc")
    service.cli("job", pinned["id"])
    service.cli("job", other["id"], expect=5)
    service.cli("fetch", pinned["compile_result"]["artifact_id"], "-o", service.scratch("pinned.tsra"))
    service.operator("admin", "unpin", "--job", pinned["id"])
    service.operator("admin", "delete", "--job", pinned["id"])
    service.cli("job", pinned["id"], expect=5)
    service.cli("admin", "gc", expect=11)  # an unverified claim
    verified(service)


def test_killed_while_collecting(service, moments):
    """kill -9 during collections, repeatedly, while jobs arrive: no referenced data is deleted."""
    for moment in range(6):
        for seed in range(5):
            tiny(service, 100 + 10 * moment + seed)
        service.stop()
        grow_older(service, 400)
        service.start()
        collection = service.spawn("admin", "gc", "--operator-of", str(service.data))
        wanted = service.submit(model="tiny:seed=200", shapes=["--shape", "x=1x8"])
        time.sleep(moments.uniform(0, 0.05))
        service.kill()
        collection.communicate(timeout=faults.PATIENCE_S)
        service.start()
        _, job = service.history(wanted)
        check_equal(job["state"], "SUCCEEDED", f"the job that came in meanwhile, {job.get('failure')}")
        service.fetch(job)
        verified(service)
        service.operator("admin", "gc")
        verified(service)


def test_backed_up_and_restored(service):
    """A backup while jobs arrive, then the folder is lost: all data of the backup is restored and served."""
    before = tiny(service, 31)
    running = [service.submit(model=f"tiny:seed={seed}", shapes=["--shape", "x=1x8"]) for seed in range(32, 36)]
    backup = service.scratch("backup")
    said = service.operator("admin", "backup", backup)
    check("copied" in said.out, f"{said}")
    for job in running:
        service.history(job)
    service.stop()
    shutil.rmtree(service.data)
    service.cli("admin", "restore", backup, service.data)
    service.start()
    check_equal(service.cli("job", before["id"], "--json").json["state"], "SUCCEEDED", "a job of before the backup")
    service.fetch(before)
    verified(service)
    check(tiny(service, 31)["cached"], "the restored artifact answers")
    service.cli("admin", "restore", backup, service.data, expect=1)  # over an existing folder
