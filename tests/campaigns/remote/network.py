"""Where nodes stand: each in a network namespace of its own where this machine lets us, else on its loopback alone.

A node reaches what it keeps things in by a proxy of ours, at our end of a pair of virtual interfaces, and others reach
it by the same; cut off is to take that end down, so that packets are lost. Clients reach a node from within its
namespace, whose loopback stays. Where there are no namespaces, the proxy stops passing on what that node says, which is
less: connections stay open.
"""

import contextlib
import ctypes
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000


# Where a node is reached by others. Below what connections are given, so that it stays free while a node is away.
PORTS = range(20_000, 32_000)


def free_ports(count):
    """So many, and no two the same."""
    found = []
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise SystemExit(f"FAILED: {count} ports of {PORTS} are not free")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def can_be_cut():
    """Whether there are namespaces here; else why not."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"recalld-{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "del", name)
    except OSError as error:
        return str(error)
    return None


class Loopback:
    """A place of this machine's own loopback."""

    before = ()

    def __init__(self, name, port):
        self.name, self.gate = name, "127.0.0.1"
        self.hosted = self.gate, port

    def connect(self, address, timeout):
        return socket.create_connection(address, timeout)

    def close(self):
        pass


class Namespace:
    """A place with a network of its own."""

    _library = ctypes.CDLL(None, use_errno=True)

    def __init__(self, name, number):
        self.name = name
        # Links are named in 15 letters at the most.
        self.space, self.link = f"recalld-{os.getpid()}-{number}", f"rc{os.getpid()}-{number}"
        # Of what is set apart for trying networks out (RFC 2544); a block for each process.
        block = os.getpid() % 1024 * 64 + number * 4
        self.gate, self.own = (f"198.18.{block >> 8 & 255}.{(block & 255) + one}" for one in (1, 2))
        self.hosted = self.own, PORTS[0]
        run("ip", "netns", "add", self.space)
        self.before = ("ip", "netns", "exec", self.space)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "far", "netns", self.space)
        run("ip", "address", "add", f"{self.gate}/30", "dev", self.link)
        run("ip", "link", "set", self.link, "up")
        for words in (("address", "add", f"{self.own}/30", "dev", "far"), ("link", "set", "far", "up"),
                      ("link", "set", "lo", "up"), ("route", "add", "default", "via", self.gate)):
            run(*self.before, "ip", *words)

    def cut(self, is_cut):
        run("ip", "link", "set", self.link, "down" if is_cut else "up")

    def connect(self, address, timeout):
        with self._inside():
            made = socket.socket()
        made.settimeout(timeout)
        made.connect(address)
        return made

    @contextlib.contextmanager
    def _inside(self):
        """This thread is in the namespace meanwhile; what it makes there stays there."""
        with open("/proc/thread-self/ns/net") as ours, open(f"/run/netns/{self.space}") as theirs:
            self._enter(theirs)
            try:
                yield
            finally:
                self._enter(ours)

    def _enter(self, file):
        if self._library.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    def close(self):
        with contextlib.suppress(OSError):
            run("ip", "netns", "del", self.space)


class Between:
    """The proxy, and who is cut off."""

    def __init__(self, places, stores, seed):
        """`stores` are names and addresses of what each place reaches. All places reach each node."""
        self.places, self.held = places, set()
        routes = [{"name": f"{place.name} {store}", "listen": [place.gate, 0], "to": to}
                  for place in places for store, to in stores.items()]
        routes += [{"name": f"{place.name} node", "listen": [place.gate, 0], "to": place.hosted} for place in places]
        command = [sys.executable, Path(__file__).with_name("proxy.py"), json.dumps(routes), str(seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.listens = json.loads(self.process.stdout.readline())

    def reached(self, place, store):
        """Where a store is, seen from a place: HOST:PORT."""
        host, port = self.listens[f"{place.name} {store}"]
        return f"{host}:{port}"

    def cut(self, place, is_cut):
        if isinstance(place, Namespace):
            place.cut(is_cut)
            return
        routes = {name for name in self.listens if name.split()[0] == place.name}
        self.held = self.held | routes if is_cut else self.held - routes
        self.ask({"hold": sorted(self.held)})

    def go_wrong(self, faults):
        self.ask({"faults": faults})

    def ask(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
