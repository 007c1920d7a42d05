// What a person says of what agents did, in the tree or apart from it.

import { h } from "./dom.js";
import * as api from "./api.js";
import { complain, dialog, toast } from "./dialogs.js";
import { count, plain } from "./words.js";

// Agreeing with what is in the tree changes no file: it is only kept that somebody has looked.
export const accept = (verdict, then) => say(verdict, (done) => (done.left ? `Accepted; ${count(done.left, "piece")} left to look at` : "Accepted; nothing is left to look at"), then);

export async function reject(ids, what, { active = false, of = {} }, then) {
  const note = h("textarea", { class: "input", rows: "3", maxlength: "2000", placeholder: "What should it do instead?", "aria-label": "Note to the agent" }), insist = h("input", { type: "checkbox", id: "insist" });
  const sure = await dialog({
    title: `Reject ${what}?`,
    body: [h("p", { class: "soft" }, "It is taken back, and the agent reads your note with its next result."), note, active ? h("label", { for: "insist" }, insist, " also while it is in the middle of something") : null],
    actions: [{ label: "Cancel", value: null }, { label: "Reject", kind: "danger", value: true }],
  });
  if (sure) await say({ reject: ids, note: note.value.trim() || null, insist: insist.checked, ...of }, () => "Rejected; the agent is told", then);
}

// Whether it was done.
async function say(verdict, words, then) {
  let done = null;
  try {
    done = await api.post("/review", verdict);
    if (done.conflicts.length) toast(`Nothing was changed: ${plain(done.conflicts[0].path)}: ${plain(done.conflicts[0].reason)}`, { bad: true });
    else toast(done.accepted.length || done.rejected.length ? words(done) : "Nothing was left of it: somebody has said something of it already");
  } catch (error) { complain(error); }
  await then();
  return done !== null && !done.conflicts.length;
}
