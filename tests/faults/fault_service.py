"""A service for fault injection: its processes by role, the history of its jobs, reproducible random moments.

A suite compiles WORKLOAD undisturbed, then repeatedly (`--no-cache`: nothing is reused) while it injects faults. Each
job must end once, with the same bytes.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import time

from e2e import processes
from e2e.tessera_e2e import Service, model_path, wait_until
from checks import check, check_equal

# About twenty distinct build tasks in two seconds: there is work in progress at each moment.
WORKLOAD = "bert_tiny"
SHAPES = ["--shape", "input_ids=1x32", "--shape", "attention_mask=1x32"]
TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
PATIENCE_S = 120  # for one disturbed compilation on a shared machine


def seeded_random(name):
    """Random numbers that TESSERA_FAULT_SEED repeats; prints the seed."""
    seed = int(os.environ.get("TESSERA_FAULT_SEED", time.time_ns() % 1_000_000))
    print(f"   {name}: TESSERA_FAULT_SEED={seed}", flush=True)
    return random.Random(f"{name} {seed}")


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def command_line(pid):
    """The command line words of a live process; empty for an ended one, zombies included."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def kill(pid, number=signal.SIGKILL):
    """Whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


class FaultService(Service):
    """A Service that also listens on a socket file, so that clients find it again after a restart."""

    def __init__(self, workers=2, arguments=(), env=None):
        super().__init__(workers, arguments, env)
        self._socket = f"unix:{self.folder}/socket"
        self._arguments += ["--listen", self._socket]

    def start(self):
        super().start()
        self.address = self._socket
        return self

    def workers(self):
        """{worker id: process id} of live local workers."""
        found = {}
        for pid in processes.marked(self.mark):
            words = command_line(pid)
            if words and os.path.basename(words[0]) == "tessera-worker" and "--id" in words:
                found[words[words.index("--id") + 1]] = pid
        return found

    def tasks(self):
        """{process id: attempt folder} of live task processes. They inherit no environment that identifies them, but
        run in tmp/ of their attempt's folder."""
        found = {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            words = command_line(entry.name)
            if not words or os.path.basename(words[0]) != "tessera-task":
                continue
            with contextlib.suppress(OSError):
                folder = os.readlink(f"/proc/{entry.name}/cwd")
                if folder.startswith(str(self.data)):
                    found[int(entry.name)] = pathlib.Path(folder.removesuffix(" (deleted)")).parent
        return found

    def wait_for_task(self, patience_s=PATIENCE_S):
        """A live task process: (process id, folder)."""
        return wait_until(lambda: next(iter(self.tasks().items()), None), "a task process is there", patience_s, 0.002)

    @contextlib.contextmanager
    def paused_task(self):
        """Stops the first task process that is found alive: (process id, folder). Continues it at the end."""
        def caught():
            for pid, folder in self.tasks().items():
                if kill(pid, signal.SIGSTOP) and pid in self.tasks():
                    return pid, folder
            return None

        pid, folder = wait_until(caught, "a task process is there to be stopped", PATIENCE_S, 0.002)
        try:
            yield pid, folder
        finally:
            kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def drained(self, worker):
        """A worker that takes no task during the block."""
        self.operator("workers", "--drain", worker)
        try:
            yield
        finally:
            self.operator("workers", "--undrain", worker)

    def submit(self, *arguments, model=WORKLOAD, shapes=SHAPES):
        """Submits WORKLOAD and returns the job's id once it is acknowledged."""
        return self.cli("compile", model_path(model), "--target", "host", *shapes, "--detach", "--no-cache", "--json",
                        *arguments).json["id"]

    def follow(self, job):
        """A `tessera watch` in the background; history() reads its output."""
        return self.spawn("watch", job, "--json")

    def history(self, job, follower=None):
        """Waits for the end of a job: (its events, the job). `follower` may have started before the fault."""
        follower = follower or self.follow(job)
        out, err = follower.communicate(timeout=PATIENCE_S)
        lines = [json.loads(line) for line in out.splitlines()]
        check(lines and {"id", "state"} <= lines[-1].keys(),
              f"`tessera watch {job}` ended with {follower.returncode} before the job did: {err[-1000:]}")
        return lines[:-1], lines[-1]

    def fetch(self, job):
        """Digest of a finished job's artifact file, computed from its bytes."""
        path = self.scratch("fetched.tsra")
        self.cli("fetch", job["compile_result"]["artifact_id"], "-o", path)
        fetched = digest(path)
        path.unlink()
        return fetched

    def baseline_artifact(self):
        """(digest of the artifact, seconds) of an undisturbed compilation of WORKLOAD."""
        started = time.monotonic()
        job = self.submit()
        _, job = self.history(job)
        seconds = time.monotonic() - started
        check_equal(job["state"], "SUCCEEDED", f"state of the undisturbed job, {job.get('failure')}")
        return self.fetch(job), seconds


def failed_attempts(events):
    """Reasons of the failed attempts, in order."""
    return [event["attempt"]["failure"]["reason"] for event in events if event.get("attempt", {}).get("failure")]


def check_gapless(events):
    check_equal([int(event["sequence"]) for event in events], list(range(1, len(events) + 1)), "sequence of events")


def check_finished_once(events, job):
    """Checks that the job succeeded, ended once, and counted no step twice."""
    check_equal(job["state"], "SUCCEEDED", f"state, {job.get('failure')}")
    check_gapless(events)
    ends = [event["state"]["state"] for event in events if event.get("state", {}).get("state") in TERMINAL]
    check_equal(ends, ["SUCCEEDED"], "ends of the job")
    check("state" in events[-1], f"an event after the end: {events[-1]}")
    done = [event["attempt"]["task_id"] for event in events if "attempt" in event and not event["attempt"].get("failure")]
    check_equal(len(done), len(set(done)), "successful attempts, with equal ones counted once")
    steps = int(job["compile_result"]["workloads"]) - int(job["compile_result"]["workloads_reused"]) + 2
    check_equal(len(done), steps, "steps done (plan, one for each workload, assemble)")


def check_one_artifact_each(service):
    """Each action has one artifact, whatever happened to its attempts."""
    artifacts = service.cli("artifacts", "--json", "--limit", "0").json["artifacts"]
    keys = [artifact["action_key"] for artifact in artifacts]
    check_equal(len(keys), len(set(keys)), "artifacts, with those of one action counted once")
    check(keys, "there is no artifact at all")


@contextlib.contextmanager
def paused(pid):
    """SIGSTOP, and SIGCONT at the end."""
    check(kill(pid, signal.SIGSTOP), f"process {pid} has ended")
    try:
        yield
    finally:
        kill(pid, signal.SIGCONT)
