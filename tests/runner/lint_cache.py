"""clang-tidy on every source, skipping files whose last clean run saw the same bytes."""

import concurrent.futures
import hashlib
import json
import subprocess
import time

TIDY = "clang-tidy-22"


def _digest(*chunks):
    state = hashlib.sha256()
    for chunk in chunks:
        state.update(hashlib.sha256(chunk).digest())
    return state.hexdigest()


def _tidy(build, root, name):
    done = subprocess.run([TIDY, "-p", str(build), "--quiet", name], cwd=root, capture_output=True, text=True,
                          timeout=900)
    return done.returncode, done.stdout


def _latest_first(root, names):
    """Files in the order of their last change; what no recent commit touched comes last."""
    changed = subprocess.run(["git", "log", "-n", "300", "--format=", "--name-only"], cwd=root, capture_output=True,
                             text=True, check=False).stdout.split()
    position = {name: i for i, name in reversed(list(enumerate(changed)))}
    return sorted(names, key=lambda name: position.get(name, len(changed)))


def run(root, build, log, sources, headers, jobs, minutes=None):
    """Names of sources with findings, and how many files were not looked at because `minutes` had passed.

    `log` has the findings in full; each is printed once, however many include its header. What changed last comes first.
    A file's key covers its own bytes, its compile command and all of our headers: coarse, but never stale.
    """
    commands = {entry["file"]: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    common = _digest(version, *((root / name).read_bytes() for name in sorted(headers)))
    store = build / "lint-cache.json"
    clean = set(json.loads(store.read_text())) if store.exists() else set()
    keys = {name: _digest(common.encode(), commands[str(root / name)].encode(), (root / name).read_bytes())
            for name in sources if str(root / name) in commands}
    todo = _latest_first(root, [name for name, key in keys.items() if key not in clean])
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    findings, said, unseen = [], set(), 0

    def tidy_in_time(name):
        return _tidy(build, root, name) if time.monotonic() < end else None

    with open(log, "w", encoding="utf-8") as stream, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(tidy_in_time, name): name for name in todo}
        for future in concurrent.futures.as_completed(futures):
            name = futures[future]
            try:
                outcome = future.result()
                if outcome is None:
                    unseen += 1
                    continue
                returncode, output = outcome
            except subprocess.TimeoutExpired:
                returncode, output = 1, f"{name}: error: clang-tidy took longer than 900 s\n"
            if returncode == 0:
                clean.add(keys[name])
            else:
                findings.append(name)
                stream.write(output)
                fresh = [line for line in output.splitlines() if "error:" in line and line not in said]
                said.update(fresh)
                print("\n".join(line.removeprefix(f"{root}/") for line in fresh), flush=True)
    store.write_text(json.dumps(sorted(clean & set(keys.values()))))
    return sorted(findings), unseen
