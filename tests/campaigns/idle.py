"""Memory of idle connections, for idle.sh: PROGRAM CONNECTIONS."""

import concurrent.futures
import os
import ssl
import subprocess
import sys
import tempfile

import serving

LIMIT = 4096
# Threads that open connections: their answers overlap.
TOGETHER = 64


def measure(pid, local, address, count, context):
    health = serving.request(address, "GET", "/health")

    def opened():
        plain = serving.connect(address)
        connection = context.wrap_socket(plain, server_hostname="localhost") if context else plain
        serving.answered(connection, health)
        return connection

    # What the first ones make the server allocate for good is not theirs.
    warm = [opened() for _ in range(64)]
    before = serving.resident(pid)
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        half = count // 2
        held = list(pool.map(lambda _: opened(), range(half)))
        between = serving.resident(pid)
        held += pool.map(lambda _: opened(), range(count - half))
    after = serving.resident(pid)
    # All of them are still there: the machine was fast enough for the server's idle timeout.
    open_now = int(serving.numbers(local)["recalld_connections"])
    if open_now < count:
        sys.exit(f"only {open_now} of {count} connections were open when it was measured: try fewer")
    for connection in warm + held:
        connection.close()
    # What the start gave back serves the first ones, so the second half tells what one more costs.
    return (after - before) / count, (after - between) / (count - half)


def main():
    program, count = sys.argv[1], int(sys.argv[2])
    count = min(count, serving.many_descriptors() - 256)
    with tempfile.TemporaryDirectory(prefix="recalld-idle-") as folder:
        key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost"],
            check=True, capture_output=True)
        os.chmod(key, 0o600)
        command = [program, "serve", "--json", "--local", "127.0.0.1:0", "--hosted", "127.0.0.1:0",
                   "--tls-cert", certificate, "--tls-key", key, "--data", f"{folder}/data",
                   "--peer-connections", "16384"]
        contexts = {
            "plain": None,
            "TLS 1.3": ssl.create_default_context(cafile=certificate),
            "TLS 1.2": ssl.create_default_context(cafile=certificate),
        }
        contexts["TLS 1.2"].maximum_version = ssl.TLSVersion.TLSv1_2
        # A server for each, so that none finds memory that another one gave back.
        for name, context in contexts.items():
            with serving.serve(command) as (server, ready):
                url = ready["hosted"] if context else ready["local"]
                overall, each = measure(server.pid, ready["local"], url.split("//")[1], count, context)
                print(f"{name}: {count} idle connections, {overall:.0f} bytes each,"
                      f" {each:.0f} bytes each of the second half", flush=True)
            if each >= LIMIT:
                sys.exit(f"FAILED: {name}: {each:.0f} bytes")


main()
