"""The calls of all clients with what they returned, and the artifacts of a run without faults."""

import dataclasses
import json
import threading
import time

# How a call ended: its effect is known, or the service rejected it, or nobody knows.
OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


@dataclasses.dataclass
class Call:
    """One call of a client. Times are seconds since the start of the run."""
    client: str
    what: str        # create, watch, read, list, cancel, fetch, execute
    begin: float
    arguments: dict
    end: float = float("inf")
    outcome: str = UNKNOWN
    value: object = None


class History:
    """Records calls. Thread-safe."""

    def __init__(self):
        self._calls, self._lock, self._start = [], threading.Lock(), time.monotonic()

    def now(self):
        return time.monotonic() - self._start

    def begin(self, client, what, **arguments):
        call = Call(client, what, self.now(), arguments)
        with self._lock:
            self._calls.append(call)
        return call

    def end(self, call, outcome, value=None):
        call.outcome, call.value, call.end = outcome, value, self.now()

    def calls(self):
        with self._lock:
            return list(self._calls)

    def write(self, path):
        path.write_text("".join(json.dumps(dataclasses.asdict(call)) + "\n" for call in self.calls()))


def read_history(path):
    return [Call(**json.loads(line)) for line in path.read_text().splitlines()]
