"""The two servers that are compared, how each is started and asked, and how much memory it has."""
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import graphs
from client import AnswerError, Connection, request
from corpus import Corpus, Programs
from listening import Server, free_port

HERE = Path(__file__).resolve().parent
START_SECONDS = 60.0
REVISION = "2025-11-25"
GATEWAY = ("x-gateway-client-id", "x-gateway-client-secret")
# Questions worked on at once, and threads for each.
PEERS = {"2x1": (2, 1), "1x2": (1, 2)}


class Asked(Server):
    """A server with the HTTP API."""

    def __init__(self, name: str, command: Sequence[str], port: int, keys: Sequence[str], log: Path,
                 **options) -> None:
        self.started = time.perf_counter()
        with log.open("ab") as file:
            super().__init__(name, list(map(str, command)), port, stdout=file, stderr=file, **options)
        self.fields = {GATEWAY[0]: keys[0], GATEWAY[1]: keys[1], "Authorization": f"Bearer {keys[2]}"}

    def health(self) -> bytes:
        return request(self.port, "GET", "/health", {})

    def semantic(self, question: str, limit: int = 5) -> bytes:
        return self._post("/semantic-recall", {"query": question, "limit": limit})

    def recall(self, question: str) -> bytes:
        return self._post("/recall", {"query": question})

    def recall_with_graph(self, question: str) -> bytes:
        return self._post("/recall", {"query": question, "graph": True})

    def _post(self, path: str, body: dict) -> bytes:
        return request(self.port, "POST", path, self.fields, json.dumps(body).encode())

    def answers(self, messages: Iterator[bytes]) -> list:
        """The JSON of each answer."""
        connection = Connection(self.port)
        try:
            return [json.loads(connection.exchange(message)) for message in messages]
        finally:
            connection.close()

    def first_answer(self, question: str) -> float:
        """Milliseconds from the start of the process to the first semantic answer."""
        end = time.perf_counter() + START_SECONDS
        while time.perf_counter() < end and self.process.poll() is None:
            try:
                connection = Connection(self.port)
                connection.exchange(self.semantic(question))
                return (time.perf_counter() - self.started) * 1e3
            except OSError:
                time.sleep(0.001)
        raise AnswerError(f"{self.name} gave no answer within {START_SECONDS:.0f} s of its start")

    def anonymous_mebibytes(self) -> float:
        """Resident memory that no file stands behind, of all its processes."""
        kibibytes = 0
        for one in self.processes():
            status = Path(f"/proc/{one}/status").read_text().splitlines()
            kibibytes += sum(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
        return kibibytes / 1024


class Ours(Asked):
    """recalld as released."""

    def __init__(self, before: Sequence[str], programs: Programs, corpus: Corpus, log: Path,
                 more: Sequence[str] = ()) -> None:
        port = free_port()
        command = [*before, programs.server, "serve", "--local", f"127.0.0.1:{port}", "--data", corpus.data]
        super().__init__("ours", [*command, *more], port, credentials(programs, corpus.data), log)
        self.session: dict[str, str] = {}

    def begin_session(self) -> None:
        """MCP by handshake."""
        params = {"protocolVersion": REVISION, "capabilities": {},
                  "clientInfo": {"name": "benches", "version": "0"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        accept = {"accept": "application/json, text/event-stream"}
        _, fields, _ = self.ask("POST", "/mcp", body, accept)
        self.session = accept | {"mcp-protocol-version": REVISION}
        if "mcp-session-id" in fields:
            self.session |= {"mcp-session-id": fields["mcp-session-id"]}
        done = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.ask("POST", "/mcp", done, self.session)

    def arbitrate(self, question: str) -> bytes:
        arguments = {"query": question, "compact": True}
        params = {"name": "retrieval_arbitrate_tool", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return request(self.port, "POST", "/mcp", self.session, json.dumps(body).encode())

    def stats(self) -> dict:
        return json.loads(self.ask("GET", "/stats", None, self.fields)[2])


class Peer(Asked):
    """The Python service, on one process with a pool."""

    def __init__(self, before: Sequence[str], variant: str, graph: str, corpus: Corpus, folder: Path,
                 model: Path) -> None:
        workers, threads = PEERS[variant]
        port, keys = free_port(), [secrets.token_hex(32) for _ in range(3)]
        environment = dict(os.environ) | {
            "PEER_DATA": str(corpus.peer), "PEER_GRAPH": str(graphs.path_of(folder, graph, "int8")),
            "PEER_TOKENIZER": str(model / "tokenizer.json"), "PEER_WORKERS": str(workers),
            "PEER_THREADS": str(threads), "PEER_KEYS": ",".join(keys), "OMP_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "false",
        }
        command = [*before, sys.executable, "-m", "uvicorn", "app:app", "--host", "127.0.0.1", "--port", port,
                   "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
        super().__init__(f"Python {variant}", command, port, keys, folder / "servers.log", env=environment,
                         cwd=HERE / "peer")


def credentials(programs: Programs, data: Path) -> list[str]:
    shown = subprocess.run([programs.server, "credentials", "show", "--json", "--data", data],
                           capture_output=True, text=True, check=True)
    found = json.loads(shown.stdout)
    return [found[name] for name in ("gateway_client_id", "gateway_client_secret", "bearer")]


def knows(programs: Programs, option: str) -> bool:
    """Whether `serve` has this option."""
    helped = subprocess.run([programs.server, "serve", "--help"], capture_output=True, text=True)
    return option in helped.stdout


