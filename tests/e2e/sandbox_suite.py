"""`tessera run --sandbox`: an artifact of unknown origin computes, and can do nothing else. The test replaces its code
with system calls, a crash, and an endless loop."""

import os
import pathlib
import platform
import pwd
import shutil
import signal
import struct
import subprocess
import time
import zipfile
import zlib

import numpy as np
import pytest

from checks import check, check_equal
from e2e import processes
from e2e.tessera_e2e import BIN, model_inputs, model_path, wait_until

pytestmark = pytest.mark.service(workers=1)

MODEL, DIM = "mlp", ("--dim", "N=1")
LARGE = "input A[M, K], B[K, N]: f32; C[i, j] += A[i, k] * B[k, j];"
NOP, NEVER_END, ILLEGAL = b"\x90", b"\xeb\xfe", b"\x0f\x0b"


def system_call(number):
    """x86-64: the system call, with arbitrary values in the other registers, then a crash if it returns."""
    return b"\xb8" + struct.pack("<I", number) + b"\x0f\x05" + ILLEGAL


# number of the call: its use
CALLS = {2: "open a file", 41: "make a socket", 57: "fork", 59: "execute a program", 62: "kill", 86: "link",
         101: "trace a process", 165: "mount", 272: "leave its namespaces", 321: "load a program into the kernel"}


def folder_of_runs(service):
    """Folders that a run may use for temporary files, and must leave empty."""
    folder = service.scratch("tmp")
    folder.mkdir()
    return folder


def tampered_artifact(service, artifact, code=None, change=None):
    """A copy without a signature. With `code` its kernels execute that code, which they reach through a row of
    no-operations. `change` edits the bytes of the whole library. The checksum matches the new bytes."""
    copy = service.scratch("tampered.tsra")
    data = bytearray(artifact.read_bytes())
    if code is not None or change:
        with zipfile.ZipFile(artifact) as archive:
            info, directory = archive.getinfo("code.so"), archive.start_dir
        name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
        start = info.header_offset + 30 + name + extra
        if code is not None:
            at, size = text_of(bytes(data[start:start + info.file_size]))
            data[start + at:start + at + size] = NOP * (size - len(code)) + code
        if change:
            data[start:start + info.file_size] = change(bytes(data[start:start + info.file_size]))
        crc = struct.pack("<I", zlib.crc32(data[start:start + info.file_size]))
        data[info.header_offset + 14:info.header_offset + 18] = crc
        entry = directory
        while data[entry + 46:entry + 46 + len("code.so")] != b"code.so":
            entry += 46 + sum(struct.unpack_from("<HHH", data, entry + 28))
        data[entry + 16:entry + 20] = crc
    copy.write_bytes(data)
    return copy


def dynamic_entry(elf, tag):
    """File offset of the dynamic linker's entry with this tag."""
    headers, = struct.unpack_from("<Q", elf, 32)
    width, count = struct.unpack_from("<HH", elf, 54)
    for i in range(count):
        kind, _, place, _, _, size = struct.unpack_from("<IIQQQQ", elf, headers + i * width)
        for entry in range(place, place + size, 16) if kind == 2 else ():
            if struct.unpack_from("<Q", elf, entry)[0] == tag:
                return entry
    raise AssertionError(f"no entry {tag:#x} for the dynamic linker")


def asking_for(tag, value):
    """Replaces the entry for the number of relative relocations with this one."""
    return lambda elf: (place := dynamic_entry(elf, 0x6ffffff9)) and elf[:place] + struct.pack("<QQ", tag, value) + elf[place + 16:]


def with_chosen_table(elf):
    """The symbol of the tables becomes a function that returns its address (STT_GNU_IFUNC)."""
    symbols, = struct.unpack_from("<Q", elf, dynamic_entry(elf, 6) + 8)
    place = symbols + 24 + 4
    return elf[:place] + b"\x1a" + elf[place + 1:]


