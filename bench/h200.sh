#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/h200.sh STAGE: what is run on a machine with an NVIDIA GPU, one stage at a time.
#
#   check    builds, `vram info`, the conformance suite on cuda, host and sim, the tour, and the
#            suite once more under compute-sanitizer where that is installed
#   bench    builds, measures what each call of the driver costs, and `vram bench alloc` with its
#            peers, those in bench/peers too
#   torch    builds the plug-in and runs bench/torch_run.py; PROGRAMS=a,b chooses programs and
#            TORCH_FLAGS adds flags, since all six take longer than one call may last
#   replay, faults   not part of this version
#
# Needs a C compiler and CMake, nothing else. Everything is written below ${OUT:-build-h200/out}; a
# short table comes last. Each step has a time limit, all together stay under eight minutes.
# Exit code 0 when every step passed, 1 when one failed, 2 for misuse.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

build="build-h200"
out=${OUT:-$build/out}
jobs=$(nproc 2>/dev/null || echo 2)
seconds_in_all=460
rows=()
failed=0

# row NAME RESULT SECONDS
row() {
    rows+=("$(printf '%-12s %-40s %5s s' "$1" "$2" "$3")")
}

# step NAME SECONDS FILE COMMAND...: runs a command under a limit, its output appended to FILE.
# Where the last line sums the output up, as the suite's counts do, the row shows it.
step() {
    local name=$1 limit=$2 file=$out/$3 start=$SECONDS left code said
    shift 3
    left=$((seconds_in_all - SECONDS))
    if [ "$left" -lt 5 ]; then
        row "$name" "not run: no time left" 0
        failed=1
        return 1
    fi
    [ "$limit" -lt "$left" ] || limit=$left
    echo "== $name: $*"
    timeout -k 5 "$limit" "$@" >>"$file" 2>&1
    code=$?
    said=$(tail -n 1 "$file" | tr -d '\r' | cut -c 1-40)
    case $code-${file##*/} in
    0-check.txt | 0-memcheck.txt | 0-tour.txt) row "$name" "$said" $((SECONDS - start)) ;;
    0-*) row "$name" "done" $((SECONDS - start)) ;;
    124-* | 137-*) row "$name" "FAILED: ran past $limit s" $((SECONDS - start)) ;;
    *) row "$name" "FAILED ($code): ${said:0:27}" $((SECONDS - start)) ;;
    esac
    if [ "$code" -ne 0 ]; then
        failed=1
        tail -n 25 "$file"
        return 1
    fi
}

# configure and build TARGET...
build_targets() {
    local generator=()
    if command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    [ -f "$build/CMakeCache.txt" ] ||
        step configure 60 build.log cmake -B "$build" "${generator[@]}" -DVRAM_DEPS=OFF \
            -DCMAKE_BUILD_TYPE=Release || return 1
    step build 180 build.log cmake --build "$build" -j "$jobs" --target "$@"
}

heading() {
    echo "libvram on $(uname -srm), $jobs processors"
    if command -v nvidia-smi >/dev/null; then
        timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
            echo "nvidia-smi failed"
    fi
    if [ -n "${VRAM_CUDA_LIBRARY:-}" ]; then
        echo "VRAM_CUDA_LIBRARY is set: $VRAM_CUDA_LIBRARY stands in for the driver"
    fi
}

finish() {
    {
        heading
        printf '%s\n' "${rows[@]}"
        if [ "$failed" -eq 0 ]; then echo "all passed"; else echo "FAILED"; fi
    } | tee "$out/summary.txt"
    exit "$failed"
}

# The sanitizer counts memory errors alone: the suite provokes refusals of the driver on purpose.
memcheck() {
    local tool found
    tool=$(command -v compute-sanitizer)
    for found in /usr/local/cuda*/bin/compute-sanitizer; do
        [ -n "$tool" ] || [ ! -x "$found" ] || tool=$found
    done
    if [ -z "$tool" ]; then
        row memcheck "not run: no compute-sanitizer" 0
        return
    fi
    step memcheck 150 memcheck.txt "$tool" --tool memcheck --report-api-errors no \
        --error-exitcode 99 "$build/vram" check --backend cuda
}

stage_check() {
    build_targets vram_command || finish
    step info 60 info.txt "$build/vram" info
    step info.json 60 info.json "$build/vram" info --json
    step cuda 120 check.txt "$build/vram" check --backend cuda --verbose
    step cuda.json 120 check-cuda.json "$build/vram" check --backend cuda --json
    step host 60 check.txt "$build/vram" check --backend host
    step sim 60 check.txt "$build/vram" check --backend sim
    step tour 60 tour.txt "$build/vram" tour
    memcheck
    finish
}

# contest NAME FLAG...: one run for people and one for programs
contest() {
    local name=$1
    shift
    step "$name" 30 bench.txt "$build/vram" bench alloc --backend cuda "$@" &&
        step "$name.json" 30 "bench-$name.json" "$build/vram" bench alloc --backend cuda --json "$@"
}

stage_bench() {
    build_targets vram_command bench_baseline bench_prices || finish
    step info 60 info.txt "$build/vram" info
    contest pair-1K --size 1K
    contest pair-1M --size 1M
    contest pair-64M --size 64M
    contest pair-16 --size 1K --threads 16
    contest live --size 1K --live 100000
    contest burst --pattern burst
    contest mixed --pattern mixed
    contest handover --pattern handover
    local size
    for size in 1024 1048576 67108864; do
        step "peers-$size" 90 "peers-$size.json" bench/peers/run.sh --size "$size"
    done
    step peers-16 60 peers-16.json bench/peers/run.sh --size 1024 --threads 16
    step baseline 60 baseline.txt "$build/bench/baseline"
    step prices 60 prices.txt "$build/bench/prices" cuda
    cat "$out/bench.txt" "$out"/peers-*.json "$out/baseline.txt" "$out/prices.txt" 2>/dev/null
    finish
}

stage_torch() {
    seconds_in_all=570
    build_targets vram_torch || finish
    local choice=()
    [ -z "${PROGRAMS:-}" ] || choice=(--programs "$PROGRAMS")
    # shellcheck disable=SC2086 # a list of words
    step torch 540 torch.txt python3 bench/torch_run.py --plugin "$build/bench/libvram_torch.so" \
        --json "$out/torch.json" "${choice[@]}" ${TORCH_FLAGS:-}
    cat "$out/torch.txt" 2>/dev/null
    finish
}

later() {
    echo "h200.sh: $1 is not part of this version: it comes with $2" >&2
    exit 2
}

case ${1:-} in
check | bench | torch) ;;
replay) later replay "the pools and \`vram replay\`" ;;
faults) later faults "the fault shim over the real driver" ;;
*)
    echo "usage: bench/h200.sh check|bench|replay|torch|faults" >&2
    exit 2
    ;;
esac
if [ $# -ne 1 ]; then
    echo "usage: bench/h200.sh check|bench|replay|torch|faults" >&2
    exit 2
fi

mkdir -p "$out" || exit 2
rm -f "$out"/{build.log,info.txt,info.json,check.txt,check-cuda.json,tour.txt,memcheck.txt} \
    "$out"/{baseline.txt,prices.txt,summary.txt,bench.txt,torch.txt,torch.json} \
    "$out"/bench-*.json "$out"/peers-*.json
"stage_$1"
