// What the whole console knows: who is logged in, which root is shown, what changes just now.

import * as api from "./api.js";

const listeners = new Map();

export const state = { roots: [], root: null, fork: null, powers: new Set(), subject: "", live: null, pending: 0 };

export function on(what, listener) {
  if (!listeners.has(what)) listeners.set(what, new Set());
  listeners.get(what).add(listener);
  return () => listeners.get(what).delete(listener);
}

export function tell(what, value) { for (const listener of listeners.get(what) ?? []) listener(value); }

// What the store beneath can do: "history" keeps versions, "forks" has forks and snapshots.
export const has = (power) => state.powers.has(power);

const CHANGES_KEPT = 2000;
export const changes = [];

let stop = null;

function listen() {
  stop?.();
  changes.length = 0;
  stop = api.events(
    (change) => {
      changes.unshift(change);
      if (changes.length > CHANGES_KEPT) changes.pop();
      tell("change", change);
    },
    (live) => { state.live = live; tell("live", live); },
    (what) => { if (what === "approval") countPending(); else tell(what); },
  );
}

export async function useRoot(root, fork = null) {
  state.root = root;
  state.fork = fork;
  api.useRoot(root, fork);
  localStorage.setItem("bailiwick.root", `${root.kind}:${root.id}`);
  const capabilities = await api.get("/capabilities");
  state.powers = new Set(capabilities.powers);
  state.subject = capabilities.subject;
  state.access = new Set(capabilities.access);
  listen();
  tell("root", root);
}

export async function begin() {
  const answer = await api.get("/roots", {}, { rooted: false });
  state.roots = answer.roots;
  const wanted = localStorage.getItem("bailiwick.root");
  const root = state.roots.find((each) => `${each.kind}:${each.id}` === wanted) ?? state.roots.find((each) => each.default) ?? state.roots[0];
  if (root) await useRoot(root);
  countPending();
}

// A question waits for a person: the stream of events tells of it at once. While that is cut off,
// and where there is no root to follow, it is looked for.
const ASKED_EVERY_MS = 1500, ASKED_BESIDES_MS = 15000;
let asking = 0;

export async function countPending() {
  clearTimeout(asking);
  try {
    const answer = await api.get("/approvals", { state: "pending" }, { rooted: false });
    if (answer.approvals.length !== state.pending) {
      state.pending = answer.approvals.length;
      tell("pending", answer.approvals);
    }
    tell("approvals", answer.approvals);
  } catch { /* told by whoever needs them; the next look comes */ }
  clearTimeout(asking);
  asking = setTimeout(countPending, state.live ? ASKED_BESIDES_MS : ASKED_EVERY_MS);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && state.root) countPending(); });
