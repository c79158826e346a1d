"""Stores clang-tidy's results for a file until one of its dependencies changes."""

import hashlib
import os
import pathlib
import shlex
import subprocess
import time

KEEP_DAYS = 30  # for results that were not used


def user_folder():
    """The user's folder, not the build's: several checkouts share results."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tessera" / "lint"


class Dependencies:
    """The files that went into each object of a Ninja build; Ninja keeps the compiler's depfiles."""

    def __init__(self, build):
        self._build = build
        self._inputs = {}  # object -> absolute paths
        self._modified = {}  # path -> nanoseconds
        absolute = {}
        listed = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            if line.startswith(" "):
                name = line.strip()
                if name not in absolute:
                    absolute[name] = os.path.normpath(build / name)
                inputs.add(absolute[name])
            elif line:
                inputs = self._inputs[line.split(":", 1)[0]] = set()

    def of(self, command):
        """The files that this compile command reads; None if it was not built since the last change."""
        words = shlex.split(command)
        target = words[words.index("-o") + 1]
        inputs = self._inputs.get(target)
        try:
            built = (self._build / target).stat().st_mtime_ns
            return inputs if inputs and all(self._changed(path) <= built for path in inputs) else None
        except FileNotFoundError:
            return None

    def untouched(self, inputs):
        """Whether none of them was written since of() read them."""
        try:
            return all(os.stat(path).st_mtime_ns == self._modified[path] for path in inputs)
        except FileNotFoundError:
            return False

    def _changed(self, path):
        if path not in self._modified:
            self._modified[path] = os.stat(path).st_mtime_ns
        return self._modified[path]


class Cache:
    """Findings by key. A key covers the compile command and the content of all files that it reads."""

    def __init__(self, root, checker, store):
        """`checker`: bytes that identify the check, which are the tool's version and its settings."""
        self._root = os.fsencode(root)
        self._checker = self._digest(checker)
        self._inputs = {}  # path -> digest of its name and content
        self._store = store
        self._store.mkdir(parents=True, exist_ok=True)

    def _digest(self, content):
        """The path without the checkout's folder."""
        return hashlib.sha256(content.replace(self._root, b".")).digest()

    def _input(self, path):
        if path not in self._inputs:
            self._inputs[path] = self._digest(path.encode()) + self._digest(pathlib.Path(path).read_bytes())
        return self._inputs[path]

    def key(self, command, inputs):
        """The key; None if the file's dependencies are unknown, in which case its result must not be stored."""
        if inputs is None:
            return None
        parts = [self._checker, self._digest(command.encode()), *sorted(map(self._input, inputs))]
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def find(self, key):
        """The findings stored under this key, "" for none; None if nothing is stored."""
        if key is None or not (self._store / key).exists():
            return None
        os.utime(self._store / key)
        return (self._store / key).read_text(encoding="utf-8")

    def keep(self, key, findings):
        draft = self._store / f"{key}.{os.getpid()}"
        draft.write_text(findings, encoding="utf-8")
        draft.rename(self._store / key)

    def prune(self):
        oldest = time.time() - KEEP_DAYS * 86400
        for path in self._store.iterdir():
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
