// SPDX-License-Identifier: Apache-2.0
// Live bytes by call stack at the stored moments.

import type { Numbers, Scene } from "./data";

export class Moments {
  private readonly times: Numbers;
  private readonly changes: Numbers;
  private readonly stacks: Numbers;
  private readonly bytes: Numbers;

  constructor(private readonly scene: Scene) {
    this.times = scene.array("moment.time");
    this.changes = scene.array("moment.changes");
    this.stacks = scene.array("change.stack");
    this.bytes = scene.array("change.bytes");
  }

  // The number of the end of the trace.
  get last(): number {
    return this.scene.meta.moments;
  }

  // In ns from the begin.
  timeOf(moment: number): number {
    return this.times[moment];
  }

  // The stored moment that is nearest to a part of the time.
  nearest(part: number): number {
    const time = part * this.scene.meta.span;
    let best = 0;
    for (let i = 0; i < this.scene.meta.moments; i++) {
      if (Math.abs(this.times[i] - time) < Math.abs(this.times[best] - time)) {
        best = i;
      }
    }
    return best;
  }

  // Live bytes by stack.
  valuesAt(moment: number): Float64Array {
    const values = new Float64Array(this.scene.meta.stacks.length);
    let at = 0;
    for (let i = 0; i <= moment; i++) {
      for (let j = 0; j < this.changes[i]; j++, at++) {
        values[this.stacks[at]] = this.bytes[at];
      }
    }
    return values;
  }
}
