"""The disk of the data folder is full: requests are rejected with a reason, and the service continues when there is space."""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import subprocess

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_path, wait_until
from faults import fault_service as faults

DISK_BYTES = 512 << 20  # what a compilation leaves behind, and the free space below which a worker takes no task
FULL = 64 << 10  # bytes free, at most, on a disk that counts as full
TELLS_OF_IT = re.compile(r"No space left|disk is full|bytes free")
CLONE_NEWNS = 0x20000


@contextlib.contextmanager
def own_mounts():
    """This thread, and processes that it starts, in a mount namespace that no other process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    folder = os.getcwd()
    try:
        if libc.unshare(CLONE_NEWNS) != 0:
            pytest.skip(f"this user may not mount in a private namespace: {os.strerror(ctypes.get_errno())}")
        try:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            yield
        finally:
            check_equal(libc.setns(before, CLONE_NEWNS), 0, "back to the mounts of this machine")
            os.chdir(folder)  # setns moves to the root folder
    finally:
        os.close(before)


@pytest.fixture(scope="module")
def service():
    """A service whose data folder is a small disk of its own."""
    with own_mounts():
        small = faults.FaultService(workers=2)
        small.data.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", small.data], check=True)
        try:
            with small:
                small.wait_for_workers(2)
                yield small
        finally:
            subprocess.run(["umount", "--lazy", small.data], check=True)
            shutil.rmtree(small.folder)


class Filler:
    """Fills a disk while in the `with` block."""

    def __init__(self, folder):
        self._path = folder / "filler"

    def __enter__(self):
        self.fill()
        return self

    def fill(self):
        """Also takes space that was freed since."""
        with open(self._path, "ab") as file:
            for _ in range(50):  # other processes take and free space meanwhile
                free = self.free_bytes()
                if free < FULL:
                    return
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)
                except OSError as full:
                    if full.errno != errno.ENOSPC:
                        raise
        raise AssertionError(f"the disk cannot be filled, {self.free_bytes()} bytes are free")

    def free_bytes(self):
        free = os.statvfs(self._path.parent)
        return free.f_bavail * free.f_frsize

    def __exit__(self, *_):
        self._path.unlink()


def check_compiles(service, expected):
    job = service.submit()
    events, finished = service.history(job)
    faults.check_finished_once(events, finished)
    check_equal(service.fetch(finished), expected, "artifact")


def test_uploads_are_refused(service, expected):
    words = ["compile", model_path("squeezenet1_1"), "--target", "host", "--shape", "x=1x3x224x224", "--json", "-o",
             service.scratch("s.tsra")]
    with Filler(service.data):
        answer = service.cli(*words, expect=None)
        check(answer.code not in (0, 2, 8), f"an upload to a full disk: {answer}")
        check(TELLS_OF_IT.search(answer.out), f"the error does not tell of the disk: {answer}")
        check_equal(service.process.poll(), None, "exit code of the server")
        service.cli("jobs", "--json")  # requests that need no space are answered
    service.cli(*words)
    check_compiles(service, expected)


def test_jobs_survive_or_fail_with_a_reason(service, expected):
    """The disk fills up during acknowledged work: when there is space again, the job succeeds or fails with a reason."""
    job = service.submit()
    follower = service.follow(job)
    service.wait_for_task()
    with Filler(service.data):
        faults.time.sleep(3)
        check_equal(service.process.poll(), None, "exit code of the server")
    events, finished = service.history(job, follower)
    faults.check_gapless(events)
    print(f"   it ended as {finished['state']} {(finished.get('failure') or {}).get('reason', '')}")
    if finished["state"] == "SUCCEEDED":
        faults.check_finished_once(events, finished)
    else:
        check(finished["failure"]["reason"] and finished["failure"]["message"], f"no reason: {finished}")
    check_compiles(service, expected)


def test_a_search_keeps_what_it_measured(service, expected):
    """The disk fills up during a tune job: records stay, and with space again the job continues or ends with a reason."""
    job = service.cli("tune", model_path("gemm:m=61,k=67,n=131"), "--target", "host", "--shape", "x=61x67", "--trials", 1000,
                      "--budget", "5m", "--detach").out.strip()

    def measured():
        found = service.cli("records", "--json", "--limit", "0", "--filter", f'job = "{job}"').json["records"]
        return {record["id"] for record in found if record["mode"] == "search"}

    before = wait_until(measured, "the search has measured something", faults.PATIENCE_S)
    with Filler(service.data) as disk:
        faults.time.sleep(1)  # tasks that were already running
        disk.fill()
        during = measured()
        check(before <= during, f"{len(before - during)} records are gone on the full disk")
        faults.time.sleep(1)
        check_equal(service.process.poll(), None, "exit code of the server")
    # With space again: the search continues and may end, or it has ended with a reason.
    wait_until(lambda: len(measured()) > len(during) or service.cli("job", job, "--json").json["end_time_us"] != "0",
               "the search goes on or has ended", faults.PATIENCE_S)
    service.cli("cancel", job, expect=None)
    events, finished = service.history(job)
    faults.check_gapless(events)
    for event in events:
        said = (event.get("attempt", {}).get("failure") or {}).get("message")
        check(said is None or TELLS_OF_IT.search(said), f"the attempt does not tell of the disk: {said}")
    after = measured()
    failure = finished.get("failure") or {}
    print(f"   {len(before)} records before, {len(during)} on the full disk, {len(after)} in the end; {finished['state']} "
          f"{failure.get('reason', '')}")
    check(during <= after, f"{len(during - after)} records are gone")
    goes_on = finished["state"] in ("SUCCEEDED", "CANCELLED")
    check(goes_on or (failure["reason"] and failure["message"]), f"no reason: {finished}")
    if goes_on:
        check(len(after) > len(during), "the search did not go on when there was room again")
    check_compiles(service, expected)


def test_a_restart_on_a_full_disk_loses_nothing(service, expected):
    """Started on a full disk, the service works or reports the lack of space; either way no data is lost."""
    job = service.submit()
    with Filler(service.data) as disk:
        service.kill()
        wait_until(lambda: not service.workers(), "the workers have followed the server")
        disk.fill()  # in the space that they left
        before = len(service.log)
        check(disk.free_bytes() < FULL, f"it is started with {disk.free_bytes()} bytes free")
        try:
            service.start()
        except AssertionError:
            said = service.log[before:]
            check(TELLS_OF_IT.search(said), f"it does not start and does not say why:\n{said}")
            print("   it says what it lacks")
        else:
            check_equal(service.cli("job", job, "--json").json["id"], job, "the job that was acknowledged")
            service.kill()
            print("   it serves on a full disk")
    service.start()
    faults.check_finished_once(*service.history(job))
    check_compiles(service, expected)
    faults.check_one_artifact_each(service)
