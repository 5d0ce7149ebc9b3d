// SPDX-License-Identifier: Apache-2.0
// Live bytes by call stack at the stored moments.

import type { AxisKind } from "./axis";
import type { Numbers, Scene } from "./data";
import { countText, timeText } from "./format";

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

  // The stored moment of a part of the trace: that with most live memory in it.
  of(at: number): number {
    return Math.min(this.last - 1, Math.floor(at * this.last));
  }

  // When it was, exactly enough that another is called something else; by events its number too.
  nameOf(moment: number, kind: AxisKind): string {
    const { meta, axis } = this.scene;
    const time = timeText(meta.begin + this.times[moment], meta.span / this.last, meta.begin + meta.span);
    const event = axis.eventOf(this.binOf(moment));
    return kind === "time" ? time : `event ${countText(event)} (${time})`;
  }

  // Its bin; the end has one of its own.
  binOf(moment: number): number {
    const { bins } = this.scene.meta;
    const total = this.scene.array("total");
    let best = Math.floor((moment / this.last) * bins);
    for (let i = best + 1; moment < this.last && i < ((moment + 1) / this.last) * bins; i++) {
      best = total[i] > total[best] ? i : best;
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
