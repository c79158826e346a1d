"""A network that goes dead while connections stay open. A watching client and a remote worker notice by their pings
within half a minute, and reconnect."""

import re
import selectors
import socket
import subprocess
import threading

import pytest

from checks import check, check_equal
from e2e import processes
from e2e.tessera_e2e import BIN, wait_until

pytestmark = pytest.mark.service(workers=1, arguments=("--worker-listen", "127.0.0.1:0"))

# 20 s of silence, 10 s for the answer to a ping (clients/cpp/channel.cpp, workers/rpc.cpp), and the reconnection, on a
# busy machine.
NOTICED_S = 100


class Wire:
    """A relay in front of an address. cut() makes the current connections dead; later ones work."""

    def __init__(self, to):
        host, port = to.rsplit(":", 1)
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._live, self._dead = [], []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self):
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(self._to)
            pair = {"near": near, "far": far, "cut": threading.Event()}
            with self._lock:
                self._live.append(pair)
            threading.Thread(target=self._relay, args=(pair,), daemon=True).start()

    @staticmethod
    def _relay(pair):
        with selectors.DefaultSelector() as ready:
            for one, other in (("near", "far"), ("far", "near")):
                ready.register(pair[one], selectors.EVENT_READ, pair[other])
            while not pair["cut"].is_set():
                for key, _ in ready.select(0.05):
                    data = b"" if pair["cut"].is_set() else key.fileobj.recv(65536)
                    if not data:
                        return
                    key.data.sendall(data)

    def cut(self):
        """Number of dead connections."""
        with self._lock:
            for pair in self._live:
                pair["cut"].set()
            self._dead += self._live  # whose sockets stay open
            count, self._live = len(self._live), []
            return count

    def connections(self):
        with self._lock:
            return len(self._live)


def a_watch_goes_on(service, wire):
    with service.drained("local-0"):
        job = service.submit()
        watcher = subprocess.Popen([BIN / "tessera", "--server", wire.address, "watch", job, "--json"], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: wire.connections() > 0, "the client watches")
        wait_until(lambda: watcher.stdout.readline(), "it has heard of the job")
        check(wire.cut() > 0, "nothing was connected")
        check(watcher.poll() is None, "the client ended with the wire")
    wait_until(lambda: service.cli("job", job, "--json").json["state"] == "SUCCEEDED", "the job ends")
    out, err = watcher.communicate(timeout=NOTICED_S)
    check_equal(watcher.returncode, 0, f"exit code of the watch ({err})")
    check('"SUCCEEDED"' in out, f"it never heard of the end: {out}")
    check(wire.connections() > 0, "it did not connect again")


def a_worker_comes_back(service, wire):
    token = service.folder / "far.token"
    token.write_text(service.operator("admin", "token", "create", "--name", "far", "--role", "worker").out)
    worker = subprocess.Popen([BIN / "tessera-worker", "--server", wire.address, "--token-file", token, "--id", "far",
                               "--scratch", service.folder / "far"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env={processes.MARK: service.mark})
    try:
        def far():
            rows = service.cli("workers", "--json").json["workers"]
            return next((row["state"] for row in rows if row["id"] == "far"), "")

        wait_until(lambda: far() == "IDLE", "the worker of another machine is there")
        with service.drained("local-0"):
            check(wire.cut() > 0, "nothing was connected")
            job = service.submit()
            wait_until(lambda: service.cli("job", job, "--json").json["state"] == "SUCCEEDED",
                       "the worker came back and did the job", NOTICED_S)
            events = [line for line in service.cli("watch", job, "--json").out.splitlines() if '"attempt"' in line]
            check(events and all('"far"' in line for line in events), f"somebody else did it: {events}")
    finally:
        worker.kill()
        worker.wait()


def test_a_watch_goes_on(service):
    a_watch_goes_on(service, Wire((service.data / "tesserad.addr").read_text().strip()))


def test_a_worker_comes_back(service):
    for_workers = re.search(r"listening on (127\.0\.0\.1:\d+) for workers", service.log)[1]
    a_worker_comes_back(service, Wire(for_workers))
