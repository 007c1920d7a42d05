// An agent of Mastra on a governed tree. A scripted model stands in for a real one.

import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { connect } from "bailiwick-client";
import { fileTools } from "./tools.mjs";
import { scripted } from "./scripted.mjs";

const { BAILIWICK_URL: url, BAILIWICK_AGENT: token } = process.env;
const fs = connect(url, { token, root: "workspace:demo" });

// A call that a rule wants a person to see waits until they have answered, in the console or by `bailiwick approvals`.
const tools = Object.fromEntries(
  Object.entries(fileTools(fs)).map(([name, { run, ...about }]) => [
    name, createTool({ id: name, ...about, execute: (given) => run(given) }),
  ]),
);

const agent = new Agent({ id: "tidy", name: "tidy", instructions: "Tidy up.", model: scripted(), tools });
const { text, toolResults } = await agent.generate("Tidy up.", { maxSteps: 5 });
for (const { payload } of toolResults) console.log(payload.toolName, JSON.stringify(payload.result));
console.log(text);
