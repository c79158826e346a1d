"""The network of a cluster: each pair of processes is connected through a TCP proxy of its own, which can be harmed.

TCP resends what a network loses. So a lost packet appears to the ends of a connection as a pause, and a partition as
silence; this is what the proxies produce.
"""

import asyncio
import contextlib
import dataclasses
import random
import socket
import struct
import threading

FORWARD, BACKWARD = 0, 1  # from the process that connects, and to it
PIECE = 16 << 10


@dataclasses.dataclass
class Harm:
    """The effect of a link on its traffic."""
    silent: tuple = ()      # directions in which nothing passes; new connections hang as well
    refuses: bool = False   # new connections are refused
    delay_s: float = 0      # of each piece, in each direction
    loss: float = 0         # share of pieces that are sent again after 0.2 s, 0.4 s, ...


class Link:
    """A proxy for the connections of `source` to `sink`, which listens on `address`."""

    def __init__(self, network, source, sink, address):
        self.network, self.source, self.sink, self.address = network, source, sink, address
        self.harm = Harm()
        self._passes = [asyncio.Event(), asyncio.Event()]
        for passes in self._passes:
            passes.set()
        self._connections = set()
        self._chance = random.Random(f"{source} {sink}")
        self.port = None

    async def open(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    def set(self, harm):
        self.harm = harm
        for direction, passes in enumerate(self._passes):
            (passes.clear if direction in harm.silent else passes.set)()

    def reset(self):
        """Ends all connections as a reset does."""
        for near, far in list(self._connections):
            abort(near)
            abort(far)

    def half_close(self, direction):
        """Ends one direction of all connections: its receiver sees the end of the stream, its sender does not."""
        for near, far in list(self._connections):
            with contextlib.suppress(OSError, RuntimeError):
                (far if direction == FORWARD else near).write_eof()

    async def _serve(self, near_reader, near):
        if self.harm.refuses:
            return abort(near)
        await self._passes[FORWARD].wait()
        try:
            far_reader, far = await asyncio.open_connection(*self.address)
        except OSError:
            return abort(near)
        ends = (near, far)
        self._connections.add(ends)
        try:
            await asyncio.gather(self._pump(near_reader, far, FORWARD), self._pump(far_reader, near, BACKWARD))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(ends)
            abort(near)
            abort(far)

    async def _pump(self, reader, writer, direction):
        while piece := await reader.read(PIECE):
            if self.harm.delay_s:
                await asyncio.sleep(self.harm.delay_s)
            pause_s = 0.2
            while self._chance.random() < self.harm.loss:
                await asyncio.sleep(pause_s)
                pause_s *= 2
            await self._passes[direction].wait()
            if writer.is_closing():
                raise ConnectionResetError
            with contextlib.suppress(RuntimeError):  # the direction was half closed: the sender does not know
                writer.write(piece)
            await writer.drain()
        await self._passes[direction].wait()
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()


def abort(writer):
    """Closes a connection with a reset."""
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Network:
    """All links, served by a thread. Methods may be called from any other thread."""

    def __init__(self):
        self.links = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, call):
        async def called():
            return call()
        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(20)

    def link(self, source, sink, port):
        """The port at which `source` reaches `sink`, a process that listens on `port` of this host."""
        made = self._run(lambda: Link(self, source, sink, ("127.0.0.1", port)))
        asyncio.run_coroutine_threadsafe(made.open(), self._loop).result(20)
        self.links.append(made)
        return made.port

    def between(self, some, others):
        """Links between two groups of processes, whichever side connects."""
        return [link for link in self.links if (link.source in some and link.sink in others) or
                (link.source in others and link.sink in some)]

    def harm(self, links, harm):
        self._run(lambda: [link.set(harm) for link in links])

    def reset(self, links):
        self._run(lambda: [link.reset() for link in links])

    def half_close(self, links, direction):
        self._run(lambda: [link.half_close(direction) for link in links])

    def heal(self, links=None):
        self.harm(self.links if links is None else links, Harm())
