import type { ErrorBody, Operations, PendingReply } from "./wire.js";

export type * from "./wire.js";

export interface Options {
  /** Of whoever asks: what `bailiwick serve` or `bailiwick grant token` printed. */
  token?: string;
  /** KIND:ID; the server's usual root without it. */
  root?: string;
  /** How long a call waits for a person who is asked, 120,000 unless told; with 0 it throws `ApprovalPending`. */
  waitForPersonMs?: number;
  /** Another `fetch`, to be used in place of the usual one. */
  fetch?: typeof fetch;
}

/** What goes with one call besides what it asks for. */
export interface How {
  signal?: AbortSignal;
  /** The version (ETag) that must still stand there. */
  ifMatch?: string;
  /** The same key answers the same, without doing it twice. */
  idempotencyKey?: string;
  waitForPersonMs?: number;
  headers?: Record<string, string>;
}

/** How one operation is asked for. */
export interface Route {
  method: string;
  path: string;
  rooted: boolean;
  query: string[];
  body: string | null;
  answer: string;
  approval: string | null;
}

/** What a server refused or could not do. `kind` is what to branch on, `hint` what to do next. */
export class BailiwickError extends Error {
  constructor(told: ErrorBody);
  kind: string;
  status: number;
  category: string;
  retryable: boolean;
  hint: string | null;
  path: string | null;
  decidedBy: string | null;
  details: Record<string, unknown>;
  requestId: string;
}

/** A person is being asked and has not answered. The same call with `approval` goes on once they agreed. */
export class ApprovalPending extends BailiwickError {
  constructor(told: PendingReply);
  approvalId: string;
  expiresAt: string;
}

/** The operations of a server, on one root. */
export function connect(address: string, options?: Options): Operations;
