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
await end(one);

const core = await connected('/mcp?profile=core');
told.core = (await core.client.listTools()).tools.map((tool) => tool.name);
await end(core);
told.ended = true;
console.log(JSON.stringify(told));
