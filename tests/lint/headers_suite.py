"""Headers compile alone, without the precompiled ones that hide a missing include. Checks those that changed last, and
random ones that each commit selects, whose failures are only reported."""

import concurrent.futures
import json
import os
import pathlib
import random
import shlex
import subprocess

import pytest

from checks import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TESSERA_BUILD_DIR", ROOT / "build" / "release"))
CHANGED, DRAWN = 8, 8  # headers of a run: one that includes MLIR takes three seconds


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def flags_by_folder():
    """For each folder the flags of the source that has most of them, without source, output and precompiled header. A
    unity source counts for the folders of all its files."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        words = [word for word in shlex.split(entry["command"])[1:] if word != "-Winvalid-pch"]
        kept = []
        while words:
            word = words.pop(0)
            if word == "-Xclang":
                words.pop(0)
            elif word in ("-o", "-c", "-MF", "-MT"):
                words.pop(0)
            else:
                kept.append(word)
        source = pathlib.Path(entry["file"])
        parts = [source]
        if source.name.startswith("unity_"):
            parts = [pathlib.Path(line.split('"')[1]) for line in source.read_text().splitlines() if line.startswith('#include "/')]
        for part in parts:
            folder = part.relative_to(ROOT).parent if part.is_relative_to(ROOT) else None
            if folder and len(kept) > len(found.get(folder, ())):
                found[folder] = kept
    return found


def chosen(known):
    """Headers of compiled folders: those that changed in the last commits, latest first, and random ones."""
    there = [name for name in git("ls-files", "*.h") if nearest(known, name)]
    latest = git("diff", "--name-only", "HEAD", "--", "*.h") + git("log", "-n", "20", "--format=", "--name-only", "--", "*.h")
    changed = [name for name in dict.fromkeys(latest) if name in set(there)][:CHANGED]
    others = sorted(set(there) - set(changed))
    return changed, random.Random(git("rev-parse", "HEAD")[0]).sample(others, min(DRAWN, len(others)))


def nearest(known, name):
    """Flags of the header's folder, or of the closest one above it."""
    return next((known[folder] for folder in pathlib.PurePath(name).parents if folder in known), None)


KNOWN = flags_by_folder()
CHANGED_LAST, DRAWN_NOW = chosen(KNOWN)
HEADERS = CHANGED_LAST + DRAWN_NOW


def compiled(flags, text):
    """The compiler's messages for these lines; empty if there are none."""
    done = subprocess.run(["clang++-22", *flags, "-Wno-unused", "-fsyntax-only", "-x", "c++", "-"], input=text, cwd=BUILD,
                          capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def messages():
    """name -> the compiler's messages for each chosen header."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(HEADERS, pool.map(lambda name: compiled(nearest(KNOWN, name), f'#include "{name}"\n'), HEADERS)))


@pytest.mark.parametrize("name", HEADERS)
def test_stands_alone(messages, name):
    if messages[name]:
        (pytest.fail if name in CHANGED_LAST else pytest.xfail)(f"{name} does not compile by itself:\n{messages[name][:2000]}")


def test_a_missing_include_is_found(messages):
    """The check works: none of these flags loads a precompiled header."""
    name = next(name for name in HEADERS if messages[name] == "")
    check("vector" in compiled(nearest(KNOWN, name), "std::vector<int> lines;\n"), "a type was known without its include")
