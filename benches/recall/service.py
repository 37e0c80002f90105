"""The whole way over HTTP: ours and the peer's variants, in turns, and what they take of memory."""
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from client import Turn, drive
from quiet import Gate
from questions import Questions
from report import Report, shown, table
from scheduling import first_in_line
from servers import Asked, Ours

WARM_UP, ACCOUNTS = 20, 50
CLIENTS = 8


@dataclass(frozen=True)
class Case:
    """One kind of request, from so many clients."""

    name: str
    kind: str  # the list of questions, or "" for none
    of: Callable[[Asked], Callable[[str], bytes]]
    clients: int = 1
    peers: bool = True  # whether the peers have it

    def message(self, server: Asked) -> Callable[[str], bytes]:
        return self.of(server)


HEALTH = Case("GET /health", "", lambda server: lambda _: server.health())
SEMANTIC = Case("POST /semantic-recall, 12 to 16 tokens", "runs", lambda server: server.semantic)
CROWD = Case(f"{SEMANTIC.name}, {CLIENTS} clients", "runs", lambda server: server.semantic, CLIENTS)
RECALL = Case("POST /recall, 3 words", "words", lambda server: server.recall)
GRAPH = Case("POST /recall, 3 words, with graph", "words", lambda server: server.recall_with_graph)
GOVERNED = Case("retrieval_arbitrate_tool over MCP", "runs", lambda server: server.arbitrate, peers=False)
ALL = (HEALTH, SEMANTIC, CROWD, RECALL, GRAPH, GOVERNED)


@dataclass
class Turns:
    """Every turn of every server at every case, and the servers' anonymous memory."""

    of: dict[tuple[str, str], list[Turn]] = field(default_factory=dict)
    memory: dict[tuple[str, str], float] = field(default_factory=dict)
    accounts: dict[str, float] = field(default_factory=dict)  # what our server says took so many ms

    def servers(self) -> list[str]:
        return list(dict.fromkeys(server for _, server in self.of))

    def median(self, case: Case, server: str, figure: Callable[[Turn], float]) -> float | None:
        found = self.of.get((case.name, server))
        return statistics.median(map(figure, found)) if found else None

    def best_peer(self, case: Case, figure: Callable[[Turn], float], least: bool) -> str | None:
        found = {server: value for server in self.servers() if server != "ours"
                 and (value := self.median(case, server, figure)) is not None}
        choose = min if least else max
        return choose(found, key=found.__getitem__, default=None)

    def ratio(self, case: Case, peer: str | None, figure: Callable[[Turn], float]) -> float | None:
        """Ours to a peer's: the median of the rounds' ratios."""
        own, its = self.of.get((case.name, "ours")), self.of.get((case.name, peer or ""))
        if not own or not its:
            return None
        return statistics.median(figure(a) / figure(b) for a, b in zip(own, its))


def p50(turn: Turn) -> float:
    return turn.quantile(0.5)


def p99(turn: Turn) -> float:
    return turn.quantile(0.99)


def rate(turn: Turn) -> float:
    return turn.rate


class Supply:
    """Questions of each kind; every server gets the same ones in the same order, each once."""

    def __init__(self, questions: Questions) -> None:
        self.questions = {"runs": questions.runs, "words": questions.words}
        self.next = {"runs": 0, "words": 0}

    def take(self, kind: str, count: int) -> list[str]:
        if not kind:
            return [""] * count
        first = self.next[kind]
        self.next[kind] += count
        some = self.questions[kind][first:first + count]
        if len(some) < count:
            raise SystemExit(f"run: out of questions after {first}; fewer --rounds or --seconds need fewer")
        return some

    def give_back(self, kind: str, count: int) -> None:
        if kind:
            self.next[kind] -= count


def warm_up(servers: list[Asked], supply: Supply, turns: Turns) -> None:
    """Some answers of each route from each server; then how much memory it has."""
    for case in ALL:
        some = supply.take(case.kind, WARM_UP)
        for server in servers:
            if case.peers or isinstance(server, Ours):
                answers = server.answers(map(case.message(server), some))
                check(case, server, answers)
    for server in servers:
        turns.memory[server.name, "after a warm-up of each route"] = server.anonymous_mebibytes()


