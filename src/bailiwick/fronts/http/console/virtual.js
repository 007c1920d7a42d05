// A list of any length: only the rows that can be seen are in the page.

import { h, fill } from "./dom.js";

export class VirtualList {
  // `render(index)` makes the row; `more()` is called when the end comes near.
  constructor({ rowHeight, render, more = () => {} }) {
    this.rowHeight = rowHeight;
    this.render = render;
    this.more = more;
    this.count = 0;
    this.rows = new Map();
    this.space = h("div", { class: "space" });
    this.element = h("div", { class: "virtual", tabindex: "-1" }, this.space);
    this.element.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.element);
  }

  setCount(count) {
    this.count = count;
    this.space.style.height = `${count * this.rowHeight}px`;
    this.redraw();
  }

  redraw() {
    this.rows.clear();
    fill(this.space);
    this.draw();
  }

  schedule() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  draw() {
    const top = this.element.scrollTop, height = this.element.clientHeight || 600;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - 8);
    const last = Math.min(this.count, Math.ceil((top + height) / this.rowHeight) + 8);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) { row.remove(); this.rows.delete(index); }
    }
    for (let index = first; index < last; index += 1) {
      if (this.rows.has(index)) continue;
      const row = this.render(index);
      row.style.top = `${index * this.rowHeight}px`;
      this.rows.set(index, row);
      this.space.append(row);
    }
    if (last >= this.count - 40) this.more();
  }

  show(index) {
    const top = index * this.rowHeight, height = this.element.clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > this.element.scrollTop + height) this.element.scrollTop = top + this.rowHeight - height;
    this.draw();
  }

  close() { this.observer.disconnect(); }
}
