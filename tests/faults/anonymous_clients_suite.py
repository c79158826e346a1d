"""Attacks of unauthenticated clients: forged work, operator calls, memory, files, control characters (attacks.md)."""

import concurrent.futures
import hashlib
import os
import socket
import stat
import subprocess
import time
import grpc

import pytest

from checks import check, check_equal
from e2e import processes
from e2e.tessera_e2e import BIN, ROOT, Service, model_path, wait_until

pytestmark = pytest.mark.service(workers=1)

FORBIDDEN = 11
TINY = ("--target", "host", "--shape", "x=1x8")


@pytest.fixture(scope="module")
def service_type():
    return Service


def call(channel, method, request=b"", timeout=30):
    """A unary call with raw bytes as messages: (code, message)."""
    stub = channel.unary_unary(f"/tessera.v1.{method}")
    try:
        stub(request, timeout=timeout)
        return grpc.StatusCode.OK, ""
    except grpc.RpcError as error:
        return error.code(), error.details()


def text_field(number, text):
    """A field of a protobuf message, of bytes or text."""
    data = text if isinstance(text, bytes) else text.encode()
    length, size = len(data), b""
    while length > 0x7f:
        size += bytes([length & 0x7f | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + data


def test_listening_as_a_worker(service):
    """Registers at a client listener as one of the server's own workers would."""
    request = text_field(1, "local-0") + text_field(3, "any compiler")
    with grpc.insecure_channel(service.address) as channel:
        check_equal(call(channel, "WorkerService/RegisterWorker", request)[0], grpc.StatusCode.UNIMPLEMENTED,
                    "registering where clients come in")
    private = (service.data / "operator.addr").read_text().strip()
    with grpc.insecure_channel(private) as channel:
        for method in ("RegisterWorker", "LeaseTask", "Heartbeat", "ReportTask"):
            check_equal(call(channel, f"WorkerService/{method}", request)[0], grpc.StatusCode.UNAUTHENTICATED,
                        f"{method} where the server's own workers come in")
    check_equal({w["state"] for w in service.cli("workers", "--json").json["workers"]}, {"IDLE"}, "states of the workers")


def test_orders(service):
    answer = service.cli("workers", "--drain", "local-0", expect=FORBIDDEN)
    check("--operator-of" in answer.err, f"the refusal does not say how: {answer}")
    for words in (("token", "list"), ("token", "create", "--name", "me", "--role", "operator")):
        service.cli("admin", *words, expect=FORBIDDEN)
    answer = service.cli("compile", model_path("tiny:seed=5"), *TINY, "--priority", "1000", "--json", expect=3)
    check_equal(answer.failure["attribute"], "priority", "the field that is refused")


def test_words_to_a_terminal(service):
    """Names with control characters are rejected. Elsewhere such characters are escaped on terminals and in the log."""
    answer = service.cli("compile", model_path("tiny:seed=6"), *TINY, "--name", "\x1b[2Jcalm", expect=3)
    check("\x1b" not in answer.err, f"control characters reached the terminal: {answer.err!r}")
    target = service.scratch("loud.textproto")
    known = (ROOT / "compiler" / "target" / "builtin" / "x86-64-v3.textproto").read_text()
    target.write_text(known.replace('name: "x86-64-v3"', 'name: "loud"', 1)
                      .replace('summary: "', 'summary: "\\033]0;owned\\007\\n', 1))
    service.cli("targets", "register", target, expect=None)
    shown = service.cli("targets").out
    check("\x1b" not in shown and "\x07" not in shown, "a target's summary reaches the terminal")
    check("\x1b" not in service.log, "control characters in the log")


def test_long_echoes(service):
    """An error that repeats a long input arrives with its type."""
    answer = service.cli("jobs", "--filter", "name = " + "x" * 3000 + " AND AND", "--json", expect=3)
    check(answer.failure.get("message"), f"no typed failure: {answer}")


def test_tokens(service):
    """A token is created, shown once, stored as a hash, listed and revoked while the service runs."""
    made = service.operator("admin", "token", "create", "--name", "ada", "--role", "client", "--json").json
    token = {"TESSERA_TOKEN": made["secret"]}
    job = service.cli("compile", model_path("tiny:seed=8"), *TINY, "--json", env=token).json["job"]
    check_equal(job["client"], "ada", "whose job it is")
    held = [path for path in service.data.rglob("*")
            if path.is_file() and made["secret"].encode() in path.read_bytes()]
    check_equal(held, [], "files that hold the token")
    service.cli("cancel", job["id"], expect=FORBIDDEN)  # an anonymous client, and the job of an authenticated one
    listed = service.operator("admin", "token", "list", "--json").json["tokens"]
    check(any(entry["name"] == "ada" for entry in listed), f"tokens: {listed}")
    check("secret" not in str(listed) and made["secret"] not in str(listed), "a list with secrets")
    service.operator("admin", "token", "revoke", made["token"]["id"])
    service.cli("jobs", env=token, expect=FORBIDDEN)
    service.cli("jobs")


def test_files_are_their_owners(service):
    service.cli("compile", model_path("tiny:seed=7"), *TINY)
    open_to_others = [path for path in service.data.rglob("*") if path.lstat().st_mode & 0o077]
    check_equal(stat.S_IMODE(service.data.stat().st_mode), 0o700, "mode of the data folder")
    check_equal(open_to_others, [], "files of the data folder that others may read")


def test_exposed_services_want_tls(service):
    for words in (("--listen", "0.0.0.0:0"), ("--worker-listen", "0.0.0.0:0")):
        folder = service.scratch("exposed")
        done = subprocess.run([BIN / "tesserad", "--data-dir", folder, "--workers", "0", *words], capture_output=True,
                              text=True, timeout=60, check=False)
        check_equal(done.returncode, 2, f"exit code of tesserad {words}")
        for way_out in ("--tls-cert", "admin certificates", "--insecure-let-anyone-in"):
            check(way_out in done.stderr, f"{words}: it does not speak of {way_out}: {done.stderr}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_over_tls(service):
    """A certificate authority, a server that requires credentials, clients with a token and with a certificate, and a
    worker with a token on the workers' listener."""
    keys = service.scratch("keys")
    service.cli("admin", "certificates", keys, "--host", "build.example.com", "--caller", "client:bob",
                "--caller", "reader:eve")
    check_equal([path.name for path in keys.iterdir() if path.stat().st_mode & 0o077], [], "keys that others may read")
    port = free_port()
    flags = ["--tls-cert", keys / "server.pem", "--tls-key", keys / "server.key", "--tls-client-ca", keys / "ca.pem",
             "--require-tokens", "--worker-listen", f"127.0.0.1:{port}"]
    ours = {"TESSERA_TLS_CA": str(keys / "ca.pem")}
    with Guarded(flags, ours) as guarded:
        check_equal(guarded.cli("jobs", expect=None).code, FORBIDDEN, "a stranger over TLS")
        check(guarded.cli("jobs", env={"TESSERA_TLS_CA": ""}, expect=None).code != 0, "plain text to a TLS port")
        token = guarded.operator("admin", "token", "create", "--name", "build-1", "--role", "worker", "--json").json
        path = guarded.scratch("worker.token")
        path.write_text(token["secret"] + "\n")
        worker = subprocess.Popen(
            [BIN / "tessera-worker", "--server", f"localhost:{port}", "--token-file", path, "--tls-ca", keys / "ca.pem",
             "--id", "build-1", "--scratch", guarded.scratch("scratch"), "--log-level", "warn"],
            stderr=open(guarded.scratch("worker.log"), "wb"), env={**os.environ, processes.MARK: guarded.mark})
        try:
            bob = {"TESSERA_TLS_CERT": str(keys / "client-bob.pem"), "TESSERA_TLS_KEY": str(keys / "client-bob.key")}
            eve = {"TESSERA_TLS_CERT": str(keys / "reader-eve.pem"), "TESSERA_TLS_KEY": str(keys / "reader-eve.key")}
            wait_until(lambda: any(w["id"] == "build-1" for w in
                                   guarded.cli("workers", "--json", env=bob).json["workers"]), "the worker is there")
            job = guarded.cli("compile", model_path("tiny:seed=9"), *TINY, "--json", env=bob).json["job"]
            check_equal((job["state"], job["client"]), ("SUCCEEDED", "bob"), "the job of who shows a certificate")
            guarded.cli("compile", model_path("tiny:seed=9"), *TINY, env=eve, expect=FORBIDDEN)
            check_equal(guarded.cli("job", job["id"], "--json", env=eve).json["state"], "SUCCEEDED", "what a reader sees")
            guarded.kill()
            time.sleep(1)
            guarded.start()  # the worker reconnects between calls that fail immediately
            guarded.cli("compile", model_path("tiny:seed=10"), *TINY, env=bob, timeout=20)
        finally:
            worker.terminate()
            worker.wait()


def test_memory_of_unread_downloads(service):
    """600 downloads of 8 MiB that are not read: each holds one chunk, not the blob."""
    data = os.urandom(8 << 20)
    digest = hashlib.sha256(data).hexdigest()
    path = service.scratch("noise.onnx")
    path.write_bytes(data)
    service.cli("compile", path, expect=None)  # not a model, but now it exists
    before = processes.peak_rss_bytes(service.process.pid)
    channels = [grpc.insecure_channel(service.address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(20)]
    request = text_field(1, digest)
    calls = [channels[i % 20].unary_stream("/tessera.v1.BlobService/DownloadBlob")(request, timeout=60) for i in range(600)]
    first = next(iter(calls[0]))
    check(len(first) > 1000, "nothing comes of a download")
    time.sleep(5)
    grown = processes.peak_rss_bytes(service.process.pid) - before
    for each in calls:
        each.cancel()
    for channel in channels:
        channel.close()
    check(grown < 500 << 20, f"the server grew by {grown >> 20} MiB")
    service.cli("jobs")
    print(f"   600 unread downloads of 8 MiB: {grown >> 20} MiB more at most")


def test_memory_of_waiting_calls(service):
    """200 concurrent requests of 8 MiB: some are rejected, and the server's memory stays small."""
    tensor = text_field(2, bytes(8 << 20))
    request = text_field(3, text_field(1, "0" * 64) + text_field(2, tensor))
    before = processes.peak_rss_bytes(service.process.pid)
    channels = [grpc.insecure_channel(service.address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        calls = [pool.submit(call, channels[i % 20], "JobService/CreateJob", request, 120) for i in range(200)]
        codes = {future.result()[0] for future in calls}
    for channel in channels:
        channel.close()
    check(grpc.StatusCode.OK not in codes, f"an inline tensor of 8 MiB was taken: {codes}")
    grown = processes.peak_rss_bytes(service.process.pid) - before
    check(grown < 700 << 20, f"the server grew by {grown >> 20} MiB")
    print(f"   200 calls of 8 MiB: {sorted(code.name for code in codes)}, {grown >> 20} MiB more at most")


class Guarded(Service):
    """A service that authenticates its clients, without local workers."""

    def __init__(self, flags, env):
        super().__init__(workers=0, arguments=flags, env=env)

    def cli(self, *arguments, expect=0, **options):
        # start() uses this to see whether the service answers; a rejection is an answer.
        answer = super().cli(*arguments, expect=None, **options)
        if expect is None and arguments[:1] == ("workers",) and answer.code == FORBIDDEN:
            answer.code = 0
        check(expect is None or answer.code == expect, f"{answer}\nexpected exit code {expect}")
        return answer
