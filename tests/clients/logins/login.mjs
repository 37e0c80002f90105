// The TypeScript clients (packages @modelcontextprotocol/client and /sdk) sign in:
// login.mjs PACKAGE WALK URL WORKSPACE ONCE KEY BEARER, with WALK the path of walk.py.
//
// ONCE is a one-time access key, KEY the workspace's own, BEARER a per-user bearer. Prints one line of JSON, what it
// came to on each way (README.md).
import { execFileSync } from 'node:child_process';
import process from 'node:process';

const [name, walk, url, workspace, once, key, bearer] = process.argv.slice(2);
const CALLBACK = 'http://127.0.0.1:8977/callback';

async function library() {
    if (name === 'client') return import('@modelcontextprotocol/client');
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const { ClientCredentialsProvider } = await import('@modelcontextprotocol/sdk/client/auth-extensions.js');
    return { Client, StreamableHTTPClientTransport: http.StreamableHTTPClientTransport, ClientCredentialsProvider };
}

const { Client, StreamableHTTPClientTransport, ClientCredentialsProvider } = await library();

// A provider that remembers in memory, and sends a person without script to the page.
class Kept {
    constructor() { this.went = 0; }

    get redirectUrl() { return CALLBACK; }

    get clientMetadata() {
        return { client_name: 'TypeScript', redirect_uris: [CALLBACK], grant_types: ['authorization_code', 'refresh_token'] };
    }

    state() { return `state ${name} & more`; }

    clientInformation() { return this.info; }

    saveClientInformation(info) { this.info = info; }

    tokens() { return this.kept; }

    saveTokens(tokens) { this.kept = tokens; }

    saveCodeVerifier(verifier) { this.verifier = verifier; }

    codeVerifier() { return this.verifier; }

    redirectToAuthorization(to) {
        this.went += 1;
        const location = execFileSync('python3', [walk, to.href, workspace, once], { encoding: 'utf8', timeout: 30_000 });
        this.answer = new URL(location.trim()).searchParams;
    }
}

async function connected(options) {
    const client = new Client({ name: 'typescript', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), options));
    return client;
}

// What the service shows a client.
async function told(client, word) {
    const tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
    const wrote = await client.callTool({ name: 'brain_remember', arguments: { text: `The ${word} sails at dawn.` } });
    const found = await client.callTool({
        name: 'retrieval_arbitrate_tool', arguments: { query: `when does the ${word} sail?` } });
    await client.close();
    return { tools, wrote: !wrote.isError, found: found.content[0].text };
}

async function signedIn(provider) {
    const transport = new StreamableHTTPClientTransport(new URL('/mcp', url), { authProvider: provider });
    try {
        await new Client({ name: 'typescript', version: '1' }).connect(transport);
    } catch (error) {
        if (!provider.answer) throw error;
    }
    if (provider.answer.get('state') !== provider.state()) throw new Error('another state came back');
    await (name === 'sdk' ? transport.finishAuth(provider.answer.get('code')) : transport.finishAuth(provider.answer));
    return connected({ authProvider: provider });
}

const kept = new Kept();
const ways = { browser: await told(await signedIn(kept), 'brig') };
// A token that is not good is refreshed; the key is spent, so nobody could sign in once more.
const first = kept.kept.refresh_token;
kept.kept = { ...kept.kept, access_token: 'over' };
ways.refreshed = await told(await connected({ authProvider: kept }), 'barque');
ways.refreshed.rotated = kept.kept.refresh_token !== first && kept.went === 1;
const own = new ClientCredentialsProvider({ clientId: workspace, clientSecret: key, expectedIssuer: url });
ways.workspace_key = await told(await connected({ authProvider: own }), 'lugger');
const headers = { Authorization: `Bearer ${bearer}` };
ways.bearer = await told(await connected({ requestInit: { headers } }), 'smack');
console.log(JSON.stringify(ways));