def check(case: Case, server: Asked, answers: list) -> None:
    """That what is measured is an answer: so many items, each with its text."""
    found = {
        SEMANTIC.name: lambda answer: answer["results"], CROWD.name: lambda answer: answer["results"],
        RECALL.name: lambda answer: answer, GRAPH.name: lambda answer: answer,
        GOVERNED.name: lambda answer: answer["result"]["structuredContent"]["items"],
    }.get(case.name)
    if not found:
        return
    items = [item for answer in answers for item in found(answer)]
    fields = {"id", "text", "score", "content_sha256"} | ({"neighbors"} if case is GRAPH else set())
    if len(items) < len(answers) or not all(fields <= item.keys() for item in items):
        raise SystemExit(f"run: {server.name} answers {case.name} with {json.dumps(answers[0])[:600]}")


def measure(servers: list[Asked], questions: Questions, rounds: int, seconds: float, gate: Gate,
            real_time: bool) -> Turns:
    """`rounds` rounds; in each, every server has its turn at every case, and another begins."""
    turns, supply = Turns(), Supply(questions)
    warm_up(servers, supply, turns)
    for number in range(rounds):
        print(f"service: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        order = servers[number % len(servers):] + servers[:number % len(servers)]
        for case in ALL:
            # The fastest bound of what one turn may ask; what nobody asked is there for the next.
            most = int(seconds * 8_000) if not case.kind else int(seconds * 2_500)
            some = supply.take(case.kind, most)
            asked = 0
            for server in order:
                if not case.peers and not isinstance(server, Ours):
                    continue
                gate.wait()
                with first_in_line(real_time):
                    turn = drive(server.port, map(case.message(server), some), case.clients, seconds)
                asked = max(asked, len(turn.milliseconds) + case.clients)
                turns.of.setdefault((case.name, server.name), []).append(turn)
            supply.give_back(case.kind, max(0, most - asked))
    for server in servers:
        turns.memory[server.name, "after load"] = server.anonymous_mebibytes()
        if isinstance(server, Ours):
            turns.accounts = accounts(server, supply)
    return turns


def accounts(server: Ours, supply: Supply) -> dict[str, float]:
    """What took how long by the server's own account: semantic recall, the governed path and its lanes."""
    took: dict[str, list[float]] = {}
    for answer in server.answers(map(server.semantic, supply.take("runs", ACCOUNTS))):
        took.setdefault("semantic", []).append(answer["took_ms"])
    for answer in server.answers(map(server.arbitrate, supply.take("runs", ACCOUNTS))):
        routing = answer["result"]["structuredContent"]["routing"]
        took.setdefault("governed", []).append(routing["took_ms"])
        for lane in routing["lanes"]:
            took.setdefault(f"{lane['lane']} lane", []).append(lane["took_ms"])
    return {what: statistics.median(values) for what, values in took.items()}


def first_answers(start: Callable[[], Asked], questions: list[str], real_time: bool) -> list[float]:
    """Milliseconds from the start of a process to its first semantic answer; the first one, which may find
    files that are not in memory, does not count."""
    took = []
    for question in questions:
        server = start()
        try:
            with first_in_line(real_time):
                took.append(server.first_answer(question))
        finally:
            server.stop()
    return took[1:]


def tell(report: Report, turns: Turns, first: dict[str, list[float]]) -> None:
    servers = turns.servers()
    rows = []
    for case in ALL:
        for what, figure, unit in (("p50", p50, "ms"), ("p99", p99, "ms"), ("requests/s", rate, "1/s")):
            values = {server: turns.median(case, server, figure) for server in servers}
            row = [f"{case.name}: {what}"]
            for server, value in values.items():
                ratio = "" if server == "ours" else turns.ratio(case, server, figure)
                row.append("" if value is None else shown(value) + (f" ({ratio:.2f})" if ratio else ""))
                if value is not None:
                    runs = len(turns.of[case.name, server])
                    report.add("recall", f"{case.name}: {what}", server, f"{value:.4g}", unit, runs)
            rows.append(row)
    for server, took in first.items():
        report.add("recall", "first semantic answer", server, f"{statistics.median(took):.4g}", "ms", len(took))
    found = {server: shown(statistics.median(took)) for server, took in first.items()}
    if found:
        rows.append(["first semantic answer after the start, ms"] + [found.get(server, "") for server in servers])
    for when in dict.fromkeys(when for _, when in turns.memory):
        rows.append([f"anonymous memory {when}, MiB"] + [shown(turns.memory[server, when]) for server in servers])
        for server in servers:
            value = turns.memory[server, when]
            report.add("recall", f"anonymous memory {when}", server, f"{value:.4g}", "MiB", 1)
    report.say("### The service over HTTP\n")
    report.say(table(["in brackets: ours to it", *servers], rows))
    said = ", ".join(f"{what} {shown(took)}" for what, took in turns.accounts.items())
    report.say(f"By our server's own account, milliseconds: {said}.\n")
