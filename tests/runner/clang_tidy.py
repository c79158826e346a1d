"""Runs clang-tidy on our sources within a time, latest changes first; unchanged files keep their results."""

import concurrent.futures
import dataclasses
import json
import pathlib
import re
import subprocess
import time

import lint_cache

TIDY = "clang-tidy-22"
FILE_SECONDS = 600  # for one file, on a busy machine


@dataclasses.dataclass
class Outcome:
    """Files with findings; numbers of files linted now, known from before, and left out for lack of time."""
    findings: list[str]
    linted: int = 0
    known: int = 0
    unseen: int = 0

    def __str__(self):
        text = f"linted {self.linted} of {self.linted + self.known + self.unseen} files"
        text += f", {self.known} are as they were linted before" if self.known else ""
        return text + (f", no time for {self.unseen}" if self.unseen else "")


def _entries(build):
    """The database's entries, with one entry for each file of a unity source."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if not path.name.startswith("unity_"):
            yield entry
            continue
        for part in re.findall(r'^#include "(/.+)"$', path.read_text(), re.MULTILINE):
            yield {**entry, "file": part, "command": entry["command"].replace(entry["file"], part)}


def _commands(build, root, names):
    """The compile command of each file, and a folder with a database of these.

    A file of several targets has several commands, and clang-tidy would run each; they do not differ for clang-tidy.
    """
    listed = {entry["file"]: entry for entry in reversed(list(_entries(build)))}
    entries = {name: listed[str(root / name)] for name in names if str(root / name) in listed}
    folder = build / "lint"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(entries.values())))
    return {name: entry["command"] for name, entry in entries.items()}, folder


def _latest_first(root, inputs):
    """Names by time of their last change, then by that of any file they include. `inputs`: name -> files."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False).stdout.split()
    changed = git("diff", "--name-only", "HEAD") + git("log", "-n", "300", "--format=", "--name-only")
    position = {name: i for i, name in reversed(list(enumerate(changed)))}
    absolute = {f"{root}/{name}": i for name, i in position.items()}
    last = len(changed)

    def rank(name):
        return position.get(name, last), min((absolute.get(path, last) for path in inputs[name] or ()), default=last)
    return sorted(inputs, key=rank)


def _tidy(command, root, name):
    """Findings in the file and in our headers, and whether they depend on the file only (not on a failed run)."""
    try:
        done = subprocess.run([*command, name], cwd=root, capture_output=True, text=True, timeout=FILE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{name}: error: {TIDY} took longer than {FILE_SECONDS} s\n", False
    if "request ignored" in done.stderr:  # clang-tidy's only message about a plugin that cannot be loaded
        return f"{name}: error: {done.stderr}", False
    if done.returncode == 0:
        return "", True
    if "error:" in done.stdout:
        return done.stdout.replace(f"{root}/", ""), True
    return f"{name}: error: {TIDY} ended with code {done.returncode}\n{done.stdout}{done.stderr}", False


class _Report:
    """Writes findings to the log in full, and prints each once, however many files include its header."""

    def __init__(self, stream):
        self._stream = stream
        self._said = set()

    def add(self, output):
        self._stream.write(output)
        for line in output.splitlines():
            if "error:" in line and line not in self._said:
                self._said.add(line)
                print(line, flush=True)


def run(root, build, log, sources, jobs, until=None, plugin=None, settings=(".clang-tidy",), store=None):
    """Lints the sources. Sources that have not started at `until` (monotonic clock) are left out and counted.

    `plugin` is a shared library for clang-tidy. `settings` are files that invalidate all results if they change, the
    plugin's sources included. `store` is the folder of known results (default: the user's).
    """
    commands, database = _commands(build, root, sources)
    options = [f"--load={plugin}"] if plugin else []
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    checker = version + b"".join((root / name).read_bytes() for name in settings) + str(bool(plugin)).encode()
    cache = lint_cache.Cache(root, checker, store or lint_cache.user_folder())
    dependencies = lint_cache.Dependencies(build)
    inputs = {name: dependencies.of(command) for name, command in commands.items()}
    keys = {name: cache.key(command, inputs[name]) for name, command in commands.items()}
    known = {name: found for name, key in keys.items() if (found := cache.find(key)) is not None}
    outcome = Outcome(findings=[name for name, found in known.items() if found], known=len(known))
    todo = _latest_first(root, {name: inputs[name] for name in commands if name not in known})

    def tidy_in_time(name):
        command = [TIDY, *options, "-p", str(database), "--quiet"]
        return _tidy(command, root, name) if until is None or time.monotonic() < until else None

    with open(log, "w", encoding="utf-8") as stream, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        report = _Report(stream)
        for found in known.values():
            report.add(found)
        futures = {pool.submit(tidy_in_time, name): name for name in todo}
        for future in concurrent.futures.as_completed(futures):
            name, result = futures[future], future.result()
            if result is None:
                outcome.unseen += 1
                continue
            outcome.linted += 1
            found, lasting = result
            if lasting and keys[name] and dependencies.untouched(inputs[name]):
                cache.keep(keys[name], found)
            if found:
                outcome.findings.append(name)
                report.add(found)
    cache.prune()
    outcome.findings.sort()
    return outcome
