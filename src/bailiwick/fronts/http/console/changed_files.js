// The files that a run changed, or that a working copy or a fork would change, however many: which
// there are comes page by page, the lines of one when it is seen.

import { h, fill, icon } from "./dom.js";
import * as api from "./api.js";
import { link } from "./router.js";
import { ROW, table } from "./difference.js";
import { Difference } from "./reading.js";
import { plain } from "./words.js";
import { settling } from "./settling.js";
import { complain } from "./dialogs.js";
import { AS_IT_STANDS, Windows } from "./windows.js";

const PAGE = 1000, CARDS_AT_A_TIME = 25, CARD = 46, HUNK = 36, FRAMES = 20;
const TONES = { created: "good", deleted: "bad", moved: "warn", updated: "accent" };

// Around what was changed in a file that stays are lines that were not; what is agreed to is folded.
const rows = (change) => (change.reviewedCount >= change.hunkCount ? 0 : change.added + change.removed + (change.kind === "updated" ? 6 * change.hunkCount : 0));
const guess = (change) => rows(change) * ROW + change.hunkCount * HUNK;

// Where changes come from: `name` is what it is called in verdicts, `page` lists some of them
// without their lines, `one` are the bytes that tell the lines of one, `inTree` says that their
// files can be looked at, `words` are what there is to say of them.
export function ofRun(run) {
  const route = `/runs/${encodeURIComponent(run.id)}/changes`;
  return {
    name: run.id,
    page: (cursor) => api.get(route, { brief: true, limit: PAGE, cursor }),
    one: (path, signal) => api.bytes(route, { path, limit: 1 }, { signal }),
    inTree: true,
    words: { none: "Nothing is different because of it.", accept: "I have looked at it and agree (y)", reject: "Take it back and say why (r)" },
  };
}

export const ofWork = (work) => apart(work.id, { work: work.id }, { none: "Nothing is left in it.", accept: "Have these lines in the tree (y)", reject: "Give them up and say why (r)", tree: "In the tree", apart: "Not applied", whole: "All as the agent left it" });
export const ofFork = (name) => apart(name, { ofFork: name }, { none: "There is nothing to take over.", accept: "Have these lines here, too (y)", reject: "Take them out of the fork and say why (r)", tree: "Here", apart: "In the fork", whole: "All as in the fork" });

function apart(name, of, words) {
  return {
    name,
    page: async (cursor) => {
      const { files, ...rest } = await api.get("/review", { ...of, brief: true, limit: PAGE, cursor });
      return { ...rest, changes: files.map((each) => ({ ...each, reviewedCount: 0 })) };
    },
    one: (path, signal) => api.bytes("/review", { ...of, path, limit: 1 }, { signal }),
    inTree: false,
    words,
  };
}

// With the version that it was shown with: the same lines changed elsewhere meanwhile are others.
export const asShown = (name, version) => `${name}@${version}`;
const named = (change, hunk) => (change.version ? asShown(hunk.id, change.version) : hunk.id);

export class ChangedFiles {
  // `actions` are what a person may do: accept and reject hunks, and, of what is in the tree, undo.
  constructor(source, actions) {
    this.source = source;
    this.actions = actions;
    this.changes = [];
    this.cursor = null;
    this.marked = null;
    // What is on show of each file, as it was read: what was written since is not agreed to with it.
    this.shown = new Map();
    this.end = h("div", { class: "end" });
    this.element = h("div", { class: "scroll grow hunks" }, this.end);
    this.windows = new Windows(this.element, (part) => this.drawn(part));
  }

  async begin() {
    await this.load();
    this.toLast();
  }

  // Until nothing is left to list.
  async toLast() { while (this.cursor && !this.closed) await this.further(); }

  further() {
    if (!this.cursor) return null;
    return this.coming ??= this.load().catch((error) => { fill(this.end, h("div", { class: "empty" }, plain(error.message))); this.cursor = null; }).finally(() => { this.coming = null; });
  }

