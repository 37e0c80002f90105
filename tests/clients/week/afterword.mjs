// A short story of the TypeScript client over the same memory, a day after the week: afterword.mjs URL.
//
// The client holds structured answers to the tool's outputSchema by itself. Ends with 1 at the first answer that is not
// what it must be; prints how many calls it made.
import assert from 'node:assert/strict';
import process from 'node:process';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const client = new Client({ name: 'afterword', version: '1' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', process.argv[2])));
// Schemas are those of the tools that are listed.
await client.listTools();
let calls = 0;

async function answered(name, args) {
    calls += 1;
    return client.callTool({ name, arguments: args });
}

async function call(name, args = {}) {
    const result = await answered(name, args);
    assert.ok(!result.isError, `${name}: ${result.content[0].text}`);
    return result.structuredContent;
}

async function refused(name, args, word) {
    const result = await answered(name, args);
    assert.ok(result.isError && result.content[0].text.includes(word), `${name}: ${result.content[0].text}`);
}

// What the week left.
const asked = { query: 'how often are readings uploaded?' };
const before = await call('retrieval_arbitrate_tool', asked);
assert.match(before.items[0].text, /ten minutes/);
const start = await call('brain_startup_context_tool');
const decisions = start.sections.find((section) => section.name === 'decisions').rows;
assert.ok(decisions.some((row) => row.text.includes('80 GHz')), JSON.stringify(decisions));

// It is decided anew, checked, and come back to.
const decided = decisions.find((row) => row.text.includes('ten minutes'));
const text = 'Readings of the tide gauge are uploaded every five minutes.';
const next = await call('supersede_item_tool', { item_id: decided.id, text, reason: 'The harbour asked for it.' });
// The correction of the week is replaced with what it put right.
assert.deepEqual(next.chain.map((row) => row.status), ['superseded', 'superseded', 'superseded', 'current']);
const claims = [{ claim: text }, { claim: 'Readings of the tide gauge are uploaded every ten minutes.' }];
const verified = await call('brain_verify_claims_tool', { claims });
assert.deepEqual(verified.claims.map((row) => row.verdict), ['supported', 'superseded']);
const due = { text: 'See whether the network bears it', due_at: '2026-10-28T09:00:00+01:00', timezone: 'Europe/Berlin' };
const { followup } = await call('schedule_followup_tool', { ...due, item_id: next.item.id });
assert.equal(followup.due_local, '2026-10-28T09:00:00+01:00[Europe/Berlin]');
const ahead = await call('due_followups_tool', { before: '2026-10-28T12:00:00Z' });
assert.ok(ahead.followups.some((row) => row.followup_id === followup.followup_id), JSON.stringify(ahead));
await refused('schedule_followup_tool', { ...due, timezone: 'Europe/Atlantis' }, 'timezone');

// Files are read with progress, and what is forgotten is gone.
let heard = 0;
const report = await client.callTool({ name: 'ingest_paths_tool', arguments: { paths: ['gauge'] } }, { onprogress: () => { heard += 1; } });
assert.equal(report.structuredContent.errors_count, 0);
assert.ok(heard > 0, 'progress is told');
const gone = await call('forget_item_tool', { item_id: next.item.id, reason: 'It was a trial.', mode: 'erase' });
assert.equal(gone.status, 'erased');
await refused('get_item_tool', { item_id: next.item.id }, 'item_id');
const whole = await call('ledger_integrity_scan_tool');
assert.equal(whole.ok, true);

await client.close();
console.log(`TypeScript: ${calls + 1} calls`);