def text_of(elf):
    """Offset and size of the section .text."""
    sections, = struct.unpack_from("<Q", elf, 40)
    width, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, sections + i * width) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, place, size in headers:
        if elf[strings + name:].split(b"\0", 1)[0] == b".text":
            return place, size
    raise AssertionError("code without .text")


def sandboxed(service, artifact, *words, **options):
    folder = folder_of_runs(service)
    env = {"TMPDIR": str(folder), **options.pop("env", {})}
    answer = service.cli("run", artifact, "--sandbox", "--random", *words, env=env, **options)
    check_equal(list(folder.iterdir()), [], "what is left in the folder for temporary files")
    return answer


def arrays_in(folder):
    return {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}


@pytest.fixture(scope="module")
def artifact(service):
    return service.compile(model_path(MODEL), None, *DIM).artifact


def test_it_computes_the_same(service, artifact):
    copy = tampered_artifact(service, artifact)
    check_equal(service.cli("run", copy, "--random", "--json", expect=3).failure["attribute"], "ARTIFACT",
                "what is refused without --sandbox")
    for words in (("--seed", "5"), ("--seed", "5", "--threads", "2", "--repeat", "4", "--warmup", "1", "--steps")):
        here, there = service.scratch("here"), service.scratch("there")
        service.cli("run", copy, "--untrusted", "--random", *words, "-o", here)
        told = sandboxed(service, copy, *words, "-o", there, "--json").json
        expected, got = arrays_in(here), arrays_in(there)
        check_equal(list(got), list(expected), "outputs")
        check(expected and all(np.array_equal(got[name], expected[name]) for name in got), "other values come of it")
        check_equal(told["runs"], 4 if "--repeat" in words else 1, "runs that are timed")
        check("steps" not in words or told["steps"][0]["median_ms"] > 0, f"steps: {told}")
    check("in the sandbox" in sandboxed(service, copy).out, "the sandbox is reported")
    given = service.scratch("given.npz")
    np.savez(given, **model_inputs(MODEL, 1))
    answer = sandboxed(service, copy, "-i", given, "--json")
    names = {measure["name"] for measure in answer.json["sandbox"] if measure["in_force"]}
    check({"system-calls", "privileges", "limits", "scratch"} <= names, f"measures in force: {names}")


def test_large_outputs_arrive(service):
    text = service.scratch("product.te")
    text.write_text(LARGE)
    artifact = service.scratch("product.tsra")
    service.cli("compile", text, "--target", "host", "--shape", "A=700x3", "--shape", "B=3x800", "-o", artifact)
    out, given = service.scratch("out"), service.scratch("given.npz")
    arrays = {"A": np.arange(2100, dtype=np.float32).reshape(700, 3), "B": np.ones((3, 800), np.float32)}
    np.savez(given, **arrays)
    sandboxed(service, tampered_artifact(service, artifact), "-i", given, "-o", out)
    check(np.array_equal(arrays_in(out)["C"], arrays["A"] @ arrays["B"]), "2 MB of output are not the product")
    refused = sandboxed(service, artifact, "-i", f"A={given}", "--json", expect=3)
    check(refused.failure.get("message"), f"inputs that do not fit: {refused}")


def test_code_that_asks_the_kernel_is_ended(service, artifact):
    need_x86()
    for number, what in CALLS.items():
        answer = sandboxed(service, tampered_artifact(service, artifact, system_call(number)), "--json", expect=10)
        check_equal(answer.failure["reason"], "SANDBOX_VIOLATION", f"{what}: {answer}")
    answer = sandboxed(service, tampered_artifact(service, artifact, ILLEGAL), "--json", expect=10)
    check_equal(answer.failure["reason"], "CRASHED", f"a crash: {answer}")
    check("\x1b" not in answer.out + answer.err, "control characters reach the terminal")