  async load() {
    const told = await this.source.page(this.cursor);
    // Of all of it: what came since the first page is not agreed to with it.
    this.version ??= told.version;
    this.left = told.left;
    this.cursor = told.nextCursor ?? null;
    for (let at = 0; at < told.changes.length; at += CARDS_AT_A_TIME) {
      const some = told.changes.slice(at, at + CARDS_AT_A_TIME);
      const height = some.reduce((sum, each) => sum + CARD + guess(each) + 12, 0);
      this.end.before(this.windows.add(h("div", { class: "cards" }), height, () => some.map((each) => this.card(each))));
    }
    this.changes.push(...told.changes);
    fill(this.end, this.changes.length ? null : h("div", { class: "empty" }, this.source.words.none),
      told.truncated && !this.cursor ? h("div", { class: "empty" }, "There is more than is shown here.") : null);
  }

  card(change) {
    const body = h("div", { data: { path: change.path } }), name = change.origin ? `${plain(change.origin)} → ${plain(change.path)}` : plain(change.path);
    // What nobody was shown yet is not agreed to.
    const whole = change.against || change.reviewedCount >= change.hunkCount ? null : h("button", { class: "button quiet", disabled: true, title: change.carried ? `Accept the move of ${plain(change.carried)}` : "Accept all that is left of this file", data: { accepts: change.path }, onClick: () => this.acceptShown(change.path).catch(complain) }, icon("check"), h("span", { class: "only-wide" }, change.carried ? "Move" : "File"));
    this.windows.add(body, guess(change), (signal) => this.hunks(change, whole, signal));
    return h("section", { class: "card" },
      h("header", null, h("span", { class: `chip ${change.against ? "bad" : TONES[change.kind] ?? ""}` }, change.against ? "conflict" : change.kind), change.kind === "deleted" || !this.source.inTree ? h("b", { class: "grow cut" }, name) : h("a", { class: "grow cut", href: link(change.type === "directory" ? "files" : "file", change.path) }, name), change.type === "file" ? h("span", { class: "soft" }, `+${change.added} −${change.removed}`) : null,
        whole,
        this.actions.undo ? h("button", { class: "button quiet", title: "Take back what the run did to this file", onClick: () => this.actions.undo({ paths: [change.path] }, name) }, icon("back"), h("span", { class: "only-wide" }, "File")) : null), body);
  }

  async hunks(change, whole, signal) {
    const before = this.shown.get(change.path);
    let read;
    try { read = await Difference.read(await this.source.one(change.path, signal), change.path, before); } catch (error) { return h("p", { class: "soft padded" }, plain(error.message)); }
    if (!read) return h("p", { class: "soft padded" }, "Nothing is different here any more.");
    if (read === before) return AS_IT_STANDS;
    if (signal.aborted || this.closed) { read.close(); return null; }
    signal.addEventListener("abort", () => this.unshow(read, whole));
    this.shown.set(change.path, read);
    if (whole) whole.disabled = !read.left;
    const { file } = read;
    return [file.against ? h("p", { class: "soft reason" }, `${plain(file.against)}.`) : null,
      file.replaces ? h("p", { class: "reason" }, h("span", { class: "chip warn" }, "over another"), " Something else stood there, and is gone. It comes back when this is taken back.") : null,
      this.pieces(read, read.first)];
  }

  unshow(read, whole) {
    read.close();
    if (this.shown.get(read.file.path) !== read) return;
    this.shown.delete(read.file.path);
    if (whole) whole.disabled = true;
  }

  async acceptShown(path) {
    const read = this.shown.get(path), ids = await read.namesLeft();
    await this.actions.accept([...new Set(ids.map((id) => this.named(read.file, { id })))]);
  }

  // Few pieces of a file, or parts of many.
  pieces(read, { from, pieces, parts }) {
    if (pieces) return pieces.map((each, at) => this.piece(read, each, from + at));
    return parts.map((part) => this.windows.add(h("div"), part.rows * ROW + (part.to - part.from) * HUNK, async () => this.pieces(read, await read.pieces(part.from, part.to))));
  }

