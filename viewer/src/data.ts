// SPDX-License-Identifier: Apache-2.0
// What the page shows: the JSON and the arrays that cli/viewer/page.c wrote into it.

import { Axis } from "./axis";

export interface Group {
  group: number;
  name: string;
  column: number;
  peak: number;
  blocks: number;
  bytes: number;
  left: number;
}

export interface Grouping {
  name: string;
  columns: string[];
  rows: Group[];
}

export interface Stack {
  site: number; // group
  left: number;
  frames: string[]; // the innermost first
}

export interface LadderStep {
  name: string;
  taken: number;
  bytes: number;
  ns: number;
}

// What the library itself said of a refusal; null: not known.
export interface RefusalReport {
  summary: string;
  advice: string;
  cause: string;
  needed: number;
  reserved: number;
  live: number;
  rounding: number;
  cached: number;
  unused: number;
  largest: number;
  pending: number;
  pinned: number;
  stranded: number;
  process: number;
  total: number | null;
  free: number | null;
  others: number | null;
  limit: number | null;
  steps: LadderStep[];
  holders: { tag: string; bytes: number; blocks: number }[];
}

export interface Refusal {
  live: number;
  held: number | null;
  device_free: number; // 0: not known
  tag: string; // of the request, as its pool and frames; "" and none: not known
  pool: string;
  frames: string[];
  tags: number[]; // live bytes by column
  stacks: { stack: number; bytes: number }[]; // those with most
  report?: RefusalReport;
}

export interface Note {
  time: number;
  step: number;
  bytes: number;
  status: string | null;
  text: string;
  refusal?: Refusal;
}

export interface Policy {
  name: string;
  held_bytes: number;
  calls: number;
  spent_ns: number;
  problem: string | null;
}

export interface Advice {
  name: string;
  weight: "note" | "warn" | "bad";
  found: string;
  mend: string;
}

export interface Report {
  file: string;
  format: string;
  story: string[];
  end: string;
  lost_events: number;
  missing_chunks: number;
  events: number;
  duration_ns: number;
  peak: { bytes: number; blocks: number; time_ns: number; reserved_bytes: number | null };
  live: { bytes: number; blocks: number; unknown_blocks: number };
  lost: { bytes: number; blocks: number };
  churn: { allocs: number; frees: number; refusals: number; alloc_bytes: number; brief_blocks: number };
  hit_rate: number | null;
  advice: Advice[];
}

interface ArrayEntry {
  name: string;
  type: "f32" | "f64" | "u32";
  count: number;
}

export interface Meta {
  schema: string;
  version: string;
  report: Report;
  date_us: number; // since 1970, when the trace's time 0 was; 0: not known
  begin: number; // ns since the trace began: times below count from here
  span: number; // ns
  peak_bytes: number;
  peak_time: number; // ns from the begin
  peak_step: number;
  steps: number; // events that change what is live
  past_parts: number;
  blocks: number;
  addressed: number;
  kept: number;
  merged: number;
  left_out: number;
  notes_left_out: number;
  bins: number;
  moments: number;
  grid_times: number;
  grid_places: number;
  place_bytes: number;
  groupings: Grouping[];
  stacks: Stack[];
  notes: Note[];
  policies: Policy[]; // that it was replayed with
  policy_begin: number;
  policy_span: number;
  ranges: { addr: string; place: number; bytes: number }[];
  arrays: ArrayEntry[];
}

export type Numbers = Float32Array | Float64Array | Uint32Array;

// The largest; what is no number is passed over.
export function mostIn(values: Numbers): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    most = values[i] > most ? values[i] : most;
  }
  return most;
}

export interface Scene {
  meta: Meta;
  axis: Axis;
  array(name: string): Numbers;
}

const makers = {
  f32: (buffer: ArrayBuffer, at: number, count: number) => new Float32Array(buffer, at, count),
  f64: (buffer: ArrayBuffer, at: number, count: number) => new Float64Array(buffer, at, count),
  u32: (buffer: ArrayBuffer, at: number, count: number) => new Uint32Array(buffer, at, count),
};

async function bytesOf(text: string): Promise<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i);
  }
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) {
    return bytes.buffer;
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// The page has one line for each trace.
export async function scenesRead(text: string): Promise<Scene[]> {
  return Promise.all(text.trim().split(/\s+/).map(sceneRead));
}

export async function sceneRead(text: string): Promise<Scene> {
  const buffer = await bytesOf(text);
  const length = new DataView(buffer).getUint32(0, true);
  const meta = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as Meta;
  const arrays = new Map<string, Numbers>();
  let at = 8 + Math.ceil(length / 8) * 8;
  for (const entry of meta.arrays) {
    arrays.set(entry.name, makers[entry.type](buffer, at, entry.count));
    at += Math.ceil((entry.count * (entry.type === "f64" ? 8 : 4)) / 8) * 8;
  }
  const array = (name: string): Numbers => {
    const found = arrays.get(name);
    if (!found) {
      throw new Error(`the page has no array ${name}`);
    }
    return found;
  };
  return { meta, axis: new Axis(meta, array("past")), array };
}
