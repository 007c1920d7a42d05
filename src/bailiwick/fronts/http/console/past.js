// What was changed in this root, newest first: first what its history kept, then what happens just
// now. A root without history shows what came while the page was open, and says so.

import * as api from "./api.js";
import { changes, has, on } from "./state.js";

const PAGE = 500;

const nameOf = (each) => `${each.version}\n${each.kind}\n${each.path}`;

export class Past {
  // `changed()` is called whenever the list is another.
  constructor(changed) {
    this.changed = changed;
    this.kept = has("history");
    this.entries = this.kept ? [] : [...changes];
    this.known = new Set(this.entries.map(nameOf));
    this.cursor = null;
    this.complete = !this.kept;
    this.error = null;
    this.forget = on("change", (change) => this.hear(change));
  }

  hear(change) {
    if (this.known.has(nameOf(change))) return;
    this.known.add(nameOf(change));
    this.entries.unshift(change);
    this.changed();
  }

  // One page further into the past. Asked twice at once it answers twice with the same page.
  further() {
    if (this.complete) return Promise.resolve();
    this.coming ??= this.load().finally(() => { this.coming = null; });
    return this.coming;
  }

  async load() {
    try {
      const answer = await api.get("/history", { limit: PAGE, cursor: this.cursor });
      const older = answer.versions.filter((each) => each.path !== "." && !this.known.has(nameOf(each)));
      for (const each of older) this.known.add(nameOf(each));
      this.entries.push(...older);
      this.cursor = answer.nextCursor;
      this.complete = !answer.nextCursor;
    } catch (error) { this.error = error; this.complete = true; }
    this.changed();
  }

  // Pages until everything since then is there, or `most` entries are.
  async since(time, most) {
    while (!this.complete && this.entries.length < most && (this.entries.at(-1)?.timeMs ?? Infinity) >= time) await this.further();
  }

  close() { this.forget(); }
}
