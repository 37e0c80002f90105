"""The servers that are compared: how each is started, and that all answer alike."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from listening import Server, free_port

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}, separators=(",", ":"))
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
# Fields of an answer beyond the three that all have.
MORE_FIELDS = {"ours": {"x-request-id"}, "nginx": {"server", "connection"}}

NGINX = """
daemon off;
worker_processes {threads};
{user}
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    server_tokens off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} reuseport backlog=4096;
        default_type application/json;
        location = /health {{ return 200 '{health}'; }}
        location = /mcp {{ return 200 '{pong}'; }}
    }}
}}
"""


def start_all(options, scheduled, threads):
    """Ours first: the peers' health is the text that ours gave."""
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=options.folder))
    servers = []
    try:
        local = free_port()
        command = [options.ours, "serve", "--local", f"127.0.0.1:{local}", "--data", str(folder / "data")]
        ours = Server("ours", scheduled + command, local, stdout=subprocess.DEVNULL)
        servers.append(ours)
        health = ours.wait()[2].decode()
        for name, program in (("axum", options.axum), ("actix-web", options.actix)):
            port = free_port()
            servers.append(Server(name, scheduled + [program, str(port), health], port))
        port, config = free_port(), folder / "nginx.conf"
        # Its workers would leave root's folders otherwise.
        user = "user root;" if os.geteuid() == 0 else ""
        pong = json.dumps(PONG, sort_keys=True, separators=(",", ":"))
        values = dict(threads=threads, folder=folder, port=port, health=health, pong=pong, user=user)
        config.write_text(NGINX.format(**values))
        servers.append(Server("nginx", scheduled + [options.nginx, "-c", str(config)], port))
        for one in servers:
            one.wait()
            check(one, json.loads(health))
    except BaseException:
        stop_all(servers, folder)
        raise
    return servers, folder


def stop_all(servers, folder):
    for one in servers:
        one.stop()
    shutil.rmtree(folder, ignore_errors=True)


def check(server, health):
    """All answer the same, or the figures compare nothing."""
    for method, path, body, wanted in (("GET", "/health", None, health), ("POST", "/mcp", PING, PONG)):
        status, fields, said = server.ask(method, path, body)
        said = json.loads(said) if status == 200 else said
        if isinstance(said, dict):
            said = {**said, **({"uptime_s": health["uptime_s"]} if "uptime_s" in said else {})}
        names = {"date", "content-type", "content-length"} | MORE_FIELDS.get(server.name, set())
        if said != wanted or set(fields) != names or fields["content-type"] != "application/json":
            raise SystemExit(f"{server.name} answers {method} {path} otherwise: {status} {fields} {said}")
