"""What stands between nodes and what they keep things in, and goes wrong on command: proxy.py ROUTES.

ROUTES is JSON, [{name, listen: [host, port], to: [host, port]}]; port 0 takes a free one, and the first line that is
printed has them all. Each line of standard input is one command, answered by `ok`:

    {"faults": {...}}         what may happen to each request from now on; {} for nothing
    {"hold": NAMES}           these routes pass nothing on and answer nothing; what waits then goes on when it is lifted
    {"count": true}           answered by what was done to requests so far

Faults are shares of all requests, 0 to 1, and `delay`, [least, most] seconds for each:

    refuse    503, and nothing was done
    half      reset once half of the body is sent on: of the request where it has one, else of the answer
    done      done, and 500
    lost      done, and reset without an answer
    late      reset, and done up to `late_by` seconds later
"""

import asyncio
import collections
import json
import random
import sys

HEAD_BYTES_MAX = 64 << 10
ANSWER_SECONDS_MAX = 60
CHANGING = ("PUT", "POST", "DELETE")


class Gone(Exception):
    """One side has left."""


class Proxy:
    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.faults, self.held = {}, set()
        self.lifted = asyncio.Condition()
        self.count = collections.Counter()
        self.later = set()

    async def serve(self, route, reader, writer):
        """One connection of a node, and one of its own to the store."""
        upstream = None
        try:
            while True:
                await self.unheld(route["name"])
                head, body = await message(reader)
                await self.unheld(route["name"])
                fault = self.drawn(head)
                if "delay" in self.faults:
                    await asyncio.sleep(self.dice.uniform(*self.faults["delay"]))
                if fault == "refuse":
                    writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                    continue
                if fault == "late":
                    self.do_later(route, head + body)
                    raise Gone
                if upstream is None:
                    upstream = await asyncio.open_connection(*route["to"])
                if fault == "half" and body:
                    upstream[1].write(head + body[:len(body) // 2])
                    await upstream[1].drain()
                    raise Gone
                answer = await exchange(upstream, head, body)
                # What was cut off meanwhile does not come back.
                await self.unheld(route["name"])
                if fault == "lost":
                    raise Gone
                if fault == "half":
                    writer.write(answer[:len(answer) // 2])
                    await writer.drain()
                    raise Gone
                if fault == "done":
                    answer = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
                writer.write(answer)
                await writer.drain()
        except (Gone, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError):
            pass
        finally:
            for one in (writer, upstream and upstream[1]):
                if one:
                    one.transport.abort()

    def drawn(self, head):
        """What is to happen to a request."""
        method = head.split(b" ", 1)[0].decode()
        self.count["passed"] += 1
        for name in ("refuse", "half", "done", "lost", "late"):
            if name in ("done", "lost", "late") and method not in CHANGING:
                continue
            if self.dice.random() < self.faults.get(name, 0):
                self.count[name] += 1
                return name
        return None

    def do_later(self, route, said):
        async def run():
            await asyncio.sleep(self.dice.uniform(0, self.faults.get("late_by", 5)))
            try:
                upstream = await asyncio.open_connection(*route["to"])
                await exchange(upstream, said, b"")
                upstream[1].transport.abort()
            except (Gone, OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                pass

        task = asyncio.create_task(run())
        self.later.add(task)
        task.add_done_callback(self.later.discard)

    async def unheld(self, name):
        if name in self.held:
            async with self.lifted:
                await self.lifted.wait_for(lambda: name not in self.held)

    async def command(self, line):
        said = json.loads(line)
        if "faults" in said:
            self.faults = said["faults"]
        if "hold" in said:
            async with self.lifted:
                self.held = set(said["hold"])
                self.lifted.notify_all()
        return json.dumps(self.count) if "count" in said else "ok"


async def message(reader, of="request", method=""):
    """The head and the body of a request or an answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip().lower()
    if of == "answer" and (method == "HEAD" or head.split(b" ", 2)[1][:3] in (b"204", b"304")):
        return head, b""
    if fields.get(b"transfer-encoding") == b"chunked":
        return head, await chunks(reader)
    if b"content-length" in fields:
        return head, await reader.readexactly(int(fields[b"content-length"]))
    if of == "answer":
        return head, await reader.read()
    return head, b""


async def chunks(reader):
    """A body in chunks, as it came."""
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        piece = await reader.readexactly(size + 2)
        body += line + piece
        if size == 0:
            return body


async def exchange(upstream, head, body):
    """Sends a request on; gives the answer."""
    reader, writer = upstream
    writer.write(head + body)
    await writer.drain()
    method = head.split(b" ", 1)[0].decode()
    while True:
        answered = await asyncio.wait_for(message(reader, "answer", method), ANSWER_SECONDS_MAX)
        if answered[0].split(b" ", 2)[1] != b"100":
            return b"".join(answered)


async def main():
    routes = json.loads(sys.argv[1])
    proxy = Proxy(sys.argv[2] if len(sys.argv) > 2 else None)
    for route in routes:
        def serve(reader, writer, route=route):
            return proxy.serve(route, reader, writer)

        server = await asyncio.start_server(serve, *route["listen"], limit=HEAD_BYTES_MAX)
        route["listen"] = server.sockets[0].getsockname()
    print(json.dumps({route["name"]: route["listen"] for route in routes}), flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        print(await proxy.command(line), flush=True)


asyncio.run(main())