  piece(read, each, at) {
    const rows = () => table((from, to) => (each.rows ? each.rows.slice(from, to) : read.rows(at, from, to)), 0, each.rowCount, this.windows);
    if (!each.isOthers) return this.hunk(read.file, each, rows);
    return h("div", { class: "hunk others" }, h("div", { class: "bar" }, h("span", { class: "chip" }, `meanwhile, ${plain(each.subject || "another program")}`)), rows());
  }

  // What came with a directory that was moved is said of all of that, as it was listed.
  named(change, hunk) { return change.carried ? asShown(`${this.source.name}:${change.carried}`, this.version) : named(change, hunk); }

  hunk(change, each, rows) {
    const shown = this.named(change, each), what = change.carried ? `the move of ${plain(change.carried)}` : "these lines";
    const settles = change.against ? settling(change, shown, this.actions.accept, this.source) : null;
    const stands = each.state === "stands", { accept, reject, undo } = this.actions, { words } = this.source;
    return h("div", { class: each.id === this.marked ? "hunk marked" : "hunk", tabindex: "-1", data: { hunk: each.id, state: each.state } },
      h("div", { class: "bar" }, h("span", { class: "grow faint mono cut" }, each.rowCount || each.reviewed === "accepted" ? plain(each.header) : ""),
        each.reviewed ? h("span", { class: `chip ${each.reviewed === "accepted" ? "good" : "bad"}` }, plain(each.reviewed)) : null,
        stands ? [each.reviewed || change.against ? null : h("button", { class: "button quiet", title: change.carried ? `It comes with all of ${what} (y)` : words.accept, data: { key: "y" }, onClick: () => accept([shown]) }, icon("check"), change.carried ? `Accept ${what}` : "Accept"),
          h("button", { class: "button quiet", title: words.reject, data: { key: "r" }, onClick: () => reject([shown], what) }, icon("cross"), "Reject"),
          undo ? h("button", { class: "button quiet", title: "Take it back without a word (u)", data: { key: "u" }, onClick: () => undo({ paths: [change.path], hunks: [each.id] }, "these lines") }, icon("back"), h("span", { class: "only-wide" }, "Take back")) : null] : each.reviewed ? null : h("span", { class: "chip" }, each.state === "undone" ? "taken back" : "changed by others since")),
      each.reviewed === "accepted" ? null : change.sides?.length ? null : each.rowCount ? rows() : h("p", { class: "soft reason" }, plain(each.header)), settles);
  }

  // Where somebody reads, to be found again in a list that was made anew: by its file, or by what
  // followed it where that is settled; heights are only guessed at first.
  place() {
    const top = this.element.getBoundingClientRect().top, bodies = [...this.element.querySelectorAll("[data-path]")];
    const at = bodies.findIndex((each) => each.getBoundingClientRect().bottom > top);
    return at < 0 ? null : { at: this.element.scrollTop, paths: bodies.slice(at).map((each) => each.dataset.path), offset: bodies[at].getBoundingClientRect().top - top };
  }

  goTo(place, frames = FRAMES) {
    if (!place || !frames) return;
    if (frames === FRAMES) this.element.scrollTop = place.at;
    requestAnimationFrame(() => {
      const bodies = new Map([...this.element.querySelectorAll("[data-path]")].map((each) => [each.dataset.path, each]));
      const path = place.paths.find((each) => bodies.has(each));
      if (path === undefined) this.goTo(place, frames - 1);
      else this.element.scrollTop += bodies.get(path).getBoundingClientRect().top - this.element.getBoundingClientRect().top - (path === place.paths[0] ? place.offset : 2 * CARD);
    });
  }

  // Somebody is in the middle of choosing or typing: nothing moves under them.
  get settles() { return Boolean(document.activeElement?.closest(".settling textarea")); }

  // Whether another list is this one once more.
  lists(other) { return this.version === other.version && JSON.stringify(this.changes) === JSON.stringify(other.changes); }

