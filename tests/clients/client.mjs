// The TypeScript clients (packages @modelcontextprotocol/client and /sdk):
// client.mjs PACKAGE URL ERA WORD, with ERA handshake, per-request or auto; the sdk has the first alone.
//
// Does what every client here does, and prints its account as one line of JSON (README.md).
import process from 'node:process';

const [name, url, era, word] = process.argv.slice(2);
const NEGOTIATION = { handshake: undefined, 'per-request': { mode: { pin: '2026-07-28' } }, auto: { mode: 'auto' } };

async function library() {
    if (name === 'client') return import('@modelcontextprotocol/client');
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return { Client, StreamableHTTPClientTransport: http.StreamableHTTPClientTransport };
}

const { Client, StreamableHTTPClientTransport } = await library();

async function connected(path) {
    const negotiation = NEGOTIATION[era];
    const client = new Client({ name: 'typescript', version: '1' }, negotiation && { versionNegotiation: negotiation });
    const transport = new StreamableHTTPClientTransport(new URL(path, url));
    await client.connect(transport);
    return { client, transport };
}

// Ends the session, where there is one, as a polite client does.
async function end({ client, transport }) {
    if (transport.sessionId) await transport.terminateSession();
    await client.close();
}

const one = await connected('/mcp');
const client = one.client;

async function call(tool, args) {
    const result = await client.callTool({ name: tool, arguments: args });
    return { error: Boolean(result.isError), text: result.content[0].text, structured: result.structuredContent ?? null };
}

async function refusal(tool) {
    try {
        await client.callTool({ name: tool, arguments: {} });
    } catch (error) {
        // One of the two puts the code before the server's own words.
        return { code: error.code, message: error.message.replace(/^MCP error -\d+: /, '') };
    }
    return null;
}

const BRIEF = 'memory://brief/today';
const byRequest = () => told.protocol === '2026-07-28';

function callWith(params, options) {
    return name === 'sdk' ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

// The URI that a client which follows the brief is told of once something is written.
async function updated(write) {
    let tell;
    const told = new Promise((resolve) => { tell = resolve; });
    client.fallbackNotificationHandler = async (note) => {
        if (note.method === 'notifications/resources/updated') tell(note.params.uri);
    };
    const subscription = byRequest() ? await client.listen({ resourceSubscriptions: [BRIEF] }) : null;
    if (!subscription) await client.subscribeResource({ uri: BRIEF });
    let uri = null;
    while (uri === null) {
        // The stream that brings it may not be open at the first write.
        await write();
        uri = await Promise.race([told, new Promise((resolve) => setTimeout(resolve, 1000, null))]);
    }
    await subscription?.close();
    return uri;
}

// Calls a long job off as soon as it has told how far it is; what it has left to do then.
async function calledOff() {
    const off = new AbortController();
    const params = { name: 'ingest_paths_tool', arguments: { paths: [word] } };
    const ended = await callWith(params, { signal: off.signal, onprogress: () => off.abort() }).then(() => false, () => true);
    return { ended, again: await call('ingest_paths_tool', { paths: [word], dry_run: true }) };
}

// The answer of a call, and what comes of its stream when it is taken up again at its first event.
async function resumed() {
    const tokens = [];
    const params = { name: 'retrieval_arbitrate_tool', arguments: { query: 'what does the lamp burn?' } };
    const ask = async (options) => {
        const result = await callWith(params, { onprogress: () => {}, ...options });
        return result.structuredContent.receipt.receipt_id;
    };
    const first = await ask({ onresumptiontoken: (token) => tokens.push(token) });
    return [first, await ask({ resumptionToken: tokens[0] })];
}

// Resources, prompts, completions, and what goes on while a call is under way.
async function beyondTools(item) {
    const prompt = await client.getPrompt({ name: 'consult-memory-first', arguments: { question: `where is the ${word}?` } });
    const completed = await client.complete({
        ref: { type: 'ref/prompt', name: 'record-a-decision' }, argument: { name: 'tag', value: word } });
    const told = {
        resource: (await client.readResource({ uri: BRIEF })).contents[0].text,
        templates: (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate),
        template: (await client.readResource({ uri: `memory://item/${item}` })).contents[0].text,
        prompt: prompt.messages[0].content.text,
        completed: completed.completion.values,
        updated: await updated(() => call('brain_remember', { text: `A ${word} was seen at noon.` })),
        called_off: await calledOff(),
    };
    if (!byRequest()) {
        await client.setLoggingLevel('debug');
        told.logging = true;
        told.resumed = await resumed();
    }
    return told;
}

const told = { server: client.getServerVersion()?.name ?? null, instructions: client.getInstructions() ?? null };
told.protocol = client.getNegotiatedProtocolVersion?.() ?? one.transport.protocolVersion ?? null;
told.tools = (await client.listTools()).tools;
told.recall = await call('retrieval_arbitrate_tool', { query: 'what does the lamp burn?' });
told.remember = await call('brain_remember', {
    text: `The ${word} nests on the gallery rail.`, tags: JSON.stringify([word, 'birds']) });
told.again = await call('retrieval_arbitrate_tool', { query: `where does the ${word} nest?` });
told.misspelt = await call('retrieval_arbitrate_tool', { quary: 'lamp' });
told.unknown = await refusal('brain_rember');
const capabilities = client.getServerCapabilities() ?? {};
told.resources = capabilities.resources ? (await client.listResources()).resources.length : null;
told.prompts = capabilities.prompts ? (await client.listPrompts()).prompts.length : null;
Object.assign(told, await beyondTools(told.remember.structured.item.id));
await end(one);

const core = await connected('/mcp?profile=core');
told.core = (await core.client.listTools()).tools.map((tool) => tool.name);
await end(core);
told.ended = true;
console.log(JSON.stringify(told));
