"""Samples in Markdown: fenced blocks, the commands in shell blocks, and a shell that runs a page's blocks in order."""

import dataclasses
import os
import re
import shlex
import socket
import subprocess
import uuid

from e2e import processes
from e2e.tessera_e2e import BIN, ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?(.*?\n).*?^\1$", re.MULTILINE | re.DOTALL)
SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
SEPARATORS = {";", "&&", "||", "|", "&", "(", ")", ";;"}
ASSIGNMENT = re.compile(r"^\w+=")


@dataclasses.dataclass
class Block:
    """A fenced block and its position."""
    language: str
    text: str
    start: int
    end: int


def blocks(text, language=None):
    found = [Block(each[1], each[2], each.start(), each.end()) for each in FENCE.finditer(text)]
    return [block for block in found if language is None or block.language == language]


def commands(script):
    """The simple commands of a piece of shell, as lists of words; commands inside `$(...)` are returned separately."""
    script = HERE_DOCUMENT.sub(r"\2", script).replace("\\\n", " ")
    found = []
    while inner := SUBSTITUTION.search(script):
        found += commands(inner[1])
        script = script[:inner.start()] + "SUBSTITUTED" + script[inner.end():]
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command, skip = [], False
        for word in [*lexer, ";"]:
            if skip:  # the file after > or <
                skip = False
            elif set(word) <= set("<>&") and ("<" in word or ">" in word):
                skip = True
                if command and command[-1] in ("1", "2"):
                    command.pop()
            elif word in SEPARATORS:
                if command:
                    found.append(command)
                command = []
            elif command or not ASSIGNMENT.match(word):
                command.append(word)
    return found


def recorded(text):
    """(shell block, the text block directly after it with its output, or None) of a page."""
    pairs, all_blocks = [], blocks(text)
    for block, after in zip(all_blocks, [*all_blocks[1:], None]):
        if block.language == "sh":
            answers = after is not None and after.language == "text" and not text[block.end:after.start].strip()
            pairs.append((block, after if answers else None))
    return pairs


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Shell:
    """A shell in which a page's blocks run, with this build's programs and with temporary folders and ports."""

    def __init__(self, folder, server):
        """`server`: address of a running service; None: the page starts one."""
        self._folder, self._mark = folder, uuid.uuid4().hex
        self._ports = {"7400": str(free_port()), "7480": str(free_port())}
        address = server or f"127.0.0.1:{self._ports['7400']}"
        programs = folder / "programs"
        programs.mkdir(parents=True)
        (programs / "python3").symlink_to("/usr/bin/python3")
        served = programs / "tesserad"
        served.write_text(f'#!/bin/sh\nexec {BIN}/tesserad "$@" --listen {address}\n')
        served.chmod(0o755)
        self._path = f"{programs}:{BIN}"
        (folder / "home").mkdir()
        self._env = {**os.environ, "PATH": f"{self._path}:{os.environ['PATH']}", "HOME": str(folder / "home"),
                     "TESSERA_SERVER": address, "XDG_CACHE_HOME": str(folder / "cache"), processes.MARK: self._mark}

    def _here(self, text):
        text = text.replace("/tmp/", f"{self._folder}/").replace("$PWD/build/release/bin", self._path)
        for port, own in self._ports.items():
            text = text.replace(f":{port}", f":{own}")
        return text

    def _there(self, text):
        for port, own in self._ports.items():
            text = text.replace(f":{own}", f":{port}")
        return text.replace(f"{self._folder}/", "/tmp/")

    def run(self, scripts, timeout):
        """Output of each block; all run in one shell that ends at the first failing command."""
        mark = f"block-{self._mark}"
        script = "".join(f"echo {mark}\n{self._here(each)}" for each in scripts) + f"echo {mark}\n"
        path = self._folder / "output"
        try:
            with open(path, "wb") as output:
                done = subprocess.run(["/bin/bash", "-e", "-c", script], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                      cwd=ROOT, env=self._env, timeout=timeout, check=False)
        finally:
            processes.kill_marked(self._mark)
        said = [self._there(each) for each in path.read_text(errors="replace").split(f"{mark}\n")[1:]]
        if done.returncode != 0:
            raise AssertionError(f"block {len(said)} ended with {done.returncode}:\n{scripts[len(said) - 1]}\n--- it said\n{said[-1]}")
        return said[:-1]
