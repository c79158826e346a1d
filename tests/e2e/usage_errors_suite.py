"""Common mistakes: paths that cannot be written, folders instead of files, malformed numbers, flags without effect.
Each is rejected before any work, with a message that names it, and no file is changed."""

import contextlib
import fcntl
import gzip
import os
import pathlib
import pickle
import pty
import re
import resource
import signal
import sqlite3
import struct
import subprocess
import termios

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.tessera_e2e import BIN, Service, model_path, wait_until

pytestmark = pytest.mark.service(workers=1)

TINY = "tiny:seed=1"


def start(service, *words):
    """Exit code and output of a tesserad that cannot serve with these arguments."""
    folder = service.scratch("wrong")
    done = subprocess.run([BIN / "tesserad", "--data-dir", folder, *map(str, words)], capture_output=True, text=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL, start_new_session=True)
    check("Traceback" not in done.stderr and done.returncode == 2, f"tesserad {words}: {done}")
    check("ready on" not in done.stdout and "listening" not in done.stderr, f"tesserad {words} serves: {done}")
    check(not (folder / "tessera.db").exists(), f"tesserad {words} made a database")
    return done.stderr


# tesserad.

def test_addresses_are_checked(service):
    for flag in ("--listen", "--worker-listen", "--web-listen", "--metrics-listen"):
        for address in ("nonsense", "127.0.0.1:99999", "127.0.0.1:", "127.0.0.1:http"):
            said = start(service, "--workers", "0", "--listen", "127.0.0.1:0", flag, address)
            check(flag in said and address in said and "host:port" in said, f"{flag} {address}: {said}")


def test_certificates_are_read_at_the_start(service):
    keys, other, garbage = service.scratch("keys"), service.scratch("other"), service.scratch("garbage.pem")
    garbage.write_text("no PEM at all\n")
    for folder in (keys, other):
        written = service.cli("admin", "certificates", folder, "--host", "localhost", "--caller", "reader:bob", "--json").json["files"]
        check_equal(written, [f"{folder}/{name}{end}" for name in ("ca", "server", "reader-bob") for end in (".pem", ".key")], "written")
    good = {"--tls-cert": keys / "server.pem", "--tls-key": keys / "server.key", "--tls-client-ca": keys / "ca.pem"}
    secret = service.scratch("secret.key")
    subprocess.run(["openssl", "pkey", "-in", keys / "server.key", "-aes256", "-passout", "pass:x", "-out", secret],
                   check=True, capture_output=True)
    for flag, file in (("--tls-cert", garbage), ("--tls-cert", keys / "server.key"), ("--tls-key", garbage),
                       ("--tls-key", other / "server.key"), ("--tls-key", secret), ("--tls-client-ca", garbage)):
        words = [word for pair in {**good, flag: file}.items() for word in pair]
        said = start(service, "--workers", "0", "--listen", "127.0.0.1:0", *words)
        check(f"{flag}: " in said and "PEM" in said, f"{flag} {file.name}: {said}")


def test_a_folder_with_others_things(service):
    """Passing /tmp as the data folder neither changes its permissions nor deletes its files."""
    folder = service.scratch("others")
    (folder / "attempts").mkdir(parents=True)
    (folder / "attempts" / "letter").write_text("dear")
    folder.chmod(0o755)
    worker = [BIN / "tessera-worker", "--server", service.address, "--scratch", folder]
    for command, code in (([BIN / "tesserad", "--data-dir", folder, "--workers", "0"], 1), (worker, 4),
                          ([BIN / "tesserad", "--data-dir", service.data, "--backup-to", folder], 1),
                          ([BIN / "tessera", "compile", model_path(TINY), "--local", "--data-dir", folder], 3)):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
        said = done.stdout + done.stderr
        check(done.returncode == code and f"{folder} contains other files (attempts)" in said, f"{command}: {done}")
    service.cli("admin", "certificates", folder, "--host", "localhost")  # which have private permissions
    check_equal(folder.stat().st_mode & 0o777, 0o755, "rights of the folder")
    check_equal([(folder / "attempts" / "letter").read_text(), sorted(path.name for path in folder.iterdir())],
                ["dear", ["attempts", "ca.key", "ca.pem", "server.key", "server.pem"]], "what lies there")


