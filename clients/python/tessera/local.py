"""A local service, like the command line's ``--local``."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import grpc

from tessera import errors
from tessera.client import Client
from tessera.identity import Identity

_PATIENCE_S = 30.0
# A tesserad that was not started by a program may be restarted by its service manager; wait this long for it.
_OWNERS_RESTART_S = 5.0
_FAILED, _OTHER_BUILD = 1, 3  # tesserad's exit codes (proto/support/server_exit.h)
_ENDS_WITH_PARENT = "ends with its parent"  # the third line of DATA/tesserad.build
_LONGEST_SOCKET_PATH = 107  # for longer paths a port is used


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


def _line(file: pathlib.Path, number: int) -> str:
    """One line of a file; "" if there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ""
    return lines[number] if number < len(lines) else ""


def _is_held(folder: pathlib.Path) -> bool:
    """Whether a tesserad uses the folder: the process in the store's lock file lives and has that file open. Wrongly false for
    a process in another PID namespace; tesserad itself relies on the lock."""
    lock = folder / "tessera.db.lock"
    process = _line(lock, 0)
    if not process.isdigit():
        return False
    try:
        files = os.listdir(f"/proc/{process}/fd")
    except PermissionError:
        return True  # a process of another user, whose open files are hidden
    except OSError:
        return False
    for file in files:
        try:
            if os.path.samefile(f"/proc/{process}/fd/{file}", lock):
                return True
        except OSError:  # closed meanwhile
            continue
    return False


def _running(folder: pathlib.Path) -> str:
    """The address that a tesserad announced in the folder, if a server answers there. Another program may use the port by now.
    """
    address = _line(folder / "tesserad.addr", 0)
    if not address or not (address.startswith("unix:") or _is_held(folder)):
        return ""
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=0.5)
        except grpc.FutureTimeoutError:
            return ""
    return address


class LocalService:
    """tesserad with its workers, for the duration of a ``with`` block.

    An existing service of the data folder is used and left running. Otherwise a service is started on a Unix socket in the
    folder and drained at the end, however this program ends. The stored data remains, so the next block finds a warm cache. If
    an existing service ends before the block, together with the program that started it, a new one is started at the same
    address, and calls continue there.
    """

    def __init__(self, data_folder: str | os.PathLike[str] | None = None, workers: int = 0, *,
                 binary: str | os.PathLike[str] | None = None) -> None:
        """`data_folder`: default $XDG_DATA_HOME/tessera or ~/.local/share/tessera. `workers`: 0 stands for one for each core.
        """
        if workers < 0:
            raise errors.InvalidInput("workers is at least 0, which stands for one a core", attribute="workers",
                                      found=str(workers))
        self.folder = pathlib.Path(data_folder or _default_folder()).absolute()
        self.address = ""
        self.started = False  #: False: an existing service is used
        self._workers = workers or os.cpu_count() or 1
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._gone_since: float | None = None  # since when no process uses the folder
        self._why: errors.TesseraError | None = None  # why the service that was started here ended
        self._lock = threading.Lock()

    def start(self) -> Client:
        """Starts the service if needed and returns a client."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.of_os(error) from error
        self._why = None
        socket = f"unix:{self.folder / 'tesserad.sock'}"
        self.address = socket if len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH else "127.0.0.1:0"
        try:
            self.address = self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        self.started = self._process is not None
        self._client = Client(self.address, Identity())  # the environment's identity is for another service
        self._client._connection.ended = self._ended
        return self._client

    def _wait_until_ready(self) -> str:
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            if address := _running(self.folder):
                return address
            if (why := self._ended()) is not None:
                raise why
            time.sleep(0.01)
        raise errors.DeadlineExceeded(f"the tesserad of {self.folder} did not answer within {_PATIENCE_S:.0f} s; see {self._log}")

    @property
    def _log(self) -> pathlib.Path:
        return self.folder / "tesserad.log"

    def _spawn(self) -> None:
        binary = _find_server(self._binary)
        (self.folder / "tesserad.addr").unlink(missing_ok=True)  # left by a killed server
        with open(self._log, "ab") as output:
            # In its own process group, so that Ctrl-C reaches only this program, which then drains the service.
            self._process = subprocess.Popen(
                [binary, "--data-dir", self.folder, "--listen", self.address, "--workers", str(self._workers),
                 "--die-with-parent"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0)

    def _ended(self) -> errors.TesseraError | None:
        """None if the service may answer, or has just been replaced; otherwise the error. Called from any thread."""
        with self._lock:
            if self._process and (code := self._process.poll()) is not None:
                self._process = None
                # If several programs start a service at the same moment, one gets the folder, and the others use its service.
                if code != _FAILED or not _is_held(self.folder):
                    self._why = self._why_it_ended(code)
            if self._process or self._why:
                return self._why
            # Another program or the owner started it. A draining service still holds the folder.
            if _is_held(self.folder):
                self._gone_since = None
                return None
            build = self.folder / "tesserad.build"
            owned = self._client is not None and _line(build, 2) != _ENDS_WITH_PARENT
            since = self._gone_since = self._gone_since or time.monotonic()
            if owned and time.monotonic() - since < _OWNERS_RESTART_S:
                return None
            try:
                self._spawn()
            except errors.TesseraError as error:
                return error
            return None

    def _why_it_ended(self, code: int) -> errors.TesseraError:
        again = "run this again: what it had acknowledged is kept"
        if code == _OTHER_BUILD:
            return errors.Unreachable(f"tesserad ended: it and the tessera-worker or tessera-task beside it are of different "
                                      f"builds, replaced while it ran or not built together; see {self._log}",
                                      fix=f"build or install all of them, then {again}")
        return errors.Unreachable(f"tesserad ended with exit code {code}; see {self._log}", fix=again)

    def stop(self) -> None:
        """Drains the service, if it was started here."""
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
