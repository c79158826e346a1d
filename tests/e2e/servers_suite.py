"""Several servers on one database: a job of one is seen on all, and nothing acknowledged is lost when one of them ends."""

import concurrent.futures
import datetime
import hashlib
import json
import random
import signal
import subprocess
import time

import pytest

from checks import check, check_equal
from e2e.server_fleet import Fleet
from e2e.tessera_e2e import BIN, model_path, wait_until

MODEL = "mlp"
TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


@pytest.fixture(scope="module")
def fleet():
    with Fleet(servers=3, workers=2, arguments=("--lease", "4", "--heartbeat", "0.5")) as started:
        yield started


@pytest.fixture(autouse=True)
def all_servers_run(fleet):
    for server in fleet.servers:
        if server.process.poll() is not None:
            server.start()


def submit(server, rows, address=None):
    """Creates a job without waiting for it; the number of rows makes it new work. The acknowledged job."""
    answer = server.cli("compile", model_path(MODEL), "--target", "host", "--dim", f"N={rows}", "--detach", "--json",
                        env={"TESSERA_SERVER": address} if address else None)
    return answer.json["id"]


def watched(text):
    """Events and the last line of `tessera watch --json`."""
    lines = [json.loads(line) for line in text.splitlines()]
    return lines[:-1], lines[-1]


def test_servers_are_listed(fleet):
    """Each server lists all of them; each duty has one holder."""
    for server in fleet.servers:
        listed = server.operator("admin", "servers", "--json").json["servers"]
        check_equal({entry["id"]: entry["state"] for entry in listed}, {each.name: "LIVE" for each in fleet.servers}, "servers")
    duties = [duty for entry in fleet.listed() for duty in entry.get("duties", ())]
    check_equal(sorted(duties), ["scrubbing", "sweeping"], "duties")
    one = fleet.listed("--filter", f'id = "{fleet.servers[1].name}"')
    check_equal(len(one), 1, "servers of a filter")
    check(one[0]["heartbeat_time"] >= one[0]["start_time"], f"{one}")
    # Other tests start servers again, so the order of the fleet is not the order of their starts.
    by_start = sorted(fleet.listed(), key=lambda entry: datetime.datetime.fromisoformat(entry["start_time"]), reverse=True)
    check_equal([entry["id"] for entry in fleet.listed("--order-by", "start_time desc")],
                [entry["id"] for entry in by_start], "servers by time of start")
    table = fleet.servers[2].operator("admin", "servers").out
    check(all(server.name in table for server in fleet.servers), table)
    check_equal(fleet.servers[0].cli("admin", "servers", expect=None).code != 0, True, "a client may list servers")


def test_a_job_is_the_same_on_every_server(fleet):
    one, two, three = fleet.servers
    done = one.compile(model_path(MODEL), None, "--dim", "N=2")
    job = done.job["id"]
    for other in (two, three):
        check_equal(other.cli("job", job, "--json").json["state"], "SUCCEEDED", "state")
        check(job in [each["id"] for each in other.cli("jobs", "--json").json["jobs"]], "the job is not listed")
        copy = other.scratch("copy.tsra")
        other.cli("fetch", done.job["compile_result"]["artifact_id"], "-o", copy)
        check_equal(copy.read_bytes(), done.artifact.read_bytes(), "the artifact")
        check_equal(copy.with_name(copy.name + ".sig").read_bytes(),
                    done.artifact.with_name(done.artifact.name + ".sig").read_bytes(), "its signature")
        check(other.compile(model_path(MODEL), None, "--dim", "N=2").job["cached"], "the job is built again")
        check(other.cli("ops", "--json", "--limit", "1").json["operators"], "no operators")


def test_a_job_is_watched_and_cancelled_elsewhere(fleet):
    one, two, three = fleet.servers
    for worker in fleet.workers:
        one.operator("workers", "--drain", worker)
    job = submit(one, 3)
    watch = three.spawn("watch", job, "--json")
    two.cli("cancel", job)
    out, _ = watch.communicate(timeout=60)
    events, last = watched(out)
    check_equal(last["state"], "CANCELLED", "the watched job")
    check_equal([int(event["sequence"]) for event in events], list(range(1, len(events) + 1)), "sequence of events")
    for worker in fleet.workers:
        three.operator("workers", "--undrain", worker)


