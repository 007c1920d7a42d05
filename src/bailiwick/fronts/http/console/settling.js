// A file that was changed both in the tree and apart, settled where it is seen: place by place one
// side or the other or both, or by a text of one's own.

import { h, fill, icon } from "./dom.js";
import { count, plain, visible } from "./words.js";

const CONTEXT = 3, SHOWN = 400;

// What somebody has chosen or typed is theirs until they are done with it, however often the page
// around it is drawn again. What they chose is of both sides as they saw them; what they typed stays,
// and they are told when a side is another by now.
const drafts = new Map();

const lines = (text) => { const found = text.split("\n"); if (found.at(-1) === "") found.pop(); return found; };
const PICKS = { tree: (each) => each.tree, apart: (each) => each.apart, both: (each) => (each.tree && !each.tree.endsWith("\n") ? `${each.tree}\n` : each.tree) + each.apart };

// `shown` is what its hunk is called, `accept` settles it.
export function settling(file, shown, accept, { name, words }) {
  const key = `${name}:${file.path}`, draft = drafts.get(key) ?? { shown, picked: new Map(), text: null, caret: 0, late: false };
  drafts.set(key, draft);
  if (draft.shown !== shown) Object.assign(draft, { shown, picked: new Map(), late: draft.text !== null });
  const element = h("div", { class: "settling" });
  const settled = async (how) => { if (await accept([shown], how)) drafts.delete(key); };
  const draw = () => fill(element, draft.text === null ? chosen(file, draft, settled, draw, words) : edited(file, draft, settled, draw));
  draw();
  return element;
}

function chosen(file, draft, settled, draw, words) {
  // Nothing at all is no text that could be chosen: who removed it is one side as a whole.
  const goes = file.kind === "deleted", comes = file.kind === "created";
  const doubts = file.sides.filter((each) => each.text === null), picks = !goes && !comes && doubts.length > 0, left = doubts.filter((each) => !draft.picked.has(doubts.indexOf(each))).length;
  const text = () => file.sides.map((each) => each.text ?? PICKS[draft.picked.get(doubts.indexOf(each)) ?? "tree"](each)).join("");
  return [file.sides.map((each, at) => (each.text === null ? doubt(each, doubts.indexOf(each), draft, draw, words, picks) : context(each.text, at > 0, at < file.sides.length - 1))),
    h("div", { class: "verdict" },
      picks ? h("button", { class: "button main", data: { key: "y" }, disabled: left > 0, title: left ? "Choose at each place first" : "Have this text on both sides (y)", onClick: () => settled({ text: text() }) }, icon("check"), left ? `${count(left, "place")} to choose` : "Use this") : null,
      doubts.length ? h("button", { class: "button", onClick: () => { Object.assign(draft, { text: comes ? doubts[0].apart : text(), caret: 0 }); draw(); } }, icon("pen"), "Edit") : null,
      h("button", { class: "button", title: "Whatever stands on the other side", onClick: () => settled({ over: true }) }, goes ? "Remove it" : words.whole))];
}

// Of what both have alike only what lies next to a place in doubt.
function context(text, after, before) {
  const all = lines(text), head = after ? all.slice(0, CONTEXT) : [], tail = before ? all.slice(Math.max(head.length, all.length - CONTEXT)) : [];
  const between = all.length - head.length - tail.length;
  return h("div", { class: "code same" }, shownLines(head), between ? h("p", { class: "faint" }, `${count(between, "line")} in which they agree`) : null, shownLines(tail));
}

const shownLines = (some) => [some.slice(0, SHOWN).map((each) => h("div", null, visible(each) || " ")), some.length > SHOWN ? h("p", { class: "faint" }, `${count(some.length - SHOWN, "more line")}`) : null];

function doubt(each, number, draft, draw, words, picks) {
  const pick = (name) => { draft.picked.set(number, name); draw(); };
  const picked = draft.picked.get(number);
  const side = (name, title, text) => h("div", { class: name, data: { picked: String(picked === name || (picked === "both" && name !== "base")) } },
    h("small", null, title), h("div", { class: "code" }, text ? shownLines(lines(text)) : h("i", { class: "faint" }, "nothing")));
  const button = (name, label) => h("button", { class: "button", "aria-pressed": String(picked === name), data: { pick: name }, onClick: () => pick(name) }, label);
  return h("div", { class: "doubt" },
    h("div", { class: "sides" }, each.base === null ? null : side("base", "Before", each.base), side("tree", words.tree, each.tree), side("apart", words.apart, each.apart)),
    picks ? h("div", { class: "bar" }, h("span", { class: "soft" }, "Have it"), button("tree", words.tree), button("apart", words.apart), each.tree && each.apart ? button("both", "Both") : null) : null);
}

// A field for text knows one kind of line end: the file keeps its own.
function edited(file, draft, settled, draw) {
  const ends = file.sides.some((each) => (each.text ?? each.tree).includes("\r\n")) ? "\r\n" : "\n";
  const area = h("textarea", { class: "input mono", rows: "16", spellcheck: "false", "aria-label": `Text of ${plain(file.path)}`, value: draft.text, onInput: () => { draft.text = area.value; }, onBlur: () => { draft.caret = area.selectionStart; } });
  // Where somebody types in a field that is drawn again, they go on in the new one.
  requestAnimationFrame(() => { if (document.activeElement === document.body) { area.focus(); area.setSelectionRange(draft.caret, draft.caret); } });
  return h("div", { class: "edited" }, draft.late ? h("div", { class: "notice" }, h("b", null, "It was changed since you began."), "Your text is here still: Cancel shows what stands on both sides now.") : null, area, h("div", { class: "bar" },
    h("button", { class: "button main", onClick: () => settled({ text: area.value.replaceAll(/\r?\n/g, ends) }) }, icon("check"), "Use this text"),
    h("button", { class: "button", onClick: () => { draft.text = null; draft.late = false; draw(); } }, "Cancel")));
}
