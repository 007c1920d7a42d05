// A model that says what it was told to say: it writes, is asked about a second write, and looks outside.

import { MockLanguageModelV3 } from "ai/test";

const CALLS = [
  ["write_file", { path: "notes/today.md", content: "hello\n" }],
  ["write_file", { path: "migrations/9.sql", content: "create table t (x);\n" }],
  ["read_file", { path: "../secret" }],
  ["grep", { pattern: "hello" }],
];

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

export function scripted() {
  let said = 0;
  const content = () => {
    const call = CALLS[said++];
    return call
      ? { type: "tool-call", toolCallId: `call-${said}`, toolName: call[0], input: JSON.stringify(call[1]) }
      : { type: "text", text: "done" };
  };
  const ending = (part) => ({ unified: part.type === "text" ? "stop" : "tool-calls", raw: undefined });
  return new MockLanguageModelV3({
    async doGenerate() {
      const part = content();
      return { content: [part], finishReason: ending(part), usage, warnings: [] };
    },
    async doStream() {
      const part = content();
      const parts = part.type === "text"
        ? [{ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: part.text }, { type: "text-end", id: "1" }]
        : [part];
      return {
        stream: new ReadableStream({
          start(controller) {
            controller.enqueue({ type: "stream-start", warnings: [] });
            for (const each of parts) controller.enqueue(each);
            controller.enqueue({ type: "finish", finishReason: ending(part), usage });
            controller.close();
          },
        }),
      };
    },
  });
}
