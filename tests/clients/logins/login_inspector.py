"""The Inspector's command line signs in: login_inspector.py FOLDER URL WORKSPACE ONCE AGAIN BEARER.

FOLDER is that of its node_modules, ONCE and AGAIN are one-time access keys. It asks with no configuration but the
address and prints where to go; a person without script goes there. Then it asks with what it kept, ends that at the
authorization server, and signs in anew. Prints one line of JSON (README.md).
"""

import json
import os
import subprocess
import sys

from walk import walk, asked

SECONDS_MAX = 60
PROMPT = "Please navigate to: "


def main():
    folder, url, workspace, once, again, bearer = sys.argv[1:]
    environment = os.environ | {"MCP_AUTO_OPEN_ENABLED": "true", "MCP_INSPECTOR_SECRET_STORE": "file"}

    def command(*more):
        return [f"{folder}/.bin/node", f"{folder}/.bin/mcp-inspector", "--cli", f"{url}/mcp", "--transport", "http",
                "--format", "json", "--callback-url", "http://127.0.0.1:0/oauth/callback", *more]

    def run(*more):
        done = subprocess.run(command(*more), capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                              env=environment)
        if done.returncode != 0:
            sys.exit(f"{more} ended with {done.returncode}: {done.stdout} {done.stderr}")
        return json.loads(done.stdout)["result"]

    def signed_in(key, *more):
        with subprocess.Popen(command(*more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment) as process:
            said = []
            for line in process.stderr:
                said.append(line)
                if PROMPT in line:
                    location = walk(line.split(PROMPT)[1].strip(), workspace, key)
                    asked("GET", location)
            answered = process.stdout.read()
            if process.wait(SECONDS_MAX) != 0:
                sys.exit(f"{more} ended with {process.returncode}: {''.join(said)}")
        return json.loads(answered)["result"]

    def told(listed, word, *how):
        text = f"The {word} sails at dawn."
        wrote = run("--method", "tools/call", "--tool-name", "brain_remember", "--tool-arg", f"text={text}", *how)
        found = run("--method", "tools/call", "--tool-name", "retrieval_arbitrate_tool",
                    "--tool-arg", f"query=when does the {word} sail?", *how)
        return {"tools": sorted(tool["name"] for tool in listed["tools"]), "wrote": not wrote.get("isError"),
                "found": found["content"][0]["text"]}

    tools = ("--method", "tools/list")
    header = ("--header", f"Authorization: Bearer {bearer}")
    print(json.dumps({
        "browser": told(signed_in(once, *tools), "cog", "--stored-auth-only"),
        "signed_in_anew": told(signed_in(again, "--relogin", *tools), "hulk", "--stored-auth-only"),
        "bearer": told(run(*tools, *header), "pinnace", *header),
    }))


main()