def test_a_watch_goes_on_at_another_server(fleet):
    one, two, _ = fleet.servers
    for worker in fleet.workers:
        one.operator("workers", "--drain", worker)
    two.stop()  # so the client, which knows both, begins at the first one
    job = submit(one, 4)
    seen = one.scratch("watch.jsonl")
    with open(seen, "wb") as output:
        watch = subprocess.Popen([BIN / "tessera", "watch", job, "--json", "--server",
                                  f"127.0.0.1:{one.port},127.0.0.1:{two.port}"], stdout=output)
    wait_until(lambda: seen.read_text().endswith("\n"), "the watch has begun")
    two.start()
    one.kill()
    for worker in fleet.workers:
        two.operator("workers", "--undrain", worker)
    watch.wait(timeout=120)
    events, last = watched(seen.read_text())
    check_equal(last["state"], "SUCCEEDED", "the watched job")
    check_equal([int(event["sequence"]) for event in events], list(range(1, len(events) + 1)), "sequence of events")


def test_tokens_hold_everywhere(fleet):
    one, two, three = fleet.servers
    made = one.operator("admin", "token", "create", "--name", "ada", "--role", "operator", "--json").json
    with_token = {"TESSERA_TOKEN": made["secret"]}
    check_equal(two.cli("admin", "quotas", "--json", env=with_token).code, 0, "a new token at another server")
    three.operator("admin", "token", "revoke", made["token"]["id"])
    for server in fleet.servers:
        wait_until(lambda: server.cli("admin", "quotas", "--json", env=with_token, expect=None).code != 0,
                   "the revoked token is rejected", 10)
    keys = {server.cli("admin", "signing-key").out for server in fleet.servers}
    check_equal(len(keys), 1, "signing keys")


def test_duties_move_when_a_server_ends(fleet):
    """By kill -9 within the lifetime of a heartbeat, by SIGTERM at once. A server that was frozen gets nothing back."""
    for end in ("kill", "stop", "freeze"):
        name = fleet.holders()["sweeping"]
        server = fleet.server_called(name)
        if end == "freeze":
            server.process.send_signal(signal.SIGSTOP)
        else:
            getattr(server, end)()
        others = [each for each in fleet.live() if each is not server]

        def holders(at=others[0]):
            return {duty: entry["id"] for entry in at.operator("admin", "servers", "--json").json["servers"]
                    for duty in entry.get("duties", ())}

        wait_until(lambda: holders().get("sweeping") not in (None, name), f"another server sweeps after {end}", 30)
        states = {entry["id"]: entry["state"] for entry in others[0].operator("admin", "servers", "--json").json["servers"]}
        check_equal(states.get(name), None if end == "stop" else "SILENT", f"state of the server after {end}")
        if end != "freeze":
            server.start()
            continue
        now = holders()["sweeping"]
        server.process.send_signal(signal.SIGCONT)
        wait_until(lambda: {entry["id"]: entry["state"] for entry in fleet.listed()}[name] == "LIVE", "it is back", 30)
        check_equal(holders()["sweeping"], now, "the server that sweeps after the frozen one is back")


def test_collections_leave_no_duty(fleet):
    """Any server collects; whatever it held for that ends with the collection."""
    for server in fleet.servers:
        server.operator("admin", "gc", "--json")
        check("collection" not in fleet.holders(), "a collection goes on")


def test_workers_outlive_their_server(fleet):
    """Whichever server ends: the workers continue at another one, under the same registration."""
    pids = {name: worker.pid for name, worker in fleet.workers.items()}
    for number, server in enumerate(fleet.servers):
        server.kill()
        other = fleet.live()[0]
        check_equal(other.compile(model_path(MODEL), None, "--dim", f"N={10 + number}").job["state"], "SUCCEEDED", "state")
        server.start()
    check(all(worker.poll() is None for worker in fleet.workers.values()), "a worker ended")
    shown = {worker["id"]: int(worker["pid"]) for worker in fleet.servers[0].cli("workers", "--json").json["workers"]}
    check_equal({name: shown[name] for name in pids}, pids, "workers")


