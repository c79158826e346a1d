"""Runs a command so that none of its processes survives: own session, deadline, output to a log."""

import os
import signal
import subprocess


def _signal_group(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def run_logged(command, log, timeout, cwd, env=None):
    """Returns (exit code, output); the code is 124 after `timeout` seconds.

    Kills all remaining processes of the command's process group when it ends.
    """
    with open(log, "w+", encoding="utf-8", errors="replace") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, cwd=cwd,
                                   env={**os.environ, **(env or {})}, start_new_session=True)
        try:
            returncode = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            returncode = 124
            _signal_group(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=15)  # time to stop processes that it started in sessions of their own
            except subprocess.TimeoutExpired:
                pass
        finally:
            # Also on Ctrl-C, which does not reach the child in its own session.
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
        stream.seek(0)
        output = stream.read()
        if returncode == 124:
            note = f"\ntimed out after {timeout} s\n"
            stream.write(note)
            output += note
        return returncode, output
