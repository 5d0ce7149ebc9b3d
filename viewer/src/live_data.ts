// SPDX-License-Identifier: Apache-2.0
// What `vram report --serve` tells of a process each second, and all that it has told so far.

export interface Counts {
  held_bytes: number | null;
  live_bytes: number | null;
  allocated_bytes: number | null;
  cached_bytes: number | null;
  asleep_bytes: number | null;
  limit_bytes: number | null;
  peak_held_bytes: number | null;
  peak_live_bytes: number | null;
  live_blocks: number | null;
  allocations: number | null;
  hits: number | null;
  misses: number | null;
  refusals: number | null;
  allocations_per_second: number | null;
}

export interface Device {
  backend: string;
  index: number;
  name: string;
  pressure: string;
  pressure_value: number | null;
  memory_bytes: number | null;
  free_bytes: number | null;
  held_bytes: number | null;
  limit_bytes: number | null;
}

export interface Pool extends Counts {
  name: string;
  device: string | null;
  pressure: string;
  pressure_value: number | null;
}

export interface Tag {
  tag: string;
  device: string | null;
  used_bytes: number | null;
  own_bytes: number | null;
  peak_bytes: number | null;
  soft_bytes: number | null;
  hard_bytes: number | null;
  refusals: number | null;
}

export interface Refusal {
  date_ns: number;
  bytes: number;
  cause: string;
  pool: string;
  tag: string | null;
  text: string;
}

export interface Group {
  tag: string | null;
  foreign: boolean;
  rest: boolean;
  bytes: number;
  blocks: number;
  old_bytes: number;
  oldest_ns: number;
  largest_bytes: number;
  stack: string[];
}

export interface Block {
  pool: string | null;
  address: string;
  requested_bytes: number;
  age_ns: number;
  tag: string | null;
  name: string | null;
  stack: string[];
}

export interface Live {
  version: string;
  since_ns: number; // since the server began to watch
  date_ns: number; // since 1970
  state: "running" | "silent" | "ended";
  words: string | null;
  process: {
    pid: number;
    command: string;
    library: string;
    origin: string;
    pools: number;
    tags: number;
    pressure: string;
    sum: Counts;
  };
  devices: Device[];
  pools: Pool[];
  tags: Tag[];
  refusals: Refusal[];
  past: {
    generation: number;
    interval_ns: number;
    from: number;
    number: number[];
    live_bytes: number[];
    held_bytes: number[];
    limit_bytes: (number | null)[];
    level: number[];
    columns: { tag: string; bytes: number[] }[];
  };
  blocks: {
    problem: string | null;
    known: boolean;
    age_ns: number;
    bytes: number;
    blocks: number;
    lost_records: number;
    group_count: number;
    groups: Group[];
    largest: Block[];
  };
}

const COLOURS = 12;

// The past, put together from answers that bring only what is new.
export class Past {
  generation = 0;
  interval = 1e9; // ns of a slot
  number: number[] = [];
  live: number[] = [];
  held: number[] = [];
  limit: (number | null)[] = [];
  level: number[] = [];
  columns = new Map<string, number[]>();
  private readonly colours = new Map<string, number>(); // by tag, from 1 on; a tag keeps its own

  get count(): number {
    return this.number.length;
  }

  // The first slot that has to be asked for: the last one still changes.
  get wanted(): number {
    return Math.max(0, this.count - 1);
  }

  // The end of the last slot, ns.
  get span(): number {
    return this.count > 0 ? (this.number[this.count - 1] + 1) * this.interval : this.interval;
  }

  take(past: Live["past"]): void {
    const from = past.from;
    this.generation = past.generation;
    this.interval = past.interval_ns;
    const join = <T>(known: T[], more: T[]) => [...known.slice(0, from), ...more];
    this.number = join(this.number, past.number);
    this.live = join(this.live, past.live_bytes);
    this.held = join(this.held, past.held_bytes);
    this.limit = join(this.limit, past.limit_bytes);
    this.level = join(this.level, past.level);
    const columns = new Map<string, number[]>();
    for (const { tag, bytes } of past.columns) {
      const known = this.columns.get(tag) ?? [];
      const before = Array.from({ length: from }, (_, i) => known[i] ?? 0);
      columns.set(tag, [...before, ...bytes]);
    }
    this.columns = columns;
    this.colour();
  }

  // The tags that had most get colours, and keep them while they are among the first.
  private colour(): void {
    const peak = (bytes: number[]) => bytes.reduce((most, b) => Math.max(most, b), 0);
    const first = [...this.columns]
      .map(([tag, bytes]) => ({ tag, peak: peak(bytes) }))
      .filter((c) => c.peak > 0)
      .sort((a, b) => b.peak - a.peak)
      .slice(0, COLOURS)
      .map((c) => c.tag);
    for (const tag of [...this.colours.keys()]) {
      if (!first.includes(tag)) {
        this.colours.delete(tag);
      }
    }
    for (const tag of first) {
      if (!this.colours.has(tag)) {
        const used = new Set(this.colours.values());
        const free = Array.from({ length: COLOURS }, (_, i) => i + 1).find((c) => !used.has(c));
        this.colours.set(tag, free ?? 0);
      }
    }
  }

  // 0: it has none of its own, and is part of the rest.
  colourOf(tag: string): number {
    return this.colours.get(tag) ?? 0;
  }

  // Tags with colours, in the order of these.
  shown(): string[] {
    return [...this.colours].sort((a, b) => a[1] - b[1]).map(([tag]) => tag);
  }

  // The slot at a time; -1: nothing is known of it.
  slotAt(ns: number): number {
    const wanted = Math.floor(ns / this.interval);
    let low = 0;
    let high = this.count - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (this.number[middle] === wanted) {
        return middle;
      }
      if (this.number[middle] < wanted) {
        low = middle + 1;
      } else {
        high = middle - 1;
      }
    }
    return -1;
  }
}
