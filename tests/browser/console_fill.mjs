// What a client would have noted: tasks, follow-ups, a correction, an outcome, by the tools that note them.
const REVISION = "2026-07-28";
const DAY_MS = 86_400_000;
let count = 0;

// One call of a tool over /mcp of the local listener.
async function call(url, name, given) {
  count += 1;
  const meta = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": { name: "fill", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const answer = await fetch(`${url}/mcp`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": REVISION,
      "mcp-method": "tools/call",
      "mcp-name": name,
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: count,
      method: "tools/call",
      params: { name, arguments: given, _meta: meta },
    }),
  });
  const { result, error } = await answer.json();
  if (!result || result.isError) throw new Error(`${name}: ${JSON.stringify(error ?? result)}`);
  return result.structuredContent;
}

const days = (ahead) => new Date(Date.now() + ahead * DAY_MS).toISOString();

// Ids of an item with a chain and neighbours, of a document, and of a task that has moved.
export async function fill(url) {
  const note = (name, given) => call(url, name, given);
  const { attempt } = await note("record_task_attempt_tool", {
    task: "Move the queue to epoll",
    approach: "One thread owns all sockets; workers take calls from a bounded queue.",
    tags: ["front end"],
  });
  for (const [status, said] of [
    ["blocked", "The old kernel of rack 3 stands in the way."],
    ["running", "Rack 3 was upgraded."],
    ["succeeded", "212,000 requests a second, memory is steady."],
  ]) {
    await note("update_task_attempt_status_tool", { attempt_id: attempt.attempt_id, status, note: said });
  }
  await note("record_task_attempt_tool", {
    task: "Rotate the workspace keys",
    approach: "One tenant a day, the smallest first.",
    status: "planned",
  });
  await note("record_task_attempt_tool", {
    task: "Bound the memory of slow readers",
    approach: "Count what waits, by peer.",
  });
  await note("schedule_followup_tool", { text: "Check that the alarm at 80 percent went off", due_at: days(-2) });
  await note("schedule_followup_tool", {
    text: "Rehearse a restore from last night's backup",
    due_at: days(3),
    repeat: "monthly",
    timezone: "Europe/Berlin",
  });
  await note("schedule_followup_tool", { text: "Look again at io_uring once the fleet is upgraded", due_at: days(20) });
  await note("capture_operator_intent_tool", {
    intent: "Serve ten thousand idle clients from one small machine",
    horizon: "month",
  });
  await note("record_operator_correction_tool", {
    wrong: "The listener is on port 8080",
    right: "The listener is on port 8788",
  });
  await note("record_outcome_valence_tool", {
    subject: "epoll in the front end",
    valence: 0.8,
    note: "Twice the throughput, half the memory.",
  });
  const { items } = await note("retrieval_arbitrate_tool", { query: "why epoll and not io_uring?" });
  const { documents } = await note("docstore_manifest_tool", {});
  return {
    item: items.find((item) => item.title === "The front end waits on epoll").id,
    task: attempt.attempt_id,
    document: documents.find((document) => document.path.endsWith("control.md") || document.path.endsWith("backup.md"))
      .document_id,
  };
}
