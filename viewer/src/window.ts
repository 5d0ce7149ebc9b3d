// SPDX-License-Identifier: Apache-2.0
// The part of the time that is shown, shared by the timeline and the address map, and the moments that were chosen.

import type { AxisKind } from "./axis";

export interface View {
  kind: AxisKind;
  begin: number; // parts of the whole axis, 0 to 1
  end: number;
  moment: number; // of the flame graph: a part of the trace, as axis.ts has it
  other: number | null; // what it is compared with
  grouping: number;
  only: number | null; // the one group of it that is shown; null: all are
}

export class Shown {
  readonly view: View;
  private readonly listeners: ((all: boolean) => void)[] = [];
  private waiting = false;

  constructor(moment: number, grouping: number, kind: AxisKind = "time") {
    this.view = { kind, begin: 0, end: 1, moment, other: null, grouping, only: null };
  }

  // `all` is true if what cannot be seen is to be drawn too.
  listen(listener: (all: boolean) => void): void {
    this.listeners.push(listener);
  }

  // The views that listened are gone.
  forget(): void {
    this.listeners.length = 0;
  }

  draw(all: boolean): void {
    for (const listener of this.listeners) {
      listener(all);
    }
  }

  // Draws once before the next frame, however many changes there were.
  changed(): void {
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.draw(false);
      });
    }
  }

  range(begin: number, end: number): void {
    const least = 1e-7;
    const width = Math.min(1, Math.max(least, end - begin));
    const from = Math.min(1 - width, Math.max(0, begin));
    this.view.begin = from;
    this.view.end = from + width;
    this.changed();
  }

  // Shows one group alone, or all if it is shown alone already.
  isolate(grouping: number, only: number | null): void {
    const same = this.view.grouping === grouping && this.view.only === only;
    this.view.grouping = grouping;
    this.view.only = same ? null : only;
    this.changed();
  }

  zoom(factor: number, around: number): void {
    const { begin, end } = this.view;
    this.range(around - (around - begin) * factor, around + (end - around) * factor);
  }

  pan(by: number): void {
    const width = this.view.end - this.view.begin;
    this.range(this.view.begin + by * width, this.view.begin + by * width + width);
  }
}

// Draws an element after changes while it can be seen, and when it comes into sight; for the first time and for
// printing anyway.
export function whenSeen(element: HTMLElement, shown: Shown, draw: () => void): void {
  let seen = true;
  let due = false;
  const drawNow = () => {
    due = false;
    draw();
  };
  new IntersectionObserver((entries) => {
    seen = entries[entries.length - 1].isIntersecting;
    if (seen && due) {
      drawNow();
    }
  }, { rootMargin: "100px" }).observe(element);
  shown.listen((all) => {
    due = true;
    if (seen || all) {
      drawNow();
    }
  });
}

export interface Handlers {
  hover(x: number, y: number): void;
  leave(): void;
  choose(x: number, y: number, compare: boolean): void;
  zoomDown?(factor: number, y: number): void; // the vertical axis, with the shift key
  panDown?(pixels: number): void;
}

// Wheel, drag, touch and keys of one canvas. `left` is the width of its axis.
export function interact(canvas: HTMLCanvasElement, left: number, shown: Shown, handlers: Handlers): void {
  const at = (x: number) => {
    const width = canvas.clientWidth - left;
    return shown.view.begin + ((x - left) / width) * (shown.view.end - shown.view.begin);
  };
  let dragged: { x: number; y: number; far: boolean } | null = null;
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300)));
      if (event.shiftKey && handlers.zoomDown) {
        handlers.zoomDown(Math.exp((event.deltaY || event.deltaX) / 300), event.offsetY);
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        shown.pan(event.deltaX / canvas.clientWidth);
      } else {
        shown.zoom(factor, at(event.offsetX));
      }
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.offsetX, y: event.offsetY, far: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!dragged) {
      handlers.hover(event.offsetX, event.offsetY);
      return;
    }
    const x = event.offsetX - dragged.x;
    const y = event.offsetY - dragged.y;
    if (dragged.far || Math.abs(x) + Math.abs(y) > 4) {
      dragged = { x: event.offsetX, y: event.offsetY, far: true };
      shown.pan(-x / (canvas.clientWidth - left));
      handlers.panDown?.(y);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.far) {
      handlers.choose(event.offsetX, event.offsetY, event.shiftKey);
    }
    dragged = null;
  });
  canvas.addEventListener("pointerleave", () => handlers.leave());
  canvas.addEventListener("dblclick", () => shown.range(0, 1));
  canvas.addEventListener("keydown", (event) => {
    const middle = (shown.view.begin + shown.view.end) / 2;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => shown.pan(-0.1),
      ArrowRight: () => shown.pan(0.1),
      ArrowUp: () => (handlers.zoomDown ? handlers.panDown?.(40) : shown.zoom(0.8, middle)),
      ArrowDown: () => (handlers.zoomDown ? handlers.panDown?.(-40) : shown.zoom(1.25, middle)),
      "+": () => shown.zoom(0.8, middle),
      "=": () => shown.zoom(0.8, middle),
      "-": () => shown.zoom(1.25, middle),
      Home: () => shown.range(0, shown.view.end - shown.view.begin),
      End: () => shown.range(1 - (shown.view.end - shown.view.begin), 1),
      "0": () => shown.range(0, 1),
    };
    const action = keys[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
}
