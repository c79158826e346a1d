"""Runs a command so that none of its processes survives: own session, deadline, output to a log."""

import os
import pathlib
import signal
import subprocess
import threading
import uuid

MARK = "TESSERA_TEST_COMMAND"  # in the environment of the command and of all that it starts


def _signal_group(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def _kill_marked(mark):
    """Kills processes that the command started in sessions of their own, until none is left."""
    wanted, found = f"{MARK}={mark}".encode(), True
    while found:
        found = False
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
            except OSError:
                pass  # ended in the meantime, or not ours


def _show(log, ended):
    """Prints what is added to the log."""
    with open(log, encoding="utf-8", errors="replace") as stream:
        last = False
        while not last:
            last = ended.wait(1)
            if text := stream.read():
                print(text, end="", flush=True)


def run_logged(command, log, timeout, cwd, env=None, show=False):
    """Returns (exit code, output); the code is 124 after `timeout` seconds. `show` also prints the output.

    Kills all remaining processes of the command when it ends.
    """
    mark = uuid.uuid4().hex
    with open(log, "w+", encoding="utf-8", errors="replace") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, cwd=cwd,
                                   env={**os.environ, **(env or {}), MARK: mark}, start_new_session=True)
        ended = threading.Event()
        shown = threading.Thread(target=_show, args=(log, ended))
        if show:
            shown.start()
        try:
            returncode = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            returncode = 124
            process.send_signal(signal.SIGINT)  # pytest writes its report
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                pass
        finally:
            # Also on Ctrl-C, which does not reach the child in its own session.
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
            _kill_marked(mark)
            ended.set()
            if show:
                shown.join()
        stream.seek(0)
        output = stream.read()
        if returncode == 124:
            note = f"\ntimed out after {timeout} s\n"
            stream.write(note)
            output += note
        return returncode, output
