// The files that a run changed, or that a working copy or a fork would change, however many: which
// there are comes page by page, the lines of one when it is seen.

import { h, fill, icon } from "./dom.js";
import * as api from "./api.js";
import { link } from "./router.js";
import { fromLines } from "./difference.js";
import { plain } from "./words.js";
import { settling } from "./settling.js";
import { Windows } from "./windows.js";

const PAGE = 1000, WORK_PAGE = 100, CARDS_AT_A_TIME = 25, CARD = 46, HUNK = 34, LINE = 20, LINES_GUESSED = 60, FRAMES = 20;
const TONES = { created: "good", deleted: "bad", moved: "warn", updated: "accent" };

const guess = (change) => (change.reviewedCount >= change.hunkCount ? 0 : Math.min(LINES_GUESSED, change.added + change.removed + 6 * change.hunkCount) * LINE) + Math.min(LINES_GUESSED, change.hunkCount) * HUNK;

// Where changes come from: `name` is what it is called in verdicts, `page` lists some of them, `one`
// tells the lines of one, `inTree` says that their files can be looked at, `words` are what there is
// to say of them.
export function ofRun(run) {
  const route = `/runs/${encodeURIComponent(run.id)}/changes`;
  return {
    name: run.id,
    page: (cursor) => api.get(route, { brief: true, limit: PAGE, cursor }),
    one: async (path) => (await api.get(route, { path, limit: 1 })).changes.find((each) => each.path === path),
    inTree: true,
    words: { none: "Nothing is different because of it.", accept: "I have looked at it and agree (y)", reject: "Take it back and say why (r)" },
  };
}

export const ofWork = (work) => apart(work.id, { work: work.id }, { none: "Nothing is left in it.", accept: "Have these lines in the tree (y)", reject: "Give them up and say why (r)", tree: "In the tree", apart: "Not applied", whole: "All as the agent left it" });
export const ofFork = (name) => apart(name, { ofFork: name }, { none: "There is nothing to take over.", accept: "Have these lines here, too (y)", reject: "Take them out of the fork and say why (r)", tree: "Here", apart: "In the fork", whole: "All as in the fork" });

