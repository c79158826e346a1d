"""Clients that create, watch, read, cancel and execute while the cluster is harmed, and record each call."""

import concurrent.futures
import hashlib
import json
import random
import subprocess
import threading

import numpy as np

from e2e.tessera_e2e import BIN, model_inputs, model_path
from faults.cluster.history import FAILED, OK, TERMINAL, UNKNOWN

# Artifacts of more than 64 KiB are in the bucket, smaller ones in the database. The last model has many tasks.
MODELS = {**{f"gemm {rows}": (f"gemm:m={rows},k=192,n=192", ()) for rows in (17, 18, 19, 20)},
          **{f"mlp {rows}": ("mlp", ("--dim", f"N={rows}")) for rows in (2, 3, 4)},
          "bert": ("bert_tiny", ("--shape", "input_ids=1x32", "--shape", "attention_mask=1x32"))}
EXECUTED = ("gemm 17", "gemm 18")
TUNED = "gemm:m=61,k=67,n=131"
NO_ANSWER = (6, 8)  # exit codes: the deadline passed, no server
NOT_FOUND = 5
CALL_S = 100  # a client gives up after a minute without a server


def prepare():
    """Writes the models, so that clients do not generate them at the same time."""
    for model, _ in MODELS.values():
        model_path(model)
    model_path(TUNED)


