"""A service of this machine's own, as the command line's ``--local``."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import time

import grpc

from tessera import errors
from tessera.client import Client
from tessera.identity import Identity

_PATIENCE_S = 30.0
_AWAY_FOR_GOOD_S = 5.0  # a server takes its address away when it ends and when it starts; longer than between the two
_OTHER_BUILD = 3  # tesserad's exit code (proto/server_exit.h)
_LONGEST_SOCKET_PATH = 107  # a deep data folder takes a port instead


def _default_folder() -> pathlib.Path:
    if data := os.environ.get("XDG_DATA_HOME"):
        return pathlib.Path(data) / "tessera"
    return pathlib.Path.home() / ".local" / "share" / "tessera"


def _find_server(binary: str | os.PathLike[str] | None) -> str:
    named = os.fspath(binary) if binary else os.environ.get("TESSERA_TESSERAD", "tesserad")
    found = shutil.which(named)
    if found is None:
        raise errors.NotFound(f"there is no program {named}",
                              fix="put the folder of tesserad into PATH, or name it with binary= or TESSERA_TESSERAD")
    return found


def _running(folder: pathlib.Path) -> str:
    """The address a tesserad announced in the folder, if one answers there."""
    try:
        address = (folder / "tesserad.addr").read_text().strip()
    except OSError:
        return ""
    if not address:
        return ""
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=0.5)
        except grpc.FutureTimeoutError:
            return ""
    return address


class LocalService:
    """tesserad with its workers, for as long as a ``with`` block.

    One that serves the data folder already is used and left alone. Otherwise one is started on a Unix socket within
    the folder and drained at the end, however this program ends; what it stored stays, so the next block finds its cache
    warm.
    """

    def __init__(self, data_folder: str | os.PathLike[str] | None = None, workers: int = 0, *,
                 binary: str | os.PathLike[str] | None = None) -> None:
        """`data_folder`: $XDG_DATA_HOME/tessera or ~/.local/share/tessera; `workers` 0: one for each core."""
        if workers < 0:
            raise errors.InvalidInput("workers is at least 0, which stands for one a core", attribute="workers",
                                      found=str(workers))
        self.folder = pathlib.Path(data_folder or _default_folder()).absolute()
        self.address = ""
        self.started = False  #: False where a running one was found
        self._workers = workers or os.cpu_count() or 1
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._unannounced_since: float | None = None

    def start(self) -> Client:
        """Returns a client of it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.of_os(error) from error
        self.address = _running(self.folder) or self._start()
        self._client = Client(self.address, Identity())  # the environment is of another service
        self._client._connection.ended = self._ended
        return self._client

    def _start(self) -> str:
        binary = _find_server(self._binary)
        socket = self.folder / "tesserad.sock"
        listen = f"unix:{socket}" if len(os.fsencode(f"unix:{socket}")) <= _LONGEST_SOCKET_PATH else "127.0.0.1:0"
        (self.folder / "tesserad.addr").unlink(missing_ok=True)
        log = self.folder / "tesserad.log"
        with open(log, "ab") as output:
            # A process group of its own: Ctrl-C is for this program, which then drains the service.
            self._process = subprocess.Popen(
                [binary, "--data-dir", self.folder, "--listen", listen, "--workers", str(self._workers),
                 "--die-with-parent"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0)
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            if self._process.poll() is not None:
                # Another program may have started one at the same moment: the folder has one owner.
                self._process = None
                time.sleep(0.3)
                if address := _running(self.folder):
                    return address
                raise errors.InternalError(f"{binary} ended at once; see {log}")
            if address := _running(self.folder):
                self.started = True
                return address
            time.sleep(0.01)
        self.stop()
        raise errors.DeadlineExceeded(f"{binary} did not answer within {_PATIENCE_S:.0f} s; see {log}")

    def _ended(self) -> errors.TesseraError | None:
        """Why it will never answer again, or None while it may."""
        log, again = self.folder / "tesserad.log", "run this again: what it had acknowledged is kept"
        if self._process:
            code = self._process.poll()
            if code is None:
                return None
            if code == _OTHER_BUILD:
                return errors.Unreachable(f"tesserad ended: it and the tessera-worker or tessera-task beside it are of different "
                                          f"builds, replaced while it ran or not built together; see {log}",
                                          fix=f"build or install all of them, then {again}")
            return errors.Unreachable(f"tesserad ended with exit code {code}; see {log}", fix=again)
        if (self.folder / "tesserad.addr").exists():
            self._unannounced_since = None
            return None
        since = self._unannounced_since = self._unannounced_since or time.monotonic()
        if time.monotonic() - since < _AWAY_FOR_GOOD_S:
            return None
        return errors.Unreachable(f"the tesserad that served {self.folder} was not started here and has ended; see {log}", fix=again)

    def stop(self) -> None:
        """Drains it, if it was started here."""
        if self._client:
            self._client.close()
            self._client = None
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
            self._process = None
        self.started = False

    def __enter__(self) -> Client:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<tessera.LocalService in {self.folder}: {self.address or 'not started'}>"


def local(data_folder: str | os.PathLike[str] | None = None, workers: int = 0, *,
          binary: str | os.PathLike[str] | None = None) -> LocalService:
    """``with tessera.local() as client: client.compile(...)``."""
    return LocalService(data_folder, workers, binary=binary)