function apart(name, of, words) {
  const ask = (part) => api.get("/review", { ...of, ...part });
  const listed = ({ hunks, ...file }) => ({ ...file, hunkCount: hunks.length, reviewedCount: 0 });
  const stands = (file) => file && { ...file, hunks: file.hunks.map((each) => ({ ...each, state: "stands" })), others: [] };
  return {
    name,
    page: async (cursor) => { const { files, ...told } = await ask({ limit: WORK_PAGE, cursor }); return { ...told, changes: files.map(listed) }; },
    one: async (path) => stands((await ask({ path, limit: 1 })).files.find((each) => each.path === path)),
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
    // What the pieces that are on show are called, by file: what was written since is not agreed to
    // with them.
    this.shown = new Map();
    this.end = h("div", { class: "end" });
    this.element = h("div", { class: "scroll grow hunks" }, this.end);
    this.windows = new Windows(this.element);
    this.ending = new IntersectionObserver((entries) => { if (entries.some((each) => each.isIntersecting)) this.further(); }, { root: this.element, rootMargin: "2000px" });
  }

  async begin() {
    await this.load();
    this.ending.observe(this.end);
  }

  further() {
    if (!this.cursor || this.coming) return;
    this.coming = this.load().catch((error) => { fill(this.end, h("div", { class: "empty" }, plain(error.message))); this.cursor = null; }).finally(() => {
      this.coming = null;
      // Whoever is at the end already is not told so again.
      this.ending.unobserve(this.end);
      this.ending.observe(this.end);
    });
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
    const whole = change.against || change.reviewedCount >= change.hunkCount ? null : h("button", { class: "button quiet", disabled: true, title: change.carried ? `Accept the move of ${plain(change.carried)}` : "Accept all that is left of this file", data: { accepts: change.path }, onClick: () => this.actions.accept(this.shown.get(change.path)) }, icon("check"), h("span", { class: "only-wide" }, change.carried ? "Move" : "File"));
    this.windows.add(body, guess(change), () => this.hunks(change, whole));
    return h("section", { class: "card" },
      h("header", null, h("span", { class: `chip ${change.against ? "bad" : TONES[change.kind] ?? ""}` }, change.against ? "conflict" : change.kind), change.kind === "deleted" || !this.source.inTree ? h("b", { class: "grow cut" }, name) : h("a", { class: "grow cut", href: link(change.type === "directory" ? "files" : "file", change.path) }, name), change.type === "file" ? h("span", { class: "soft" }, `+${change.added} −${change.removed}`) : null,
        whole,
        this.actions.undo ? h("button", { class: "button quiet", title: "Take back what the run did to this file", onClick: () => this.actions.undo({ paths: [change.path] }, name) }, icon("back"), h("span", { class: "only-wide" }, "File")) : null), body);
  }

  async hunks(change, whole) {
    let found;
    try { found = await this.source.one(change.path); } catch (error) { return h("p", { class: "soft padded" }, plain(error.message)); }
    if (!found) return h("p", { class: "soft padded" }, "Nothing is different here any more.");
    queueMicrotask(() => this.loaded(change.path));
    const names = [...new Set(found.hunks.filter((each) => each.state === "stands" && !each.reviewed).map((each) => this.named(found, each)))];
    this.shown.set(change.path, names);
    if (whole) whole.disabled = !names.length;
    return [found.against ? h("p", { class: "soft reason" }, `${plain(found.against)}.`) : null,
      found.replaces ? h("p", { class: "reason" }, h("span", { class: "chip warn" }, "over another"), " Something else stood there, and is gone. It comes back when this is taken back.") : null,
      found.hunks.map((each) => this.hunk(found, each)),
      found.others.map((each) => h("div", { class: "hunk others" }, h("div", { class: "bar" }, h("span", { class: "chip" }, `meanwhile, ${plain(each.subject || "another program")}`)), fromLines([each.header, ...each.lines], this.windows)))];
  }

  // What came with a directory that was moved is said of all of that, as it was listed.
  named(change, hunk) { return change.carried ? asShown(`${this.source.name}:${change.carried}`, this.version) : named(change, hunk); }

  hunk(change, each) {
    const shown = this.named(change, each), what = change.carried ? `the move of ${plain(change.carried)}` : "these lines";
    const settles = change.against ? settling(change, shown, this.actions.accept, this.source) : null;
    const stands = each.state === "stands", { accept, reject, undo } = this.actions, { words } = this.source;
    return h("div", { class: each.id === this.marked ? "hunk marked" : "hunk", tabindex: "-1", data: { hunk: each.id, state: each.state } },
      h("div", { class: "bar" }, h("span", { class: "grow faint mono cut" }, each.lines.length || each.reviewed === "accepted" ? plain(each.header) : ""),
        each.reviewed ? h("span", { class: `chip ${each.reviewed === "accepted" ? "good" : "bad"}` }, plain(each.reviewed)) : null,
        stands ? [each.reviewed || change.against ? null : h("button", { class: "button quiet", title: change.carried ? `It comes with all of ${what} (y)` : words.accept, data: { key: "y" }, onClick: () => accept([shown]) }, icon("check"), change.carried ? `Accept ${what}` : "Accept"),
          h("button", { class: "button quiet", title: words.reject, data: { key: "r" }, onClick: () => reject([shown], what) }, icon("cross"), "Reject"),
          undo ? h("button", { class: "button quiet", title: "Take it back without a word (u)", data: { key: "u" }, onClick: () => undo({ paths: [change.path], hunks: [each.id] }, "these lines") }, icon("back"), h("span", { class: "only-wide" }, "Take back")) : null] : each.reviewed ? null : h("span", { class: "chip" }, each.state === "undone" ? "taken back" : "changed by others since")),
      each.reviewed === "accepted" ? null : change.sides?.length ? null : each.lines.length ? fromLines([each.header, ...each.lines], this.windows) : h("p", { class: "soft reason" }, plain(each.header)), settles);
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

  // Something was done: what can be seen is asked for again, and keeps its place.
  again() {
    for (const body of this.element.querySelectorAll("[data-path]")) this.windows.again(body);
  }

  // --- by keyboard -------------------------------------------------------------------------------

  step(direction) {
    const hunks = [...this.element.querySelectorAll(".hunk[data-hunk]")];
    const at = hunks.findIndex((each) => each.dataset.hunk === this.marked);
    const next = hunks[at < 0 ? 0 : at + direction];
    if (next && !this.waitsBetween(hunks[at], next)) { this.mark(next); return; }
    const bodies = [...this.element.querySelectorAll("[data-path]")], here = bodies.findIndex((each) => each.contains(hunks[at] ?? null));
    const body = bodies[here + direction];
    if (!body) return;
    this.wanted = { path: body.dataset.path, direction };
    body.scrollIntoView({ block: "nearest" });
  }

  // Whether lines that are not here yet lie between two that are.
  waitsBetween(one, other) {
    if (!one) return false;
    const bodies = [...this.element.querySelectorAll("[data-path]")], at = (hunk) => bodies.findIndex((each) => each.contains(hunk));
    return Math.abs(at(one) - at(other)) > 1;
  }

  loaded(path) {
    if (this.wanted?.path !== path) return;
    const { direction } = this.wanted, body = [...this.element.querySelectorAll("[data-path]")].find((each) => each.dataset.path === path);
    const hunks = [...(body?.querySelectorAll(".hunk[data-hunk]") ?? [])];
    this.wanted = null;
    if (hunks.length) this.mark(hunks.at(direction > 0 ? 0 : -1));
  }

  mark(hunk) {
    this.marked = hunk.dataset.hunk;
    for (const each of this.element.querySelectorAll(".hunk.marked")) each.classList.remove("marked");
    hunk.classList.add("marked");
    hunk.scrollIntoView({ block: "nearest" });
  }

  // Through the hunks by keyboard: n and p from one to the next; y agrees with the marked one, r
  // rejects it, u takes it back.
  key(event) {
    const step = { n: 1, p: -1 }[event.key];
    if (!(step || "yru".includes(event.key))) return false;
    if (step) this.step(step); else this.press(event.key);
    return true;
  }

  press(key) { this.element.querySelector(`.hunk.marked [data-key=${key}]`)?.click(); }

  close() { this.windows.close(); this.ending.disconnect(); }
}
