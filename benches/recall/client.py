"""A load generator: some connections that are kept open, each with one request under way. One thread, no
parser: an answer is its status, its length and its bytes. GET /health shows what it costs by itself."""
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

TIMEOUT_SECONDS = 120.0
RECEIVE_BYTES = 1 << 18
HEAD_END, LENGTH = b"\r\n\r\n", b"content-length:"


class AnswerError(Exception):
    """An answer other than 200, or none; says which."""


def request(port: int, method: str, path: str, fields: dict[str, str], body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    if body:
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body))} | fields
    head += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join(head).encode() + HEAD_END + body


@dataclass
class Turn:
    """What one turn of one server was like."""

    milliseconds: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.milliseconds) / self.seconds

    def quantile(self, share: float) -> float:
        """The value that this share of all are not above (nearest rank)."""
        ordered = sorted(self.milliseconds)
        return ordered[max(0, min(len(ordered), -int(-share * len(ordered) // 1)) - 1)]


class Connection:
    """One connection; knows how far its answer has come."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = 0.0
        self.pieces = b""
        self.whole = 0  # bytes of the answer; 0 while its head is not there

    def ask(self, message: bytes) -> None:
        self.pieces, self.whole = b"", 0
        self.began = time.perf_counter()
        self.socket.sendall(message)

    def receive(self) -> bool:
        """Takes what is there; whether the answer is whole."""
        piece = self.socket.recv(RECEIVE_BYTES)
        if not piece:
            raise AnswerError(f"the connection ended after {self.pieces[:200]!r}")
        self.pieces += piece
        if not self.whole:
            end = self.pieces.find(HEAD_END)
            if end < 0:
                return False
            head = self.pieces[:end].lower()
            at = head.find(LENGTH)
            if not head.startswith(b"http/1.1 200 ") or at < 0:
                raise AnswerError(f"{self.pieces[:500]!r}")
            self.whole = end + len(HEAD_END) + int(head[at + len(LENGTH):].split(b"\r\n", 1)[0])
        return len(self.pieces) >= self.whole

    def answer(self) -> bytes:
        """The body of an answer that is whole."""
        return self.pieces.split(HEAD_END, 1)[1]

    def exchange(self, message: bytes) -> bytes:
        self.ask(message)
        while not self.receive():
            pass
        return self.answer()

    def close(self) -> None:
        self.socket.close()


def drive(port: int, messages: Iterator[bytes], connections: int, seconds: float) -> Turn:
    """Asks for so many seconds, or until there is nothing more to ask."""
    turn = Turn()
    opened = [Connection(port) for _ in range(connections)]
    start = time.perf_counter()
    try:
        if connections == 1:
            _one(opened[0], messages, start + seconds, turn)
        else:
            _several(opened, messages, start + seconds, turn)
    finally:
        for connection in opened:
            connection.close()
    turn.seconds = time.perf_counter() - start
    return turn


def _one(connection: Connection, messages: Iterator[bytes], end: float, turn: Turn) -> None:
    for message in messages:
        connection.ask(message)
        while not connection.receive():
            pass
        now = time.perf_counter()
        turn.milliseconds.append((now - connection.began) * 1e3)
        if now > end:
            break


def _several(opened: list[Connection], messages: Iterator[bytes], end: float, turn: Turn) -> None:
    waiting = 0
    with selectors.DefaultSelector() as selector:
        for connection in opened:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            if message := next(messages, None):
                connection.ask(message)
                waiting += 1
        while waiting:
            ready = selector.select(TIMEOUT_SECONDS)
            if not ready:
                raise AnswerError(f"no answer within {TIMEOUT_SECONDS:.0f} seconds")
            for key, _ in ready:
                connection = key.data
                if not connection.receive():
                    continue
                now = time.perf_counter()
                turn.milliseconds.append((now - connection.began) * 1e3)
                waiting -= 1
                message = next(messages, None) if now < end else None
                if message:
                    connection.ask(message)
                    waiting += 1
