// SPDX-License-Identifier: Apache-2.0
// Which frames of a stack are shown, and how.

const python = /\.py:\d+/;
const own = /^(by_unwinder|c10::|at::detail::|torch::unwind|torch::cuda::|torch::CapturedTraceback)/;
const starting = /^((_start|__libc_start_\w+|start_thread|clone3?|__clone\d?)\b|libc\.so\.6\+)/; // outside of main
const installed = /\b(site|dist)-packages\/|\blib\/python\d|<frozen /;
// Frames of installed packages that only pass a call on.
const passing = new RegExp("^(_wrapped_call_impl|_call_impl|__call__|_?wrapper|wrapped\\w*|_?inner|_?fn|decorate_\\w+|" +
  "_use_grad|maybe_fallback|profile_hook_step|_run_code|_run_module_as_main) \\(");
const entry = /^(vr_|vram_)/; // the library's functions, and what they call, lie inside of these

// A stack with lines of Python shows those alone, and of these not what passes a call on: what lies between them is the
// interpreter and PyTorch's own calls. Of others the allocator's own frames are left out, and those outside of main.
export function shownFrames(frames: string[]): string[] {
  const lines = frames.filter((frame) => python.test(frame));
  if (lines.length > 0) {
    return lines.filter((frame, i) => i === 0 || !(passing.test(frame) && installed.test(frame)));
  }
  const others = frames.slice(frames.findLastIndex((frame) => entry.test(frame)) + 1)
    .filter((frame) => !own.test(frame) && !starting.test(frame));
  return others.length > 0 ? others : frames;
}

// "run+0x1f (main.c:42, program+0x2a3f)" is "run (main.c:42)"; installed packages are not told where they lie.
export function frameName(frame: string): string {
  return frame.replace(/\+0x[0-9a-f]+(?= \()/, "").replace(/, [^,()]*\)$/, ")")
    .replace(/\([^()]*\b(?:site|dist)-packages\//, "(");
}

// "forward modeling_gpt2.py:682": where there is little room.
export function frameShort(name: string): string {
  return name.replace(/ \((?:[^()]*\/)?([^()/]+:\d+)\)$/, " $1");
}

// The package of an installed file; "" for what is the program's own, "none" for what is no frame.
export function packageOf(frame: string): string {
  if (!frame.includes("(") || /^[^(]*\b(at|c10|torch)::/.test(frame)) {
    return frame.includes("(") ? "torch" : "none";
  }
  return /\b(?:site|dist)-packages\/(\w+)/.exec(frame)?.[1] ?? (installed.test(frame) ? "python" : "");
}
