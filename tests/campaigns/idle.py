"""Memory of idle connections, for idle.sh: PROGRAM CONNECTIONS."""

import concurrent.futures
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.request

LIMIT = 4096
# Threads that open connections: their answers overlap.
TOGETHER = 64
REQUEST = b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n"


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def whole(said):
    head, _, _ = said.partition(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
    return len(head) + 4 + int(length.split()[1])


def answered(connection, host):
    connection.sendall(REQUEST % host)
    said = b""
    while b"\r\n\r\n" not in said or len(said) < whole(said):
        piece = connection.recv(65536)
        if not piece:
            sys.exit(f"the server closed after {said!r}")
        said += piece


def measure(pid, local, address, count, context):
    host, port = address.rsplit(":", 1)
    name = address.encode()

    def opened():
        plain = socket.create_connection((host, int(port)))
        connection = context.wrap_socket(plain, server_hostname="localhost") if context else plain
        answered(connection, name)
        return connection

    # What the first ones make the server allocate for good is not theirs.
    warm = [opened() for _ in range(64)]
    before = resident(pid)
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        half = count // 2
        held = list(pool.map(lambda _: opened(), range(half)))
        between = resident(pid)
        held += pool.map(lambda _: opened(), range(count - half))
    after = resident(pid)
    # All of them are still there: the machine was fast enough for the server's idle timeout.
    with urllib.request.urlopen(f"{local}/metrics") as page:
        lines = page.read().decode().splitlines()
    open_now = int(next(line for line in lines if line.startswith("recalld_connections ")).split()[1])
    if open_now < count:
        sys.exit(f"only {open_now} of {count} connections were open when it was measured: try fewer")
    for connection in warm + held:
        connection.close()
    # What the start gave back serves the first ones, so the second half tells what one more costs.
    return (after - before) / count, (after - between) / (count - half)


def main():
    program, count = sys.argv[1], int(sys.argv[2])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(count, hard - 256)
    with tempfile.TemporaryDirectory(prefix="recalld-idle-") as folder:
        key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost"],
            check=True, capture_output=True)
        os.chmod(key, 0o600)
        command = [program, "serve", "--json", "--local", "127.0.0.1:0", "--hosted", "127.0.0.1:0",
                   "--tls-cert", certificate, "--tls-key", key, "--data", f"{folder}/data"]
        contexts = {
            "plain": None,
            "TLS 1.3": ssl.create_default_context(cafile=certificate),
            "TLS 1.2": ssl.create_default_context(cafile=certificate),
        }
        contexts["TLS 1.2"].maximum_version = ssl.TLSVersion.TLSv1_2
        # A server for each, so that none finds memory that another one gave back.
        for name, context in contexts.items():
            server = subprocess.Popen(command, stdout=subprocess.PIPE)
            try:
                ready = json.loads(server.stdout.readline())
                url = ready["hosted"] if context else ready["local"]
                overall, each = measure(server.pid, ready["local"], url.split("//")[1], count, context)
                print(f"{name}: {count} idle connections, {overall:.0f} bytes each,"
                      f" {each:.0f} bytes each of the second half", flush=True)
            finally:
                server.send_signal(signal.SIGTERM)
                code = server.wait(60)
            if code != 0 or (context is None and each >= LIMIT):
                sys.exit(f"FAILED: exit code {code}, {name}: {each:.0f} bytes")


main()
