"""Several servers on one PostgreSQL database and one shared folder of blobs, with workers that know all of them."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import uuid

from e2e import processes
from e2e.postgres_suite import Database
from e2e.tessera_e2e import BIN, Service, wait_until


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server(Service):
    """One server of a fleet. Its addresses stay the same when it starts again."""

    def __init__(self, database, blobs, arguments=(), workers=0):
        self.port, self.worker_port = free_port(), free_port()
        super().__init__(workers=workers, arguments=("--store", database.uri, "--blobs", blobs,
                                               "--listen", f"127.0.0.1:{self.port}",
                                               "--worker-listen", f"127.0.0.1:{self.worker_port}", *arguments))

    @property
    def name(self):
        return (self.data / "server.name").read_text().strip()


class Fleet:
    """`servers` servers and `workers` workers."""

    def __init__(self, servers=3, workers=2, arguments=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-fleet-"))
        self.mark = uuid.uuid4().hex
        self._cleanup = contextlib.ExitStack()
        self._wanted_workers = workers
        self._arguments = arguments
        self._count = servers
        self.servers, self.workers = [], {}

    def __enter__(self):
        self._cleanup.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            self.database = self._cleanup.enter_context(Database())
            blobs = self.folder / "blobs"
            blobs.mkdir()
            for _ in range(self._count):
                server = Server(self.database, blobs, self._arguments)
                self._cleanup.callback(server.close)
                server.start()
                self.servers.append(server)
            self._cleanup.callback(processes.kill_marked, self.mark)
            self.token = self.folder / "worker.token"
            secret = self.servers[0].operator("admin", "token", "create", "--name", "builder", "--role", "worker").out
            self.token.write_text(secret)
            for number in range(self._wanted_workers):
                self.start_worker(f"builder-{number}")
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_):
        self._cleanup.close()

    @property
    def addresses(self):
        """For clients: all servers."""
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def start_worker(self, name, servers=None):
        """Starts a worker that knows these servers, by default all, and waits until it is registered."""
        listed = ",".join(f"127.0.0.1:{server.worker_port}" for server in servers or self.servers)
        with open(self.folder / f"{name}.log", "ab") as log:
            self.workers[name] = subprocess.Popen(
                [BIN / "tessera-worker", "--server", listed, "--id", name, "--token-file", self.token, "--scratch",
                 self.folder / name, "--memory-limit", "4GiB"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, processes.MARK: self.mark}, start_new_session=True)
        wait_until(lambda: "registered as" in self.worker_log(name), f"{name} is registered")

    def worker_log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def live(self):
        return [server for server in self.servers if server.process.poll() is None]

    def listed(self, *arguments):
        """The servers as one of the live ones lists them."""
        return self.live()[0].operator("admin", "servers", "--json", *arguments).json["servers"]

    def holders(self):
        """{duty: name of the server that has it}."""
        return {duty: server["id"] for server in self.listed() for duty in server.get("duties", ())}

    def server_called(self, name):
        return next(server for server in self.servers if server.name == name)
