// A scope on a Bailiwick server, for Node, Deno, Bun and browsers. Plain modules: nothing to build,
// nothing to fetch, and what is checked is what runs.
// @ts-check

import { ROUTES } from "./routes.js";

const RECONNECT_MS_MAX = 5000;
const EVENTS = new Set(["change", "approval", "run", "review"]);
const DEFAULT_WAIT_MS = 120_000;

/** What a server refused or could not do. `kind` is what to branch on, `hint` what to do next. */
export class BailiwickError extends Error {
  /** @param {import("./wire.js").ErrorBody} told */
  constructor(told) {
    super(`${told.errorKind}: ${told.error}`);
    this.name = "BailiwickError";
    this.kind = told.errorKind;
    this.status = told.status;
    this.category = told.category;
    this.retryable = told.retryable;
    this.hint = told.hint ?? null;
    this.path = told.path ?? null;
    this.decidedBy = told.decidedBy ?? null;
    this.details = told.details ?? {};
    this.requestId = told.requestId;
  }
}

/** A person is being asked and has not answered. The same call with `approval` goes on once they agreed. */
export class ApprovalPending extends BailiwickError {
  /** @param {import("./wire.js").PendingReply} told */
  constructor(told) {
    super({
      errorKind: "approval_pending", error: "nobody has answered yet", status: 202, category: "policy",
      retryable: true, requestId: told.requestId,
      hint: `make the same call with approval: ${JSON.stringify(told.approvalId)} once it is granted`,
    });
    this.name = "ApprovalPending";
    this.approvalId = told.approvalId;
    this.expiresAt = told.expiresAt;
  }
}

/** @param {number} status @param {string} why @param {string} [requestId] */
function noAnswer(status, why, requestId = "") {
  return new BailiwickError({
    errorKind: "internal_error", error: `no answer of Bailiwick's: ${why}`, status, category: "internal",
    retryable: false, requestId, hint: "look at the address: another server or a proxy may have answered",
  });
}

/** @param {Response} response */
async function document(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error instanceof SyntaxError) throw noAnswer(response.status, "it is no JSON");
    throw error;
  }
}

/** @param {Response} response @returns {Promise<never>} */
async function refuse(response) {
  const told = await document(response);
  if (typeof told?.errorKind !== "string" || typeof told?.error !== "string") {
    throw noAnswer(response.status, "it does not say what went wrong");
  }
  throw new BailiwickError(told);
}

