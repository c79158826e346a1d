"""Proxies between a client and its service: one that handles CONNECT, and one that answers with HTTP errors itself."""

import contextlib
import socket
import threading

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_path

pytestmark = pytest.mark.service(workers=1)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, END = 4, 1, 0x5  # END_STREAM and END_HEADERS


@contextlib.contextmanager
def listening(serve):
    """"host:port" at which each connection is served on its own thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def accept():
            with contextlib.suppress(OSError):  # closed
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        yield "127.0.0.1:%d" % listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def pump(source, sink):
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


def connects(asked):
    """Serves CONNECT, and appends the requested address to `asked`."""
    def serve(client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        place = head.split()[1].decode()
        asked.append(place)
        host, port = place.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as server, client:
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            pump(server, client)
    return serve


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def answers(status):
    """Speaks HTTP/2, and answers each request with this status and nothing else, as a proxy does."""
    field = b"\x08\x03" + status.encode()  # HPACK: a literal for name 8 of the static table, :status
    def serve(client):
        with client, contextlib.suppress(OSError):
            received = b""
            client.sendall(frame(SETTINGS, 0, 0))
            while piece := client.recv(65536):
                received += piece
                if received.startswith(PREFACE):
                    received = received[len(PREFACE):]
                while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
                    size, kind = int.from_bytes(received[:3], "big"), received[3]
                    stream = int.from_bytes(received[5:9], "big")
                    if kind == SETTINGS and not received[4] & 1:
                        client.sendall(frame(SETTINGS, 1, 0))
                    if kind == HEADERS:
                        client.sendall(frame(HEADERS, END, stream, field))
                    received = received[9 + size:]
    return serve


def test_one_for_grpc_is_taken_and_others_are_not(service):
    asked = []
    with listening(connects(asked)) as proxy:
        for name, heeded in (("http_proxy", False), ("https_proxy", False), ("grpc_proxy", True)):
            asked.clear()
            service.cli("workers", env={name: f"http://{proxy}"})
            check_equal(asked, [service.address] * heeded, f"{name}: addresses requested from the proxy")
        asked.clear()
        output = service.scratch("tiny.tsra")
        service.cli("compile", model_path("tiny"), "--shape", "x=1x8", "-o", output, env={"grpc_proxy": f"http://{proxy}"})
        check(asked and output.exists(), "a compilation through the proxy")
        asked.clear()
        service.cli("workers", env={"grpc_proxy": f"http://{proxy}", "no_grpc_proxy": "127.0.0.1"})
        check_equal(asked, [], "no_grpc_proxy")


def test_what_a_proxy_answers_is_told_as_such(service):
    for status, words in (("413", "rejects requests of this size"), ("407", "its own credential"), ("404", "not from tesserad")):
        with listening(answers(status)) as proxy:
            said = service.cli("--server", proxy, "workers", expect=None)
            check(said.code not in (0, 2) and words in said.err and status in said.err, f"{status}: {said}")


def test_ipv6_goes_in_brackets(service):
    said = service.cli("--server", "::1:7400", "workers", expect=3).err
    check("[::1]:7400" in said, said)