def test_data_that_is_not_its_own(service):
    """A service manager restarts a tesserad that failed (1), and not one that needs a person (4)."""

    def ends_with(code, *words):
        done = subprocess.run([BIN / "tesserad", "--data-dir", folder, "--listen", "127.0.0.1:0", "--workers", "0"],
                              capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
        check_equal(done.returncode, code, f"exit code: {done}")
        check(all(word in done.stderr for word in words), f"{words}: {done.stderr}")

    with Service(workers=0) as other:
        folder = other.data
        ends_with(1, "in use by process")
        other.stop()
        folder = other.data.rename(service.scratch("data"))
    with contextlib.closing(sqlite3.connect(folder / "tessera.db")) as database:
        database.execute("INSERT INTO schema_version VALUES (999, '0999_future', 0)")
        database.commit()
    ends_with(4, "tessera.db", "newer release", "run that release, or restore a backup")
    said = service.cli("compile", model_path(TINY), "--local", "--data-dir", folder, expect=3).err
    check("newer release" in said and "run this again" not in said, f"--local: {said}")
    (folder / "tessera.db").write_bytes(b"x" * 5000)
    for beside in ("-wal", "-shm"):
        (folder / f"tessera.db{beside}").unlink(missing_ok=True)
    ends_with(4, "tessera.db", "not a database")


def test_a_worker_that_is_no_program(service):
    text = service.scratch("text")
    text.write_text("#!/bin/sh\n")
    for binary in (text, service.folder, service.scratch("absent")):
        said = start(service, "--listen", "127.0.0.1:0", "--worker-binary", binary)
        check("--worker-binary" in said and str(binary) in said, said)


def test_a_worker_at_the_clients_address(service):
    """The most common mistake with two ports. The reason that keeps a worker out is reported again when it changes."""
    log = service.scratch("worker.log")
    with open(log, "wb") as out:
        worker = subprocess.Popen([BIN / "tessera-worker", "--server", service.address, "--scratch", service.scratch("w")],
                                  stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: "--worker-listen" in log.read_text(), "the worker says what is wrong")
    finally:
        worker.kill()
        worker.wait()


# Commands of operators.

def test_no_backup_over_a_data_folder(service):
    """The database would be replaced under the running service, which would keep writing to the deleted one."""
    with Service(workers=0) as other:
        for place in (service.data, service.data / "backup", other.data):
            said = service.operator("admin", "backup", place, expect=1).err
            check(str(place) in said and "name" in said, said)
    check("(deleted)" not in open_files(service.process.pid), "the service writes to a file that has no name")
    check(not (service.data / "backup").exists(), "a backup within the data folder")
    backup = service.scratch("backup")
    check_equal(set(service.operator("admin", "backup", backup, "--json").json), {"blobs", "bytes"}, "what a backup says")
    check_equal(set(service.cli("admin", "restore", backup, service.scratch("restored"), "--json").json),
                {"blobs", "bytes"}, "what a restoration says")


# Commands.

def test_what_is_no_command(service):
    for words, wrong in ((["compil", "x.onnx"], "compil"), (["--json", "job s"], "job s"), (["admin", "tokens"], "tokens"),
                         (["admin", "token", "make"], "make"), (["target", "list"], "list")):
        said = service.cli(*words, expect=2).err
        check(f"no command '{wrong}'" in said and "commands: " in said, f"{words}: {said}")
    said = service.cli("compile", "x.onnx", "--tarrget", "host", "--ouput=x", expect=2).err
    check("'--tarrget'; do you mean --target?" in said and "'--ouput'; do you mean --output?" in said, said)
    check("do you mean compile?" in service.cli("compil", "x.onnx", expect=2).err, "the nearest command")
    check("no flag '--dance'" in service.cli("--dance", expect=2).err, "a flag is no command")
    check("compile" in service.cli("dance", expect=2).err, "it does not say which there are")
    check("no command 'compil'" in service.cli("help", "compil", expect=2).err, "help for an unknown command")
    for words in (["help"], ["help", "compile"], ["help", "admin", "token", "create"]):
        check_equal(service.cli(*words).out, service.cli(*words[1:], "--help").out, f"tessera {' '.join(words)}")


def test_a_full_disk_behind_standard_output(service):
    """An incomplete list that looks complete is worse than none."""
    for words in (["ops"], ["workers", "--json"], ["targets", "--show", "host"], ["--help"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BIN / "tessera", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                  check=False, env={**os.environ, "TESSERA_SERVER": service.address})
        check_equal(done.returncode, 1, f"exit code of tessera {words} to a full disk: {done.stderr}")
        check("cannot write standard output" in done.stderr, done.stderr)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([BIN / "tessera", "ops"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
                          env={**os.environ, "TESSERA_SERVER": service.address})
    os.close(writer)
    check_equal(done.stderr, "", "what is said where a pipe was closed, as by `| head`")


def test_a_full_disk_behind_results(service):
    """A limit on file sizes simulates a full disk. Partial downloads of an artifact stay, and the next attempt continues."""
    artifact = service.compile(model_path(TINY), {"x": [1, 8]}).job["compile_result"]["artifact_id"]
    output, keys = service.scratch("out.tsra"), service.scratch("keys")

    def bounded(*words):
        def bound():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        return subprocess.run([BIN / "tessera", *map(str, words)], preexec_fn=bound, capture_output=True, text=True, check=False,
                              env={**os.environ, "TESSERA_SERVER": service.address}, timeout=60).stderr

    said = bounded("fetch", artifact, "-o", output)
    check(re.search(rf"cannot write {output}.part beyond \d+ of \d+ bytes, which stay there.*File too large", said), f"fetch: {said}")
    service.cli("fetch", artifact, "-o", output)
    check(output.exists() and not pathlib.Path(f"{output}.part").exists(), "the next try")
    said = bounded("admin", "certificates", keys, "--host", "localhost")
    check(f"cannot write {keys}/ca" in said and "File too large" in said, f"certificates: {said}")


def test_a_queued_job_says_what_it_waits_for(service):
    with Service(workers=0) as idle:
        job = idle.cli("compile", model_path(TINY), "--target", "x86-64-v3", "--shape", "x=1x8", "--detach").out.strip()
        watching = idle.spawn("watch", job)
        line = next((line for line in watching.stderr if "waits for" in line), "")
        check("waits for a worker: none is connected; start tessera-worker" in line, f"watch: {line}")
        idle.cli("cancel", job)
        watching.communicate(timeout=60)


def test_a_narrow_terminal(service):
    """A progress line is never wider than the terminal, because each redraw would otherwise leave a line behind."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    command = [BIN / "tessera", "compile", model_path("mlp"), "--shape", "x=1x784", "-o", service.scratch("mlp.tsra")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
                          env={**os.environ, "TESSERA_SERVER": service.address, "TERM": "xterm"}) as client:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # the other side is closed
            while piece := os.read(ours, 4096):
                said += piece
    os.close(ours)
    check_equal(client.returncode, 0, f"exit code: {said}")
    rows = [re.sub(r"\x1b\[K", "", row) for row in re.split(r"[\r\n]+", said.decode())]
    check(len(rows) > 3 and max(map(len, rows)) <= 29, f"rows: {rows}")


def test_numbers_that_are_none(service):
    for words in (["jobs", "--limit", "-1"], ["jobs", "--limit", "many"], ["verify", "m", "a", "--reference", "r.npz",
                  "--tolerance", "nan"], ["verify", "m", "a", "--reference", "r.npz", "--tolerance", "inf"],
                  ["mappings", "--target", "sm_80", "--op", "C2D", "--explain=-1"], ["run", "a", "--warmup", "-1"]):
        said = service.cli(*words, expect=2).err
        check("found '" in said and "accepted: a number" in said and len(said) < 200, f"{words}: {said}")
    model = model_path(TINY)
    for words in (["compile", model, "--timeout", "0s"], ["tune", model, "--budget", "0s"], ["compile", model, "--tune", "0s"],
                  ["admin", "token", "create", "--name", "ada", "--lifetime", "0s"], ["compile", model, "--timeout", "inf"]):
        said = service.cli(*words, "--operator-of", service.data, expect=3).err
        check(words[-1] in said, f"a time that is none: {said}")
    check_equal(service.operator("admin", "token", "list", "--json").json["tokens"], [], "tokens that never expire")
    for words in (["--mode", "now"], ["--method", "luck"]):
        said = service.cli("tune", model, *words, expect=2).err
        check(words[1] in said and "{" in said, said)
    for shape in ("x=1x8x", "x=x8", "x=1xx8"):
        service.cli("compile", model, "--shape", shape, expect=3)
    artifact = service.compile(model, {"x": [1, 8]}).job["compile_result"]["artifact_id"]
    service.cli("profile", artifact, "--repeat", "100001", expect=2)


def test_flags_that_mean_nothing_there(service):
    artifact = service.compile(model_path(TINY), {"x": [1, 8]}).artifact
    service.cli("explain", artifact, "--nodes")
    for words in (["--target", "haswell"], ["--shape", "x=2x8"], ["--key"], ["--dim", "N=1"]):
        said = service.cli("explain", artifact, *words, expect=2).err
        check(words[0] in said and ".tsra" in said, said)
    service.cli("targets", "--runnable", "--filter", 'name = "x"', expect=2)
    service.cli("targets", "--show", "host", "--limit", "1", expect=2)


def test_who_calls_and_whom(service):
    """A wrong file or word gives neither a crash nor "no server answers"."""
    folder, text, copy = service.scratch("folder"), service.scratch("text"), service.scratch("copy.tsra")
    folder.mkdir()
    text.write_text("import onnx\nimport numpy\n")
    for words, named in ((["--token-file", text], text), (["--token-file", folder], folder), (["--tls-ca", text], text),
                         (["--tls-ca", folder], folder), (["--tls-cert", text, "--tls-key", text], text),
                         (["--project", "größe"], "größe"), (["--server", "localhost"], "'localhost'"),
                         (["--server", "http://localhost:7400"], "host:port"), (["--server", ""], "host:port")):
        said = service.cli(*words, "jobs", expect=3).err
        check(str(named) in said and said.count("\n") < 8, f"{words}: {said}")
    said = service.cli("jobs", env={"TESSERA_TOKEN": "to\nken"}, expect=3).err
    check("TESSERA_TOKEN" in said, said)
    copy.write_bytes(service.compile(model_path(TINY), {"x": [1, 8]}).artifact.read_bytes())
    pathlib.Path(f"{copy}.sig").mkdir()
    check("is no signature" in service.cli("run", copy, "--random", expect=3).err, "a folder for a signature")


# Files.

def test_who_listens_there(service):
    """A reachable server that cannot be talked to is not reported as absent: TLS or none, wrong certificate, wrong name."""
    keys, other, data = service.scratch("keys"), service.scratch("other"), service.scratch("data")
    for folder in (keys, other):
        service.cli("admin", "certificates", folder, "--host", "localhost")
    log = service.scratch("log")
    with open(log, "wb") as out:
        process = subprocess.Popen([BIN / "tesserad", "--data-dir", data, "--workers", "0", "--listen", "127.0.0.1:0", "--listen",
                                    "127.0.0.2:0", "--tls-cert", keys / "server.pem", "--tls-key", keys / "server.key"],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        wait_until(lambda: "ready on" in log.read_text(), "tesserad with TLS is ready")
        first, second = re.findall(r"listening on (127\.0\.0\.[12]:\d+) ", log.read_text())
        authority = ["--tls-ca", keys / "ca.pem"]
        service.cli("jobs", *authority, env={"TESSERA_SERVER": first.replace("127.0.0.1", "localhost")})
        for address, words, expected in (
                (first, [], "hangs up"), (first, ["--tls-ca", other / "ca.pem"], "--tls-ca"), (second, authority, "for this name"),
                (service.address, authority, "does not use TLS"), ("no-such-host.invalid:7400", [], "cannot resolve the host name"),
                ("localhost:1", [], "no server answers at localhost:1")):
            answer = service.cli("jobs", *words, env={"TESSERA_SERVER": address}, expect=8)
            check(expected in answer.err and address in answer.err, f"{address} {words}: {answer.err}")
            check_equal(answer.err.count("\n"), 1, f"lines of {answer.err}")
    finally:
        process.terminate()
        process.wait()


def test_places_for_results(service):
    """Outputs are checked before the work, and folders, devices and pipes are never replaced."""
    model, artifact = model_path(TINY), service.compile(model_path(TINY), {"x": [1, 8]}).artifact
    identity = service.compile(model_path(TINY), {"x": [1, 8]}).job["compile_result"]["artifact_id"]
    pipe, device, file = service.scratch("pipe"), service.scratch("device"), service.scratch("file")
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    file.write_text("")
    before = len(service.cli("jobs", "--json", "--limit", "0").json["jobs"])
    for place, code in ((service.folder, 3), (pipe, 3), (device, 3), (file / "x.tsra", 3),
                        (service.folder / "absent" / "x.tsra", 5)):
        for words in (["compile", model, "--shape", "x=1x8", "--no-cache"], ["fetch", identity]):
            said = service.cli(*words, "-o", place, expect=code).err
            check(f"cannot write {place}" in said, said)
    for words in (["tune", model, "--shape", "x=1x8", "-o"], ["explain", model, "--shape", "x=1x8", "--svg"]):
        service.cli(*words, service.folder, expect=3)
        service.cli(*words, service.folder / "absent" / "x", expect=5)
    check_equal(len(service.cli("jobs", "--json", "--limit", "0").json["jobs"]), before, "jobs whose result has no place")
    check(pipe.is_fifo() and device.is_symlink() and file.is_file(), "a pipe, device or file was replaced")
    check_equal([path.name for path in service.folder.parent.glob(service.folder.name + "*.part")], [], "files left over")
    service.cli("run", artifact, "--random", "-o", file, expect=3)


def test_links_are_written_through(service):
    """As in other tools, the link stays, and its target is complete or unchanged."""
    folder, link = service.folder / "behind", service.folder / "link.tsra"
    folder.mkdir()
    for there in (False, True):  # a dangling link, then a link to a file
        link.symlink_to(pathlib.Path("behind") / "real.tsra")
        if there:
            (folder / "real.tsra").write_text("former")
        service.cli("compile", model_path(TINY), "--target", "host", "--shape", "x=1x8", "-o", link)
        check(link.is_symlink(), "the link was replaced")
        service.cli("run", link, "--random")
        check_equal(sorted(each.name for each in folder.iterdir()), ["real.tsra"], "files in the link's folder")
        link.unlink()
        (folder / "real.tsra").unlink()
    loop = service.folder / "loop.tsra"
    loop.symlink_to(loop)
    said = service.cli("compile", model_path(TINY), "--target", "host", "--shape", "x=1x8", "-o", loop, expect=3).err
    check("symbolic links" in said, said)
    check(loop.is_symlink(), "a link to itself was replaced")


def test_outputs_of_a_run_are_listed(service):
    artifact, folder = service.compile(model_path(TINY), {"x": [1, 8]}).artifact, service.scratch("outputs")
    for words in ([], ["--sandbox"]):
        listed = [service.cli("run", artifact, "--random", "--json", *words, *more).json["outputs"] for more in ([], ["-o", folder])]
        y = {"name": "y", "dtype": "float32", "shape": [1, 8]}
        check_equal(listed, [[y], [{**y, "file": f"{folder}/y.npy"}]], f"outputs with {words}")
        check_equal(np.load(listed[1][0]["file"]).shape, (1, 8), "what lies there")


def test_files_that_are_no_models(service):
    """Other model formats are recognized by name, and the error says how to convert them to ONNX."""
    model = model_path(TINY).read_bytes()
    for name, content, words in (
            ("packed.onnx", gzip.compress(model), ("a gzip archive", "unpack it")),
            ("model.pt", b"PK\x03\x04" + bytes(100), ("PyTorch", "torch.onnx.export")),
            ("old.pt", pickle.dumps({"a": 1}, protocol=2), ("a Python pickle", "torch.onnx.export")),
            ("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), ("HDF5", "tf2onnx")),
            ("model.safetensors", (20).to_bytes(8, "little") + b'{"a":1}' + bytes(20), ("safetensors", "export the model")),
            ("lfs.onnx", b"version https://git-lfs.github.com/spec/v1\n", ("Git LFS", "git lfs pull")),
            ("page.onnx", b"<!DOCTYPE html><html></html>", ("a web page", "open it"))):
        path = service.scratch(name)
        path.write_bytes(content)
        said = service.cli("compile", path, "--shape", "x=1x8", expect=3).err
        check(all(word in said for word in words), f"{name}: {said}")
    said = service.cli("compile", "-", "--shape", "x=1x8", expect=3).err
    check("standard input" in said and "save it" in said, said)
    said = service.cli("compile", model_path(TINY), "--shape", "x=1x8", "-o", "-", expect=3).err
    check("standard output" in said and "name one" in said, said)


def test_a_pipe_for_a_model(service):
    with open(model_path(TINY), "rb") as model:
        done = subprocess.run(f"cat | {BIN}/tessera compile /dev/stdin --shape x=1x8", shell=True, stdin=model, text=True,
                              capture_output=True, timeout=60, check=False, cwd=service.folder,
                              env={**os.environ, "TESSERA_SERVER": service.address})
    check(done.returncode == 3 and "pipe" in done.stderr, str(done))
    service.cli("compile", model_path(TINY), "--local", "--workers", "-1", expect=2)


def test_no_home_for_keys(service):
    artifact = service.compile(model_path(TINY), {"x": [1, 8]}).artifact
    said = service.cli("run", artifact, "--random", env={"HOME": "", "XDG_CONFIG_HOME": "", "TESSERA_TRUST": ""}, expect=3).err
    check("TESSERA_TRUST" in said and "no file does not" not in said, said)


def test_folders_for_files(service):
    artifact, folder = service.compile(model_path(TINY), {"x": [1, 8]}).artifact, service.scratch("folder")
    folder.mkdir()
    named = service.scratch("x.npz")
    named.mkdir()
    for words in (["compile", folder, "--shape", "x=1x8"], ["compile", model_path(TINY), "--shape", "x=1x8", "--pin", folder],
                  ["compile", model_path(TINY), "--shape", "x=1x8", "--target", folder], ["inspect", folder],
                  ["run", folder], ["run", artifact, "-i", named], ["target", "check", folder], ["check", folder]):
        said = service.cli(*words, expect=3).err
        check("older" in said or "directory" in said, f"{words}: {said}")
        check(folder.name in said or named.name in said, f"{words}: {said}")


def test_what_is_no_artifact(service):
    text = service.scratch("text.tsra")
    text.write_text("not an archive\n")
    for words in (["run", model_path(TINY)], ["run", text], ["compare", text, text]):
        said = service.cli(*words, expect=3).err
        check("not an artifact" in said and "tessera compile" in said, f"{words}: {said}")


def test_descriptions_are_files_by_any_name(service):
    description = service.scratch("npu.txt")
    description.write_text(service.cli("targets", "--show", "gemv-engine").out.replace("gemv-engine", "npu"))
    shown = subprocess.run([BIN / "tessera", "target", "show", description.name], cwd=service.folder, text=True,
                           capture_output=True, timeout=60, check=False)
    check(shown.returncode == 0 and 'name: "npu"' in shown.stdout, str(shown))
    said = service.cli("target", "check", service.folder / "absent.textproto", expect=5).err
    check("No such file" in said, said)
    # The error about a broken model says what to start from.
    for name in ("x86-64-v3", "sm_80", "ascend-910-like", "aarch64"):
        description.write_text(service.cli("target", "show", name).out)
        said = service.cli("target", "check", description, expect=None)
        check_equal(said.code, 0, f"`target show {name}` > FILE: {said}")


def test_output_names_need_be_no_file_names(service):
    """Names as long as TensorFlow's scopes, and names that map to one file name: the output says which file holds which tensor."""
    scope = "StatefulPartitionedCall/" + "/".join(["encoder_block_with_a_long_name"] * 9)
    names = [f"{scope}/output:0", f"{scope}/output:1", "a/b", "a_b"]
    made = helper.make_model(helper.make_graph(
        [helper.make_node("Mul", ["x", f"c{i}"], [name]) for i, name in enumerate(names)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names],
        [helper.make_tensor(f"c{i}", TensorProto.FLOAT, [], [i + 1]) for i in range(len(names))]),
        opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model, given, x = service.scratch("long.onnx"), service.scratch("x.npy"), np.arange(4, dtype=np.float32)
    model.write_bytes(made.SerializeToString())
    np.save(given, x)
    compiled = service.compile(model)
    remote = ["execute", compiled.job["compile_result"]["artifact_id"]]
    for words in (["run", compiled.artifact], ["run", compiled.artifact, "--sandbox"], remote):
        out = service.scratch("out")
        printed = service.cli(*words, "--input", f"x={given}", "--output-dir", out, "--json").json
        files = printed["files"] if words is remote else [each["file"] for each in printed["outputs"]]
        for i, file in enumerate(files):
            np.testing.assert_array_equal(np.load(service.folder / file), x * (i + 1), err_msg=f"{words[0]}: {names[i]}")
        check_equal(len(set(files)), len(names), f"{words[0]}: files")
        people = service.cli(*words, "--input", f"x={given}", "--output-dir", out).out
        for name, file in zip(names, files):
            check(f"  {name}: float32[4] in {file}\n" in people, f"{words[0]}: where {name} is: {people}")


def test_a_shape_within_a_range(service):
    """--shape and --dim both give the size of the run; --shape does not merely select a variant."""
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    model = service.scratch("range.onnx")
    onnx.save(helper.make_model(helper.make_graph(
        nodes, "range", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    artifact = service.compile(model, {}, "--dim", "N=1..8").artifact
    for words in (["--dim", "N=3"], ["--shape", "x=3x3"]):
        folder = service.scratch("out")
        answer = service.cli("run", artifact, "--random", *words, "-o", folder)
        check("N=3 ran in the variant for N<=4" in answer.out, answer.out)
        check_equal(np.load(folder / "y.npy").shape, (3, 3), f"shape with {words}")


def open_files(pid):
    return " ".join(os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink())