  // Something was done: what can be seen is asked for again, and keeps its place.
  again() {
    for (const body of this.element.querySelectorAll("[data-path]")) this.windows.again(body);
  }

  // --- by keyboard -------------------------------------------------------------------------------

  // Hunks, and what is still to come between them, in their order.
  places(within = this.element, besides = null) { return [...within.querySelectorAll(".hunk[data-hunk], [data-window]")].filter((each) => each === besides || each.matches(".hunk") || (this.windows.waits(each) && !each.closest(".hunk"))); }

  step(direction) {
    const places = this.places(), at = places.findIndex((each) => each.dataset.hunk && each.dataset.hunk === this.marked), { top, bottom } = this.element.getBoundingClientRect();
    const seen = places.filter((each) => { const at = each.getBoundingClientRect(); return at.bottom > top && at.top < bottom; });
    // What is drawn anew just now may be what is marked: it is gone on from there when it stands.
    this.later = at < 0 && this.marked && seen.some((each) => !each.matches(".hunk")) ? direction : 0;
    if (!this.later) this.toPlace(at < 0 ? seen[0] : places[at + direction], direction);
  }

  toPlace(place, direction) {
    this.wanted = null;
    if (!place) return;
    if (place.matches(".hunk")) { this.mark(place); return; }
    this.wanted = { place, direction };
    place.scrollIntoView({ block: direction > 0 ? "start" : "end" });
  }

  // Something came: who waited for it goes on to its first lines, or its last.
  drawn(part) {
    if (this.later) { this.step(this.later); return; }
    if (this.wanted?.place !== part) return;
    const { direction } = this.wanted, inside = this.places(part).at(direction > 0 ? 0 : -1);
    if (inside) { this.toPlace(inside, direction); return; }
    const places = this.places(this.element, part);
    this.toPlace(places[places.indexOf(part) + direction], direction);
  }

  mark(hunk) {
    this.marked = hunk.dataset.hunk;
    for (const each of this.element.querySelectorAll(".hunk.marked")) each.classList.remove("marked");
    hunk.classList.add("marked");
    hunk.scrollIntoView({ block: "nearest" });
  }

  // To one end of the list. What is drawn there has another height than was guessed: it is followed
  // until it stands, or somebody goes elsewhere.
  async toEnd() {
    const gone = new AbortController(), leave = () => gone.abort();
    for (const what of ["wheel", "pointerdown", "keydown"]) addEventListener(what, leave, { signal: gone.signal, once: true, capture: true });
    await this.toLast();
    for (let still = 0; still < FRAMES && !gone.signal.aborted && !this.closed; still += 1) {
      const { scrollTop, clientHeight, scrollHeight } = this.element;
      if (scrollTop + clientHeight < scrollHeight - 1 || this.waitsInView()) still = 0;
      this.element.scrollTop = scrollHeight;
      await new Promise(requestAnimationFrame);
    }
    leave();
  }

  waitsInView() {
    const last = [...this.element.querySelectorAll(":scope > [data-window]")].at(-1);
    return Boolean(last) && (this.windows.waits(last) || [...last.querySelectorAll("[data-path]")].slice(-3).some((each) => this.windows.waits(each)));
  }

  // Through the hunks by keyboard: n and p from one to the next; y agrees with the marked one, r
  // rejects it, u takes it back. Through the list wherever the focus is.
  key(event) {
    const step = { n: 1, p: -1 }[event.key], page = { PageDown: 0.9, PageUp: -0.9 }[event.key];
    if (step) this.step(step);
    else if (event.key === "End") this.toEnd();
    else if (event.key === "Home") this.element.scrollTop = 0;
    else if (page) this.element.scrollBy(0, page * this.element.clientHeight);
    else if ("yru".includes(event.key)) this.press(event.key);
    else return false;
    return true;
  }

  press(key) { this.element.querySelector(`.hunk.marked [data-key=${key}]`)?.click(); }

  close() {
    this.closed = true;
    this.windows.close();
    for (const read of this.shown.values()) read.close();
  }
}
