"""The Inspector's command line: inspector.py FOLDER URL ERA WORD, with FOLDER that of its node_modules.

Each step is a process of its own, so it also shows that a session's end is clean. It tells neither the
revision nor who the server is, and looks a tool's name up itself; these are null in the account (README.md).
"""

import json
import subprocess
import sys

ERAS = {"handshake": "legacy", "per-request": "modern", "auto": "auto"}
# What it ends with when a tool's result is an error, as it should be once here.
TOOL_ERROR = 5


def main():
    folder, url, era, word = sys.argv[1:]

    def run(method, *more, path="/mcp", status=0):
        command = [f"{folder}/.bin/node", f"{folder}/.bin/mcp-inspector", "--cli", url + path,
                   "--transport", "http", "--protocol-era", ERAS[era], "--method", method,
                   "--format", "json", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != status:
            sys.exit(f"{method} {more} ended with {done.returncode}: {done.stdout} {done.stderr}")
        return json.loads(done.stdout)["result"], done.stderr

    def call(tool, status=0, **arguments):
        pairs = [f"{name}={value}" for name, value in arguments.items()]
        result, _ = run("tools/call", "--tool-name", tool, "--tool-arg", *pairs, status=status)
        return {"error": bool(result.get("isError")), "text": result["content"][0]["text"],
                "structured": result.get("structuredContent")}

    # With --strict it names what of the schemas is not understood everywhere.
    listed, said = run("tools/list", "--strict")
    if "arning" in said or "rror:" in said:
        sys.exit(f"the Inspector finds the schemas less than portable: {said}")
    recall = "retrieval_arbitrate_tool"
    told = {
        "blind": True, "protocol": None, "server": None, "instructions": None, "unknown": None,
        "tools": listed["tools"],
        "recall": call(recall, query="what does the lamp burn?"),
        "remember": call("brain_remember", text=f"The {word} nests on the gallery rail.",
                         tags=json.dumps([word, "birds"])),
        "again": call(recall, query=f"where does the {word} nest?"),
        "misspelt": call(recall, status=TOOL_ERROR, quary="lamp"),
        "resources": len(run("resources/list")[0]["resources"]),
        "prompts": len(run("prompts/list")[0]["prompts"]),
        "resource": run("resources/read", "--uri", "memory://brief/today")[0]["contents"][0]["text"],
        "templates": [template["uriTemplate"]
                      for template in run("resources/templates/list")[0]["resourceTemplates"]],
        "prompt": run("prompts/get", "--prompt-name", "consult-memory-first", "--prompt-args",
                      f"question=where is the {word}?")[0]["messages"][0]["content"]["text"],
        "core": [tool["name"] for tool in run("tools/list", path="/mcp?profile=core")[0]["tools"]],
        "ended": True,
    }
    print(json.dumps(told))


main()
