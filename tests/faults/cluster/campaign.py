"""One run of the campaign: a cluster, its load, the faults of a seed, and what the history and the store say afterwards."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from e2e.tessera_e2e import wait_until
from faults.cluster.cluster import Cluster
from faults.cluster.history import OK, History
from faults.cluster.history_checker import violations
from faults.cluster.injection import Injection
from faults.cluster.load import Client, Load, prepare, quiet_results
from faults.cluster.plan import make_plan

SETTLE_S = 60  # after the last fault, until all processes serve again: backoff, leases, retries of 30 s


def may_mount():
    """Whether this user may mount a small disk."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False, capture_output=True)
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def serves(cluster):
    """Whether every server answers a call that reads the store, and all workers are registered."""
    cluster.start_ended()
    for server in cluster.servers.values():
        server.address = f"127.0.0.1:{server.port}"
        if server.cli("jobs", "--json", "--limit", "1", expect=None, timeout=120).code != 0:
            return False
    return cluster.live_workers() == set(cluster.workers)


def store_violations(cluster):
    """What must hold in the store once all jobs have ended."""
    found = []

    def expect(what, sql, expected="0"):
        value = cluster.database.primary.query(sql)
        if value != expected:
            found.append(f"{what}: {value}, expected {expected}")

    expect("rows of the queue", "SELECT count(*) FROM task_queue")
    expect("counted waiting tasks", "SELECT coalesce(sum(ready), 0) FROM queue_lengths")
    expect("jobs that have not ended", "SELECT count(*) FROM jobs WHERE state IN (1, 2)")
    expect("actions that have not ended", "SELECT count(*) FROM actions WHERE state IN (1, 2)")
    expect("live tasks", "SELECT count(*) FROM tasks WHERE state IN (1, 2)")
    expect("trials of a job that were recorded twice",
           "SELECT count(*) FROM (SELECT 1 FROM records WHERE job <> '' AND mode = 'search' GROUP BY job, workload, trial "
           "HAVING count(*) > 1) AS repeated")
    server = next(iter(cluster.servers.values()))
    verified = server.operator("admin", "verify", "--json", expect=None, timeout=120)
    if verified.code != 0 or verified.json.get("problems"):
        found.append(f"tessera admin verify: {verified}")
    return found


def run(seed, seconds, keep=None, told=print):
    """Returns the violations. `keep`: a folder for the history and the logs of a run with violations."""
    prepare()
    plan = make_plan(seed, seconds, may_mount())
    told(str(plan))
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-campaign-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = stack.enter_context(Cluster(plan.small_disk))
        env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        quiet_client = Client("quiet", next(iter(cluster.client_addresses.values())), History(), folder, env)
        quiet = quiet_results(quiet_client)
        history = History()
        load = Load(cluster, history, quiet, seed, folder, env)
        injection = Injection(cluster, plan)
        try:
            injection.run()
        finally:
            injection.end()
        load.stop()
        found = []
        try:
            wait_until(lambda: serves(cluster), "all servers and workers serve after the last fault", SETTLE_S)
        except AssertionError as late:
            found.append(str(late))
        healthy_from_s = history.now()
        load.finish()
        found += violations(history.calls(), quiet, healthy_from_s)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: cluster.database.primary.query("SELECT count(*) FROM task_queue") == "0", "", 20)
        found += store_violations(cluster)
        calls = history.calls()
        told(f"   {len(calls)} calls, {sum(call.outcome == OK for call in calls)} answered; "
             f"{len({call.value['id'] for call in calls if call.what == 'create' and call.outcome == OK})} jobs; "
             f"{len(injection.notes)} events; {len(found)} violations")
        if found and keep:
            kept = pathlib.Path(keep) / f"seed-{seed}"
            kept.mkdir(parents=True, exist_ok=True)
            history.write(kept / "history.jsonl")
            (kept / "quiet.json").write_text(json.dumps(quiet))
            (kept / "events.txt").write_text("\n".join([str(plan), *injection.notes]) + "\n")
            (kept / "violations.txt").write_text("\n".join(found) + "\n")
            for name, text in cluster.logs().items():
                (kept / name.replace("/", "-")).write_text(text)
        for note in injection.notes if found else ():
            told(f"   {note}")
        return found
