// What the page has read beside it, in `reader.js`: one reader for all of the console.

let reader = null, numbers = 0;
const waiting = new Map();

function ask(what, values, moved = []) {
  if (!reader) {
    reader = new Worker(new URL("./reader.js", import.meta.url), { type: "module" });
    reader.addEventListener("message", ({ data: [number, answer, wrong] }) => {
      const { done, fail } = waiting.get(number);
      waiting.delete(number);
      if (wrong === null) done(answer); else fail(new Error(wrong));
    });
    // It did not even begin: whoever waits is told, and the next one tries again.
    reader.addEventListener("error", () => {
      for (const { fail } of waiting.values()) fail(new Error("the difference cannot be read"));
      waiting.clear();
      reader = null;
    });
  }
  const number = numbers += 1;
  return new Promise((done, fail) => { waiting.set(number, { done, fail }); reader.postMessage([number, what, values], moved); });
}

// The difference of one file, kept beside the page until it is closed.
export class Difference {
  // What was read `before` is the answer where nothing is different since.
  static async read(bytes, path, before = null) {
    const found = await ask("file", [bytes, path, before?.key], [bytes]);
    return found && (found.key === before?.key ? before : new Difference(found));
  }

  // `file` is what was told of it besides its pieces, `first` the first of those, or parts of them;
  // `left` is of how many nobody has said anything.
  constructor({ key, file, left, first }) { Object.assign(this, { key, file, left, first }); }
  pieces(from, to) { return ask("pieces", [this.key, from, to]); }
  rows(at, from, to) { return ask("rows", [this.key, at, from, to]); }
  namesLeft() { return ask("left", [this.key]); }
  close() { ask("drop", [this.key]).catch(() => {}); }
}