class Client:
    """One client. Its calls are in `history`."""

    def __init__(self, name, address, history, folder, env):
        self.name, self.history, self.folder = name, history, folder / name
        self.folder.mkdir()
        self._env = {**env, "TESSERA_SERVER": address}
        self._calls = 0

    def run(self, *arguments):
        """Runs `tessera`; None if it did not end in time."""
        try:
            return subprocess.run([BIN / "tessera", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="replace", timeout=CALL_S, env=self._env, cwd=self.folder)
        except subprocess.TimeoutExpired:
            return None

    def _call(self, what, command, value_of, good=(0,), **arguments):
        """Records a call. `value_of(done)`: what it returned."""
        call = self.history.begin(self.name, what, **arguments)
        done = self.run(*command)
        if done is None or done.returncode in NO_ANSWER:
            self.history.end(call, UNKNOWN)
        elif done.returncode in good:
            self.history.end(call, OK, value_of(done))
        else:
            self.history.end(call, FAILED, f"exit code {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
        return call

    def compile(self, key, request_id, *flags):
        model, shape = MODELS[key]
        return self._call("create", ("compile", model_path(model), "--target", "host", *shape, "--detach", "--json",
                                     "--request-id", request_id, *flags),
                          lambda done: {"id": json.loads(done.stdout)["id"]}, key=key, request_id=request_id)

    def tune(self, request_id):
        return self._call("create", ("tune", model_path(TUNED), "--target", "host", "--trials", "3", "--budget", "20s",
                                     "--choices", "0", "--method", "walk", "--detach"),
                          lambda done: {"id": done.stdout.strip()}, key="tune", request_id=request_id)

    def watch(self, job):
        """The exit code is that of the job's failure, so the output decides."""
        def value(done):
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            return {"events": [slim(event) for event in lines[:-1]], "last": state_of(lines[-1])}
        return self._call("watch", ("watch", job, "--json"), value, (0, 1, 2, 3, 4, 7, 9, 10), job=job)

    def read(self, job):
        def value(done):
            return state_of(json.loads(done.stdout)) if done.returncode == 0 else {"missing": True}
        return self._call("read", ("job", job, "--json"), value, (0, NOT_FOUND), job=job)

    def list(self):
        return self._call("list", ("jobs", "--json", "--limit", "0"),
                          lambda done: [job["id"] for job in json.loads(done.stdout)["jobs"]])

    def cancel(self, job):
        return self._call("cancel", ("cancel", job), lambda done: None, job=job)

    def fetch(self, artifact):
        self._calls += 1
        path = self.folder / f"{self._calls}.tsra"
        return self._call("fetch", ("fetch", artifact, "-o", path),
                          lambda done: hashlib.sha256(path.read_bytes()).hexdigest(), artifact=artifact)

    def execute(self, key, artifact):
        self._calls += 1
        inputs, out = self.folder / f"{self._calls}.npz", self.folder / f"{self._calls}.out"
        np.savez(inputs, **model_inputs(MODELS[key][0], 1))

        def value(done):
            return {path.stem: hashlib.sha256(np.load(path).tobytes()).hexdigest() for path in sorted(out.glob("*.npy"))}
        return self._call("execute", ("execute", artifact, "-i", inputs, "-o", out), value, key=key)


def state_of(job):
    found = {"state": job["state"]}
    if job.get("compile_result", {}).get("artifact_id"):
        found["artifact"] = job["compile_result"]["artifact_id"]
    if job.get("failure"):
        found["failure"] = job["failure"].get("message", "")
    return found


def slim(event):
    found = {"sequence": int(event["sequence"])}
    if "state" in event:
        found["state"] = event["state"]["state"]
    if "attempt" in event:
        found["task"] = event["attempt"]["task_id"]
        if event["attempt"].get("failure"):
            found["failed"] = event["attempt"]["failure"]["reason"]
    return found


def quiet_results(client):
    """The results of the work without faults: {key: {"artifact": id, "outputs": {name: digest}}}."""
    def compiled(key):
        created = client.compile(key, f"quiet {key}")
        if created.outcome != OK:
            raise AssertionError(f"without faults, {key} was not accepted: {created.value}")
        watched = client.watch(created.value["id"])
        if watched.outcome != OK or watched.value["last"]["state"] != "SUCCEEDED":
            raise AssertionError(f"without faults, {key} ended as {watched.value}")
        return {"artifact": watched.value["last"]["artifact"]}

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        quiet = dict(zip(MODELS, pool.map(compiled, MODELS)))
    for key in EXECUTED:
        quiet[key]["outputs"] = client.execute(key, quiet[key]["artifact"]).value
    return quiet


class Load:
    """Clients that work until stop(), each in a thread."""

    def __init__(self, cluster, history, quiet, seed, folder, env):
        self.history, self.quiet, self._seed = history, quiet, seed
        self._stopped = threading.Event()
        self.clients = [Client(name, address, history, folder, env) for name, address in cluster.client_addresses.items()]
        self._pool = concurrent.futures.ThreadPoolExecutor(len(self.clients))
        self._runs = [self._pool.submit(self._work, client) for client in self.clients]

    def stop(self):
        """Returns when each client has ended its last piece of work."""
        self._stopped.set()
        for run in self._runs:
            run.result()

    def _work(self, client):
        chance = random.Random(f"{self._seed} {client.name}")
        number = 0
        while not self._stopped.is_set():
            number += 1
            self._piece(client, chance, f"{self._seed} {client.name} {number}", number)

    def _piece(self, client, chance, request_id, number):
        """One piece of a client's work."""
        if client is self.clients[0] and number == 2:
            self._follow(client, chance, client.tune(request_id))
            return
        if chance.random() < 0.2:
            key = chance.choice(EXECUTED)
            client.execute(key, self.quiet[key]["artifact"])
            return
        key = chance.choice(list(MODELS))
        flags = ("--no-cache",) if chance.random() < 0.8 else ()
        created = client.compile(key, request_id, *flags)
        if created.outcome != OK or chance.random() < 0.2:
            created = client.compile(key, request_id, *flags)  # a repetition, of an acknowledged request too
        self._follow(client, chance, created)

    def _follow(self, client, chance, created):
        if created.outcome != OK:
            return
        job = created.value["id"]
        if chance.random() < 0.5:
            client.read(job)
        if chance.random() < 0.1:
            client.cancel(job)
            client.read(job)
        watched = client.watch(job)
        if watched.outcome == OK and watched.value["last"].get("artifact") and chance.random() < 0.5:
            client.fetch(watched.value["last"]["artifact"])
        if chance.random() < 0.3:
            client.list()
        if chance.random() < 0.5:
            client.read(job)

    def finish(self, patience_calls=3):
        """After the faults: follows every acknowledged job to its end, as each client sees it."""
        def by_turns(call, items):
            return list(self._pool.map(lambda pair: call(self.clients[pair[0] % len(self.clients)], pair[1]), enumerate(items)))

        jobs = sorted({call.value["id"] for call in self.history.calls() if call.what == "create" and call.outcome == OK})
        ends = by_turns(lambda client, job: self._end_of(client, job, patience_calls), jobs)
        by_turns(Client.fetch, sorted({artifact for artifact in ends if artifact}))
        list(self._pool.map(Client.list, self.clients))
        self._pool.shutdown()

    @staticmethod
    def _end_of(client, job, patience_calls):
        for _ in range(patience_calls):
            if client.watch(job).outcome == OK:
                break
        read = client.read(job)
        return read.value.get("artifact") if read.outcome == OK and read.value.get("state") in TERMINAL else None
