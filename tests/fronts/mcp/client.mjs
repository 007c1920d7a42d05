// A client built on the TypeScript SDK: reads its orders from its arguments, prints what it was told.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [way, target, token] = process.argv.slice(2);
const client = new Client(
  { name: "test", version: "1" },
  { capabilities: { elicitation: { form: {} } } },
);
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { answer: "once" } };
});
const transport =
  way === "stdio"
    ? new StdioClientTransport({ command: JSON.parse(target)[0], args: JSON.parse(target).slice(1) })
    : new StreamableHTTPClientTransport(new URL(target), {
        requestInit: { headers: { authorization: `Bearer ${token}` } },
      });
await client.connect(transport);
const told = { server: client.getServerVersion().name };
told.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = (name, given) => client.callTool({ name, arguments: given });
told.written = (await call("write_file", { path: "ts/a.txt", content: "hello\n" })).structuredContent;
told.read = (await call("read_file", { path: "ts/a.txt" })).structuredContent;
told.missing = await call("read_file", { path: "none" });
told.large = await call("write_file", { path: "big", content: "x".repeat(12 * 1024 * 1024) });
told.reviewed = (await call("write_file", { path: "reviewed/x", content: "please\n" })).structuredContent;
told.asked = asked;
const { resources } = await client.listResources();
told.resources = resources.map((each) => each.uri);
told.content = (await client.readResource({ uri: "bailiwick:///story/ts/a.txt" })).contents;
await client.close();
console.log(JSON.stringify(told));
