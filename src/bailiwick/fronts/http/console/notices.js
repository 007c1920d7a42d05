// A question reaches a person who looks at something else: as a notification of the browser while
// the page is hidden. Asked for once, by a button, and never by itself.

import { h, icon } from "./dom.js";
import { go } from "./router.js";
import { plain } from "./words.js";

const DECLINED = "bailiwick.notices";
const told = new Set();

// `what(question)` says in words what is asked.
export function tellHidden(questions, what) {
  for (const each of questions) {
    if (told.has(each.id)) continue;
    told.add(each.id);
    if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") continue;
    const note = new Notification(`${plain(each.subject)} asks you`, { body: what(each), tag: each.id, icon: "/console/icon.svg" });
    note.addEventListener("click", () => { window.focus(); go("approvals", each.id); note.close(); });
  }
}

// The button, where it makes sense: the browser can, and the person has not decided yet.
export function offer() {
  if (!("Notification" in window) || Notification.permission !== "default" || localStorage.getItem(DECLINED) === "no") return null;
  const box = h("span", { class: "bar" },
    h("button", { class: "button", onClick: () => Notification.requestPermission().then(() => box.remove()) }, icon("pulse"), "Tell me when I look elsewhere"),
    h("button", { class: "button quiet", "aria-label": "Do not offer it again", onClick: () => { localStorage.setItem(DECLINED, "no"); box.remove(); } }, icon("cross")));
  return box;
}
