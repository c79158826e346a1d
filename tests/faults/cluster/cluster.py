"""Three servers, four workers, a replicated database and an S3 service, connected by links that can be harmed."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

from e2e import processes
from e2e.server_fleet import free_port
from e2e.swift_s3 import Swift
from e2e.tessera_e2e import BIN, Service, wait_until
from faults.cluster.links import Network
from faults.cluster.replicated_database import ReplicatedDatabase

SERVERS, WORKERS, CLIENTS = 3, 4, 3
LEASE_S = 4
RESTART_S = 2  # pause before a process that ended by itself starts again
SMALL_DISK_BYTES = 192 << 20  # of the process whose disk is filled


class ClusterServer(Service):
    """One tesserad. Its addresses stay the same when it starts again."""

    def __init__(self, cluster, name, env):
        self.name, self.port, self.worker_port = name, free_port(), free_port()
        database = cluster.database
        ports = [cluster.network.link(name, instance.name, instance.port) for instance in database.instances]
        store = (f"postgresql:///service?host={','.join('127.0.0.1' for _ in ports)}&port={','.join(map(str, ports))}"
                 "&user=tessera&target_session_attrs=read-write")
        endpoint = f"http://127.0.0.1:{cluster.network.link(name, 'bucket', cluster.bucket.port)}"
        blobs = cluster.bucket.url.replace(cluster.bucket.endpoint, endpoint)
        arguments = ("--store", store, "--blobs", blobs, "--listen", f"127.0.0.1:{self.port}", "--worker-listen",
                     f"127.0.0.1:{self.worker_port}", "--lease", str(LEASE_S), "--heartbeat", "0.5",
                     "--server-name", name.replace("-", ""))
        super().__init__(workers=0, arguments=arguments, env=env)

    def start_at_once(self):
        """Starts tesserad without waiting until it answers: it may be cut off from its database."""
        with open(self.folder / "tesserad.log", "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "tesserad", "--data-dir", self.data, "--listen", "127.0.0.1:0", *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**self._env, processes.MARK: self.mark})


class Cluster:
    """Started by `with`. Processes have the names server-0, worker-0, database-0 (the first primary), database-1, bucket."""

    def __init__(self, small_disk=None):
        """`small_disk`: a server or worker whose folder is a small disk of its own."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-cluster-"))
        self.mark = uuid.uuid4().hex
        self.small_disk = small_disk
        self.servers, self.workers = {}, {}
        self._started = {}  # times of the last start of processes that ended by themselves
        self._cleanup = contextlib.ExitStack()

    def __enter__(self):
        self._cleanup.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_):
        self._cleanup.close()

    def _start(self):
        self.network = self._cleanup.enter_context(Network())
        self.database = self._cleanup.enter_context(ReplicatedDatabase(self.network))
        self.bucket = self._cleanup.enter_context(Swift(files=True))
        for number in range(SERVERS):
            server = ClusterServer(self, f"server-{number}", self.bucket.environment)
            self._cleanup.callback(server.close)
            if server.name == self.small_disk:
                self._mount(server.data)
            server.start()
            self.servers[server.name] = server
        token = self.folder / "worker.token"
        token.write_text(next(iter(self.servers.values())).operator(
            "admin", "token", "create", "--name", "builder", "--role", "worker").out)
        self._worker_commands = {}
        self._cleanup.callback(processes.kill_marked, self.mark)
        for number in range(WORKERS):
            name = f"worker-{number}"
            scratch = self.folder / name
            if name == self.small_disk:
                self._mount(scratch)
            listed = ",".join(f"127.0.0.1:{self.network.link(name, server.name, server.worker_port)}"
                              for server in self.servers.values())
            self._worker_commands[name] = [BIN / "tessera-worker", "--server", listed, "--id", name, "--token-file", token,
                                           "--scratch", scratch, "--memory-limit", "4GiB", "--no-huge-pages"]
            self.start_worker(name)
        wait_until(lambda: self.live_workers() == set(self.workers), "all workers are registered", 60)
        self.client_addresses = {
            f"client-{number}": ",".join(f"127.0.0.1:{self.network.link(f'client-{number}', server.name, server.port)}"
                                         for server in self.servers.values()) for number in range(CLIENTS)}

    def _mount(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", folder], check=True)
        self._cleanup.callback(subprocess.run, ["umount", "--lazy", folder], check=False)

    def disk_of(self, name):
        return self.servers[name].data if name in self.servers else self.folder / name

    def start_worker(self, name):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.workers[name] = subprocess.Popen(
                self._worker_commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, processes.MARK: self.mark})

    def live_workers(self):
        server = next(iter(self.servers.values()))
        listed = server.cli("workers", "--json").json["workers"]
        return {worker["id"] for worker in listed if worker["state"] in ("IDLE", "BUSY")}

    def task_processes(self):
        """Ids of live task processes."""
        return [pid for pid in processes.family(self.mark) if processes.command_name(pid) == "tessera-task"]

    def process_of(self, name):
        """The subprocess.Popen of a process of the cluster."""
        if name in self.servers:
            return self.servers[name].process
        if name in self.workers:
            return self.workers[name]
        if name == "bucket":
            return self.bucket.process
        return next(each for each in self.database.instances if each.name == name).process

    def signal(self, name, number):
        """Sends a signal to a process, and for a database to its sessions as well."""
        for instance in self.database.instances:
            if instance.name == name:
                return instance.signal(number)
        process = self.process_of(name)
        if process.poll() is None:
            process.send_signal(number)
        return None

    def kill(self, name):
        self.signal(name, signal.SIGKILL)
        self.process_of(name).wait()

    def start_again(self, name):
        """Starts a process that was killed."""
        if name in self.servers:
            self.servers[name].start_at_once()
        elif name in self.workers:
            self.start_worker(name)
        elif name == "bucket":
            self.bucket.start()
        else:
            next(each for each in self.database.instances if each.name == name).start()

    def start_ended(self, down=()):
        """Starts servers and workers that ended by themselves, as systemd does: a server needs its database to start. `down`:
        those that a fault keeps down. Returns their names."""
        now = time.monotonic()
        ended = [name for name in [*self.servers, *self.workers]
                 if name not in down and self.process_of(name).poll() is not None and
                 now - self._started.get(name, 0) > RESTART_S]
        for name in ended:
            self._started[name] = now
            self.start_again(name)
        return ended

    def logs(self):
        """The ends of all logs, for a report of a failed run."""
        paths = [server.folder / "tesserad.log" for server in self.servers.values()]
        paths += [self.folder / f"{name}.log" for name in self.workers]
        paths += [self.database.folder / f"{each.name}.log" for each in self.database.instances]
        return {f"{path.parent.name}/{path.name}": path.read_text(errors="replace")[-20000:] for path in paths if path.exists()}