def test_nothing_runs_while_it_is_loaded(service, artifact):
    """Initializers, other libraries and functions that choose an address are rejected before the dynamic linker sees them."""
    text = 0x1000
    for what, change in {"an initializer": asking_for(12, text), "a row of initializers": asking_for(25, text),
                         "another library": asking_for(1, 0), "a function that chooses the tables": with_chosen_table}.items():
        answer = sandboxed(service, tampered_artifact(service, artifact, change=change), "--json", expect=3)
        check("is not as Tessera links it" in answer.failure["message"], f"{what}: {answer}")


def need_x86():
    if platform.machine() != "x86_64":
        pytest.skip("the code is x86-64's")


def test_code_without_end_is_ended(service, artifact):
    need_x86()
    endless = tampered_artifact(service, artifact, NEVER_END)
    start = time.monotonic()
    answer = sandboxed(service, endless, "--timeout", "1s", "--json", expect=6)
    check_equal(answer.failure["reason"], "RUN_DEADLINE_EXCEEDED", f"{answer}")
    check(time.monotonic() - start < 30, "the deadline came late")
    # Ctrl-C: the process and its folder are gone.
    folder = folder_of_runs(service)
    running = subprocess.Popen([BIN / "tessera", "run", endless, "--sandbox", "--random"], stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "TMPDIR": str(folder), processes.MARK: service.mark})
    wait_until(lambda: list(folder.glob("*/attempts/*/result.pb")), "the task runs")
    running.send_signal(signal.SIGINT)
    check_equal(running.wait(timeout=60), 7, f"exit code: {running.stderr.read()}")
    check_equal(list(folder.iterdir()), [], "remaining files")
    left = [pid for pid in processes.marked(service.mark) if processes.command_name(pid) == "tessera-task"
            and str(folder) in pathlib.Path(f"/proc/{pid}/environ").read_text()]
    check_equal(left, [], "processes that go on")


def test_less_than_required_runs_nothing(service, artifact):
    copy = tampered_artifact(service, artifact)
    answer = sandboxed(service, copy, "--require-sandbox", "full", "--json", expect=9)
    check("user (" in answer.failure["message"], f"what is missing: {answer}")
    check("without user" in sandboxed(service, copy).err or "; user (" in sandboxed(service, copy).err,
          "what the sandbox is without is not said")
    answer = sandboxed(service, copy, "--require-sandbox", "walls", "--json", expect=3)
    check("accepted: full, system-calls" in answer.failure["message"], f"{answer}")
    sandboxed(service, copy, "--require-sandbox", "system-calls,privileges,limits,scratch")
    if os.geteuid() != 0:
        pytest.skip("another user takes root")
    nobody = next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid == 65534)
    answer = sandboxed(service, copy, "--sandbox-user", nobody, "--json", expect=None)
    told = {measure["name"]: measure["in_force"] for measure in answer.json["sandbox"]}
    check_equal(answer.code, 0, f"{answer}")
    check(told["user"] and told["processes"], f"measures: {told}")
    expected = 0 if all(told.values()) else 9
    sandboxed(service, copy, "--sandbox-user", nobody, "--require-sandbox", "full", expect=expected)


def test_what_cannot_be_is_said(service, artifact):
    for words in (("--untrusted",), ("--guard",), ("--verify",)):
        check_equal(sandboxed(service, artifact, *words, expect=None).code, 2, f"exit code with {words}")
    check_equal(service.cli("run", artifact, "--random", "--timeout", "1s", expect=None).code, 2, "--timeout alone")
    service.cli("run", service.scratch("none.tsra"), "--sandbox", "--random", expect=5)
    sandboxed(service, text_file(service), "--json", expect=3)
    alone = service.scratch("bin")
    alone.mkdir()
    shutil.copy(BIN / "tessera", alone / "tessera")
    done = subprocess.run([alone / "tessera", "run", artifact, "--sandbox", "--random"], capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, "PATH": "/usr/bin:/bin"})
    check_equal(done.returncode, 5, "exit code without the task program")
    check("tessera-task" in done.stderr, f"what is missing: {done.stderr}")


def text_file(service):
    path = service.scratch("text.tsra")
    path.write_text("no artifact")
    return path
