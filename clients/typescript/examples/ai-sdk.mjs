// An agent of the Vercel AI SDK on a governed tree. A scripted model stands in for a real one.

import { generateText, isStepCount, tool } from "ai";
import { connect } from "bailiwick-client";
import { fileTools } from "./tools.mjs";
import { scripted } from "./scripted.mjs";

const { BAILIWICK_URL: url, BAILIWICK_AGENT: token } = process.env;
const fs = connect(url, { token, root: "workspace:demo" });

// A call that a rule wants a person to see waits until they have answered, in the console or by `bailiwick approvals`.
const tools = Object.fromEntries(
  Object.entries(fileTools(fs)).map(([name, { run, ...about }]) => [name, tool({ ...about, execute: run })]),
);

const { text, steps } = await generateText({ model: scripted(), tools, stopWhen: isStepCount(5), prompt: "Tidy up." });
for (const { toolResults } of steps) {
  for (const { toolName, output } of toolResults) console.log(toolName, JSON.stringify(output));
}
console.log(text);