def test_local_workers_of_servers_have_different_names(fleet, tmp_path):
    """A server that starts takes no tasks of another server's workers."""
    for worker in fleet.workers:
        fleet.servers[0].operator("workers", "--drain", worker)
    names = [server.name for server in fleet.servers]
    check_equal(len(set(names)), 3, f"names {names}")
    for worker in fleet.workers:
        fleet.servers[0].operator("workers", "--undrain", worker)
    done = subprocess.run([BIN / "tesserad", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0", "--workers", "0",
                           "--store", fleet.database.uri, "--blobs", fleet.folder / "blobs", "--server-name", names[0]],
                          check=False, capture_output=True, text=True, timeout=60)
    check(done.returncode != 0 and "--server-name" in done.stderr, f"{done.returncode} {done.stderr}")


class Load:
    """Clients that create jobs through all servers, and what they saw."""

    def __init__(self, fleet, first, jobs, clients=3):
        self.fleet, self.jobs = fleet, jobs
        self.acknowledged = {}
        self._pool = concurrent.futures.ThreadPoolExecutor(clients)
        different = jobs * 2 // 3  # the others are equal work, which is shared or cached
        self._runs = [self._pool.submit(self._run, first + number % different) for number in range(jobs)]

    def _run(self, rows):
        """Creates one job and waits for its end, as a client that knows all servers."""
        job = submit(self.fleet.servers[0], rows, self.fleet.addresses)
        self.acknowledged[job] = rows
        last = self.fleet.servers[0].cli("watch", job, "--json", env={"TESSERA_SERVER": self.fleet.addresses}, timeout=180)
        return job, watched(last.out)

    def seen(self):
        """{job: (events, end)} as the clients saw them."""
        return dict(run.result() for run in self._runs)


def check_history(fleet, load):
    """Every acknowledged job ended once, as its client saw it, and with the bytes of a run without faults."""
    seen = load.seen()
    check_equal(set(seen), set(load.acknowledged), "acknowledged jobs that were watched to their end")
    check_equal(len(seen), load.jobs, "jobs")
    artifacts = {}
    for job, (events, end) in seen.items():
        stored = fleet.live()[0].cli("job", job, "--json").json
        check_equal(stored["state"], "SUCCEEDED", f"{job}: {stored.get('failure')}")
        check_equal(stored, end, f"{job}: what the client saw last and what is stored")
        numbers = [int(event["sequence"]) for event in events]
        check_equal(numbers, list(range(1, len(numbers) + 1)), f"{job}: events")
        ends = [event for event in events if event.get("state", {}).get("state") in TERMINAL]
        check_equal(len(ends), 1, f"{job}: ends")
        artifacts.setdefault(load.acknowledged[job], set()).add(stored["compile_result"]["artifact_id"])
    check(all(len(each) == 1 for each in artifacts.values()), f"artifacts {artifacts}")
    check_equal(fleet.database.query("SELECT count(*) FROM task_queue"), "0", "rows of the queue")
    check_equal(fleet.database.query("SELECT count(*) FROM jobs WHERE state IN (1, 2)"), "0", "jobs that have not ended")
    server = fleet.live()[-1]
    for rows, (artifact,) in artifacts.items():
        copy = server.scratch("copy.tsra")
        server.cli("fetch", artifact, "-o", copy)
        check_equal(hashlib.sha256(copy.read_bytes()).hexdigest(), artifact, "bytes of the artifact")
    again = server.compile(model_path(MODEL), None, "--dim", f"N={rows}", "--no-cache").job
    check_equal({again["compile_result"]["artifact_id"]}, artifacts[rows], "the artifact of a run without faults")


def test_a_server_drains_without_a_failed_job(fleet):
    load = Load(fleet, 100, 6)
    wait_until(lambda: len(load.acknowledged) >= 2, "jobs are acknowledged")
    check_equal(fleet.servers[0].stop(), 0, "exit code")
    fleet.servers[0].start()
    check_history(fleet, load)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_no_acknowledged_job_is_lost_when_servers_are_killed(fleet, seed):
    chance = random.Random(seed)
    load = Load(fleet, 200 * seed, 9)
    wait_until(lambda: len(load.acknowledged) >= 2, "jobs are acknowledged")
    for _ in range(2):
        server = chance.choice(fleet.servers)
        if chance.random() < 0.5:
            server.process.send_signal(signal.SIGSTOP)  # its sessions stay open until the others have taken over
            time.sleep(chance.uniform(0, 7))
        server.kill()
        time.sleep(chance.uniform(0, 2))
        server.start()
    check_history(fleet, load)
