// Parts of a long page that are in it only while they can be seen. What goes leaves its height
// behind, so that nothing moves under whoever reads.

import { fill } from "./dom.js";

const NEAR = "800px", FRAME_MS = 4;

export class Windows {
  // `scroller` is what is scrolled, the whole page where none is given.
  constructor(scroller = null) {
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

  // `draw()` makes what stands in the element while that can be seen, or promises it; `height` is
  // what it may come to.
  add(element, height, draw) {
    element.style.minHeight = `${height}px`;
    element.dataset.window = "";
    this.parts.set(element, { draw, drawn: false });
    this.observer.observe(element);
    return element;
  }

  // The height is as it was observed: to ask for it here would have all of the page laid out anew.
  turn(element, seen, height) {
    const part = this.parts.get(element);
    if (!part || part.drawn === seen || !element.isConnected) return;
    part.drawn = seen;
    if (seen) { this.draw(element, part); return; }
    element.style.minHeight = `${height}px`;
    this.forget(element);
    fill(element);
  }

  draw(element, part) {
    const made = part.draw();
    if (!(made instanceof Promise)) { this.put(element, made); return; }
    made.then((nodes) => { if (part.drawn && element.isConnected) this.put(element, nodes); });
  }

  put(element, nodes) {
    this.forget(element);
    fill(element, nodes);
    element.style.minHeight = "";
  }

  // Draw again what can be seen of it.
  again(element) {
    const part = this.parts.get(element);
    if (part?.drawn && element.isConnected) this.draw(element, part);
  }

  forget(element) { for (const inner of element.querySelectorAll("[data-window]")) this.observer.unobserve(inner); }

  close() { this.observer.disconnect(); cancelAnimationFrame(this.frame); }
}
