// What a program says to the client, and what a compiler must refuse: looked at, never run.

import { ApprovalPending, connect } from "../index.js";
import type { Event, FileRead } from "../index.js";

const fs = connect("http://127.0.0.1:8000", { token: "…", root: "workspace:demo" });

const read: FileRead = await fs.readFile({ path: "a.txt", line: 1 });
const size: number = read.sizeBytes;
await fs.writeFile({ path: "a.txt", content: `${size}`, mode: "create" }, { idempotencyKey: "1" });
await fs.putFile({ path: "a.bin", body: new Uint8Array([1]) });
await fs.deleteFork({ name: "draft" });
for await (const event of fs.events({ path: "." })) {
  const told: Event = event;
  if (told.kind) break;
}
for await (const told of fs.follow({ path: "." })) {
  if (told.event === "change") console.log(told.path, told.cursor);
  else if (told.event === "approval") console.log(told.prompt, told.expiresMs);
  else if (told.event === "run") console.log(told.subject, told.seenMs);
  // @ts-expect-error a verdict has no cursor
  else console.log(told.cursor);
}
try {
  await fs.remove({ path: "a.txt" });
} catch (error) {
  if (error instanceof ApprovalPending) console.log(error.approvalId);
}

// @ts-expect-error a path is needed
await fs.readFile({});
// @ts-expect-error there is no such mode
await fs.writeFile({ path: "a", content: "", mode: "append" });
// @ts-expect-error there is no such field
read.nothing;
