// SPDX-License-Identifier: Apache-2.0
// Which frames of a stack are shown, and how.

const python = /\.py:\d+/;
const own = /^(vr_|vram_|by_unwinder|c10::|at::detail::|torch::unwind|torch::cuda::|torch::CapturedTraceback)/;

// A stack with lines of Python shows those alone: what lies between them is the interpreter and PyTorch's own calls.
// Of others the allocator's own frames are left out.
export function shownFrames(frames: string[]): string[] {
  const lines = frames.filter((frame) => python.test(frame));
  if (lines.length > 0) {
    return lines;
  }
  const others = frames.filter((frame) => !own.test(frame));
  return others.length > 0 ? others : frames;
}

// "run+0x1f (main.c:42, program+0x2a3f)" is "run (main.c:42)".
export function frameName(frame: string): string {
  return frame.replace(/\+0x[0-9a-f]+(?= \()/, "").replace(/, [^,()]*\)$/, ")");
}
