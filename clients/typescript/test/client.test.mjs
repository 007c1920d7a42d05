// The client against a real server, whose address and tokens are in the environment.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { ApprovalPending, BailiwickError, connect } from "../index.js";

const { BAILIWICK_URL: url, BAILIWICK_AGENT: token, BAILIWICK_PERSON: personal } = process.env;
const root = "workspace:demo";
const fs = connect(url, { token, root });
const person = connect(url, { token: personal, root });

/** A server that is none of ours, for the time of one test. */
async function elsewhere(answer, use) {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  try {
    await use(`http://127.0.0.1:${server.address().port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

async function answerFirst(word) {
  for (;;) {
    const { approvals } = await person.approvals();
    if (approvals.length) return await person.answerApproval({ id: approvals[0].id, answer: word });
  }
}

test("a file is written, read, edited, found and removed", async () => {
  const written = await fs.writeFile({ path: "notes/ä b.md", content: "hello\n", parents: true });
  assert.equal(written.created, true);
  const read = await fs.readFile({ path: "notes/ä b.md" });
  assert.equal(read.content, "hello\n");
  assert.equal(read.hash, written.hash);
  await fs.editFile({ path: "notes/ä b.md", oldText: "hello", newText: "good morning" });
  const found = await fs.grep({ pattern: "good" });
  assert.deepEqual(found.matches.map((match) => match.path), ["notes/ä b.md"]);
  assert.deepEqual((await fs.list({ path: "notes" })).entries.map((entry) => entry.name), ["ä b.md"]);
  await fs.remove({ path: "notes/ä b.md" });
});

test("bytes go both ways, and in parts", async () => {
  const bytes = new Uint8Array(300_000).map((_, i) => i % 251);
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(bytes.slice(0, 100_000));
      controller.enqueue(bytes.slice(100_000));
      controller.close();
    },
  });
  await fs.putFile({ path: "data.bin", body });
  const answer = await fs.download({ path: "data.bin" });
  assert.deepEqual(new Uint8Array(await answer.arrayBuffer()), bytes);
  const head = await fs.downloadHead({ path: "data.bin" });
  assert.equal(head.headers.get("content-length"), "300000");
});

test("an error has its kind, its status and a hint", async () => {
  await assert.rejects(fs.readFile({ path: "../secret" }), (error) => {
    assert.ok(error instanceof BailiwickError);
    assert.equal(error.kind, "path_outside_workspace");
    assert.ok(error.hint);
    assert.ok(error.requestId);
    return true;
  });
  await assert.rejects(fs.readFile({ path: "missing" }), { kind: "path_not_found", status: 404 });
  await assert.rejects(fs.readFile({ path: "missing", nonsense: 1 }), TypeError);
  await assert.rejects(fs.grep({ pattern: "x", include: ["*.md", "*.txt"] }), TypeError);
  await assert.rejects(fs.writeFile({ path: "x", content: "", nonsense: 1 }), { kind: "parse_error" });
});

test("what an answer without a body does not say is asked for", async () => {
  await assert.rejects(fs.downloadHead({ path: "missing" }), { kind: "path_not_found", status: 404 });
  await assert.rejects(fs.downloadHead({ path: "../secret" }), { kind: "path_outside_workspace" });
  await person.writeFile({ path: ".env", content: "KEY=1" });
  const asked = await fs.downloadHead({ path: ".env" }, { waitForPersonMs: 0 }).catch((error) => error);
  assert.ok(asked instanceof ApprovalPending, String(asked));
  await person.answerApproval({ id: asked.approvalId, answer: "once" });
  const head = await fs.downloadHead({ path: ".env", approval: asked.approvalId });
  assert.equal(head.status, 200);
  assert.equal(head.headers.get("content-length"), "5");
  assert.equal(await head.text(), "");
});

test("what changed meanwhile is not overwritten", async () => {
  const { hash } = await fs.writeFile({ path: "counted", content: "1" });
  await fs.writeFile({ path: "counted", content: "2" });
  await assert.rejects(fs.writeFile({ path: "counted", content: "3", expectedHash: hash }), {
    kind: "hash_mismatch",
  });
  const { version } = await fs.stat({ path: "counted" });
  await fs.writeFile({ path: "counted", content: "3" }, { ifMatch: `"${version}"` });
});

test("the same key does a thing once", async () => {
  const how = { idempotencyKey: "append-1" };
  await fs.appendFile({ path: "log", content: "one\n" }, how);
  await fs.appendFile({ path: "log", content: "one\n" }, how);
  assert.equal((await fs.readFile({ path: "log" })).content, "one\n");
});

test("a call waits for the person who is asked", async () => {
  const call = fs.writeFile({ path: "migrations/1.sql", content: "x", parents: true });
  await answerFirst("once");
  assert.equal((await call).created, true);
});

test("who does not wait is paused, and goes on with the approval", async () => {
  const given = { path: "migrations/2.sql", content: "x" };
  const asked = await fs.writeFile(given, { waitForPersonMs: 0 }).catch((error) => error);
  assert.ok(asked instanceof ApprovalPending, String(asked));
  assert.equal((await person.approval({ id: asked.approvalId })).state, "pending");
  await person.answerApproval({ id: asked.approvalId, answer: "once" });
  const done = await fs.writeFile({ ...given, approval: asked.approvalId });
  assert.equal(done.created, true);
  const refused = await fs.writeFile({ ...given, content: "y" }, { waitForPersonMs: 0 }).catch((error) => error);
  await person.answerApproval({ id: refused.approvalId, answer: "no" });
  await assert.rejects(fs.writeFile({ ...given, content: "y", approval: refused.approvalId }), {
    kind: "approval_denied",
  });
});

test("changes are told, and again from the last cursor when the connection broke", async () => {
  await fs.makeDirectory({ path: "watched" });
  const controller = new AbortController();
  let broken = 0;
  const flaky = connect(url, {
    token, root,
    async fetch(address, request) {
      const response = await fetch(address, request);
      if (broken++ > 0) return response;
      // The first connection ends after its first change.
      const reader = response.body.getReader();
      const body = new ReadableStream({
        async pull(stream) {
          const { value } = await reader.read();
          stream.enqueue(value);
          if (new TextDecoder().decode(value).includes("event: change")) {
            await reader.cancel();
            stream.error(new TypeError("the connection broke"));
          }
        },
      });
      return new Response(body, { status: 200 });
    },
  });
  const seen = [];
  const events = flaky.events({ path: "watched" }, { signal: controller.signal });
  const first = events.next();
  while (!broken) await fs.health();
  for (const name of ["a", "b", "c"]) await fs.writeFile({ path: `watched/${name}`, content: name });
  for (let told = await first; ; told = await events.next()) {
    seen.push(told.value.path);
    if (told.value.path === "watched/c") break;
  }
  assert.deepEqual([...new Set(seen)].sort(), [...seen].sort(), "nothing is told twice");
  assert.ok(["watched/b", "watched/c"].every((path) => seen.includes(path)), seen.join());
  assert.ok(broken > 1);
  controller.abort();
  await assert.rejects(events.next());
});

test("questions, runs and verdicts are followed besides changes, each by its name", async () => {
  const controller = new AbortController();
  const stream = [
    "event: approval\ndata: {\"kind\": \"asked\", \"id\": \"q1\"}\n\n",
    "id: 7\nevent: change\ndata: {\"kind\": \"updated\", \"path\": \"a\"}\n\n",
    "event: run\ndata: {\"kind\": \"begun\", \"id\": \"r1\"}\n\n",
    "event: review\ndata: {\"accepted\": 1}\n\n", "event: later\ndata: {}\n\n",
  ].join("");
  const asked = [];
  await elsewhere((request, answer) => {
    asked.push(request.url);
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.end(asked.length === 1 ? stream : "event: change\ndata: {\"kind\": \"created\", \"path\": \"b\"}\n\n");
  }, async (address) => {
    const told = [], fs = connect(address, { token });
    for await (const each of fs.follow({}, { signal: controller.signal })) {
      told.push(each);
      if (each.path === "b") break;
    }
    assert.deepEqual(told.map((each) => [each.event, each.id ?? each.path ?? each.accepted]),
      [["approval", "q1"], ["change", "a"], ["run", "r1"], ["review", 1], ["change", "b"]]);
    assert.match(asked[1], /since=7/);
    const changes = [];
    asked.length = 0;
    for await (const each of fs.events({}, { signal: controller.signal })) {
      changes.push(each);
      if (each.path === "b") break;
    }
    assert.deepEqual(changes.map((each) => [each.event, each.path]), [[undefined, "a"], [undefined, "b"]]);
  });
  controller.abort();
});

test("a question of a real server is followed by a person", async () => {
  const controller = new AbortController();
  const told = person.follow({}, { signal: controller.signal });
  const first = told.next();
  const asked = await fs.writeFile({ path: "migrations/3.sql", content: "followed" }, { waitForPersonMs: 0 }).catch((error) => error);
  for (let each = await first; ; each = await told.next()) {
    if (each.value.event !== "approval" || each.value.id !== asked.approvalId) continue;
    assert.deepEqual([each.value.kind, each.value.state], ["asked", "pending"]);
    break;
  }
  controller.abort();
  await assert.rejects(told.next());
  await person.answerApproval({ id: asked.approvalId, answer: "no" });
});

test("what is no answer of Bailiwick's is an error, and the token goes to no other address", async () => {
  await elsewhere((_, answer) => answer.end("<html>"), async (address) => {
    await assert.rejects(connect(address, { token }).list({ path: "." }), /no answer of Bailiwick's/);
  });
  const shown = [];
  await elsewhere((request, answer) => shown.push(request.headers) && answer.end("{}"), async (other) => {
    await elsewhere((_, answer) => answer.writeHead(307, { location: `${other}/list` }).end(), async (address) => {
      await assert.rejects(connect(address, { token }).list({ path: "." }));
    });
  });
  assert.deepEqual(shown, []);
  assert.throws(() => connect("http://user:secret@127.0.0.1"), TypeError);
  assert.throws(() => connect(url, { root: "demo" }), TypeError);
});
