"""Finds, measures and kills all processes that a service started, whatever session or group they are in."""

import os
import pathlib
import signal
import time

MARK = "TESSERA_E2E_ID"


def marked(mark):
    """Ids of live processes started with MARK=mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass  # ended in the meantime, or not ours
    return found


def family(mark):
    """Marked processes and all their descendants: tasks have their own environment."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass  # ended in the meantime
    known = set(marked(mark))
    while True:
        more = {pid for pid, parent in parents.items() if parent in known} - known
        if not more:
            return known
        known |= more


def command_name(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return os.path.basename(words[0].decode())
    except OSError:
        return ""


def peak_rss_bytes(pid):
    """VmHWM; 0 if the process has ended."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def kill_marked(mark, patience_s=10):
    """Kills all marked processes and waits until none is left. Returns how many there were."""
    ended = set()
    give_up = time.monotonic() + patience_s
    while time.monotonic() < give_up:
        left = marked(mark)
        if not left:
            break
        for pid in left:
            ended.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    return len(ended)