/** The lines of a body, as they come. @param {Response} response */
async function* lines(response) {
  let rest = "";
  const decoder = new TextDecoder();
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const whole = rest.split("\n");
      rest = done ? "" : /** @type {string} */ (whole.pop());
      for (const line of whole) if (!done || line) yield line;
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

class Connection {
  /** @param {string} address @param {import("./index.js").Options} options */
  constructor(address, options) {
    const url = new URL(address);
    if (url.username || url.password) throw new TypeError("a token is given as `token`, not in the address");
    this.base = url.origin + url.pathname.replace(/\/+$/, "");
    this.token = options.token;
    this.prefix = "";
    if (options.root) {
      const [kind, id] = options.root.split(":", 2);
      if (!id) throw new TypeError(`a root is KIND:ID, not ${JSON.stringify(options.root)}`);
      this.prefix = `/roots/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`;
    }
    this.wait = options.waitForPersonMs ?? DEFAULT_WAIT_MS;
    this.fetch = options.fetch ?? globalThis.fetch;
  }

  /**
   * @param {import("./index.js").Route} route
   * @param {Record<string, any>} given
   * @param {import("./index.js").How} how
   */
  async send(route, given, how) {
    const rest = { ...given };
    const path = route.path.replace(/\{(\w+)\}/g, (_, name) => {
      const value = rest[name];
      delete rest[name];
      if (value === undefined) throw new TypeError(`${name} is missing`);
      return encodeURIComponent(String(value));
    });
    const query = new URLSearchParams();
    for (const name of route.query) {
      const value = rest[name] ?? undefined;
      if (typeof value === "object") throw new TypeError(`${name} takes one value`);
      if (value !== undefined) query.append(name, String(value));
      delete rest[name];
    }
    /** @type {Record<string, string>} */
    const headers = { ...how.headers };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    if (how.ifMatch) headers["if-match"] = how.ifMatch;
    if (how.idempotencyKey) headers["idempotency-key"] = how.idempotencyKey;
    /** @type {RequestInit & { duplex?: "half" }} */
    const request = { method: route.method, headers, signal: how.signal, redirect: "error" };
    if (route.body === "json") {
      headers["content-type"] = "application/json";
      request.body = JSON.stringify(rest);
    } else if (route.body === "bytes") {
      headers["content-type"] = "application/octet-stream";
      request.body = rest.body;
      request.duplex = "half";
      delete rest.body;
    }
    const unknown = route.body === "json" ? [] : Object.keys(rest);
    if (unknown.length) throw new TypeError(`there is no argument ${unknown.join(", ")}`);
    const where = (route.rooted ? this.prefix : "") + path;
    const asked = String(query);
    return await this.fetch(this.base + where + (asked && `?${asked}`), request);
  }

  /**
   * Send a request; where a person has to be asked, the same one again until they have answered.
   * @param {import("./index.js").Route} route
   * @param {Record<string, any>} given
   * @param {import("./index.js").How} how
   */
  async answered(route, given, how) {
    const until = Date.now() + (how.waitForPersonMs ?? this.wait);
    const once = given.body instanceof ReadableStream; // it cannot be sent a second time
    for (let sent = given; ; ) {
      const response = await this.send(route, sent, how);
      if (route.method === "HEAD" && (response.status === 202 || response.status >= 400)) {
        // Why is said in a body, and this answer has none.
        const told = await this.answered({ ...route, method: "GET" }, sent, how);
        await told.body?.cancel();
        return new Response(null, told);
      }
      if (response.status !== 202) {
        if (!response.ok && response.status !== 304) await refuse(response);
        return response;
      }
      const told = await document(response);
      if (told?.kind !== "approval_pending") throw noAnswer(202, "it does not say whom it asks");
      if (once || route.approval === null || Date.now() >= until) throw new ApprovalPending(told);
      await pause(100, how.signal);
      sent = { ...given, approval: told.approvalId };
    }
  }

  /**
   * Everything that is told as it comes. A connection that breaks is made anew from the last cursor.
   * @param {import("./index.js").Route} route
   * @param {Record<string, any>} given
   * @param {import("./index.js").How} how
   */
  async *follow(route, given, how) {
    let since = given.since;
    for (let wait = 250; ; wait = Math.min(2 * wait, RECONNECT_MS_MAX)) {
      try {
        const response = await this.answered(route, { ...given, since }, how);
        let name = "";
        for await (const line of lines(response)) {
          if (line.startsWith("id: ")) since = line.slice(4);
          else if (line.startsWith("event: ")) name = line.slice(7);
          else if (line === "") name = "";
          else if (line.startsWith("data: ")) {
            const told = JSON.parse(line.slice(6));
            if (name === "error") throw new BailiwickError(told);
            if (EVENTS.has(name)) yield { event: name, ...told };
          }
          wait = 250;
        }
      } catch (error) {
        if (error instanceof BailiwickError || how.signal?.aborted) throw error;
      }
      await pause(wait, how.signal);
    }
  }

  /**
   * Changes as they are made, and nothing else.
   * @param {import("./index.js").Route} route
   * @param {Record<string, any>} given
   * @param {import("./index.js").How} how
   */
  async *events(route, given, how) {
    for await (const { event, ...told } of this.follow(route, given, how)) if (event === "change") yield told;
  }

  /**
   * @param {import("./index.js").Route} route
   * @param {Record<string, any>} given
   * @param {import("./index.js").How} how
   */
  async *told(route, given, how) {
    const response = await this.answered(route, given, how);
    for await (const line of lines(response)) {
      const told = JSON.parse(line);
      if (told.error) throw new BailiwickError(told.error);
      yield told;
    }
  }

  /** @param {import("./index.js").Route} route */
  verb(route) {
    /** @param {Record<string, any>} [given] @param {import("./index.js").How} [how] */
    return (given = {}, how = {}) => {
      if (route.answer === "events") return this.events(route, given, how);
      if (route.answer === "lines") return this.told(route, given, how);
      return this.answered(route, given, how).then((response) =>
        route.answer === "json" ? document(response) : route.answer === "text" ? response.text() : response,
      );
    };
  }
}

/**
 * The operations of a server, on one root.
 * @param {string} address
 * @param {import("./index.js").Options} [options]
 * @returns {import("./wire.js").Operations}
 */
export function connect(address, options = {}) {
  const connection = new Connection(address, options);
  const verbs = Object.entries(ROUTES).map(([name, route]) => [name, connection.verb(route)]);
  /** @param {Record<string, any>} [given] @param {import("./index.js").How} [how] */
  const follow = (given = {}, how = {}) => connection.follow(ROUTES.events, given, how);
  return Object.freeze({ ...Object.fromEntries(verbs), follow });
}
