// Parts of a long page that are in it only while they can be seen. What goes leaves its height
// behind, so that nothing moves under whoever reads.

import { fill } from "./dom.js";

const NEAR = "800px", FRAME_MS = 4;

export const AS_IT_STANDS = Symbol("as it stands");

export class Windows {
  // `scroller` is what is scrolled, the whole page where none is given; `put(element)` is told of
  // each part that stands there now.
  constructor(scroller = null, put = () => {}) {
    this.told = put;
    this.parts = new WeakMap();
    this.turns = new Map();
    this.observer = new IntersectionObserver((entries) => { for (const each of entries) this.turns.set(each.target, each); this.work(); }, { root: scroller, rootMargin: NEAR });
  }

  // A little in each frame, so that the page answers in between: what is made has to be laid out,
  // too, which takes several times as long.
  work() {
    this.frame ??= requestAnimationFrame(() => {
      const until = performance.now() + FRAME_MS;
      this.frame = null;
      for (const [element, seen] of this.turns) {
        this.turns.delete(element);
        this.turn(element, seen.isIntersecting, seen.boundingClientRect.height);
        if (performance.now() > until) break;
      }
      if (this.turns.size) this.work();
    });
  }

  // `draw(signal)` makes what stands in the element while that can be seen, or promises it, or says
  // that it is `AS_IT_STANDS`; `height` is what it may come to. The signal is told when it goes:
  // nothing is waited for any more then.
  add(element, height, draw) {
    element.style.minHeight = `${height}px`;
    element.dataset.window = "";
    this.parts.set(element, { draw, drawn: false, stands: false, going: null });
    this.observer.observe(element);
    return element;
  }

  // The height is as it was observed: to ask for it here would have all of the page laid out anew.
  turn(element, seen, height) {
    const part = this.parts.get(element);
    if (!part || part.drawn === seen || !element.isConnected) return;
    part.drawn = seen;
    part.stands = false;
    if (seen) { this.draw(element, part); return; }
    element.style.minHeight = `${height}px`;
    part.going?.abort();
    this.forget(element);
    fill(element);
  }

  draw(element, part) {
    const before = part.going, going = part.going = new AbortController();
    going.signal.addEventListener("abort", () => before?.abort());
    const put = (nodes) => { if (nodes !== AS_IT_STANDS && !going.signal.aborted && part.drawn && element.isConnected) { this.put(element, nodes); before?.abort(); } };
    const made = part.draw(going.signal);
    if (made instanceof Promise) made.then(put, (error) => put(String(error.message))); else put(made);
  }

  put(element, nodes) {
    this.forget(element);
    fill(element, nodes);
    element.style.minHeight = "";
    this.parts.get(element).stands = true;
    this.told(element);
  }

  // Whether it is still to come.
  waits(element) { return this.parts.get(element)?.stands === false; }

  // Draw again what can be seen of it.
  again(element) {
    const part = this.parts.get(element);
    if (part?.drawn && element.isConnected) this.draw(element, part);
  }

  forget(element) {
    for (const inner of element.querySelectorAll("[data-window]")) {
      this.observer.unobserve(inner);
      this.parts.get(inner)?.going?.abort();
    }
  }

  close() { this.observer.disconnect(); cancelAnimationFrame(this.frame); }
}
