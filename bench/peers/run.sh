#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/peers/run.sh [--pattern pair|burst] [--size BYTES] [--threads N] [--seconds S]
#
# Builds the peers that need C++ and a GPU machine into build-peers/, CUB with nvcc and PyTorch's
# caching allocator with c++ against the PyTorch of python3, and runs each. Prints one JSON document
# with the keys of `vram bench alloc --json`; a peer that cannot be built or run says why in it.
# Where PyTorch's headers do not compile its allocator is called from Python instead, and says so.
# What the compilers say goes to build-peers/*.log. Exit code 0, or 2 for misuse.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd) || exit 2
build=$here/../../build-peers
mkdir -p "$build" || exit 2

cuda=${CUDA_HOME:-/usr/local/cuda}
nvcc=$(command -v nvcc || echo "$cuda/bin/nvcc")
if [ ! -d "$cuda/include" ] && [ -x "$nvcc" ]; then
    cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
fi

absent() { printf '{"name": "%s", "found": false, "reason": "%s"}\n' "$1" "$2"; }

# stale PROGRAM SOURCE: whether it has to be built. What did not build once is not tried again.
stale() {
    [ ! "$1.failed" -nt "$2" ] &&
        { [ ! -x "$1" ] || [ "$2" -nt "$1" ] || [ "$here/pairs.hpp" -nt "$1" ]; }
}

# built PROGRAM SOURCE LOG COMPILER...: whether the program is there, compiled if need be
built() {
    local program=$1 source=$2 log=$3
    shift 3
    if stale "$program" "$source" && ! timeout 100 "$@" >"$log" 2>&1; then
        rm -f "$program"
        touch "$program.failed"
    fi
    [ -x "$program" ]
}

cub() {
    if [ ! -x "$nvcc" ]; then
        absent cub "no nvcc"
        return
    fi
    if ! built "$build/cub_peer" "$here/cub_peer.cu" "$build/cub.log" \
        "$nvcc" -O2 -std=c++17 -o "$build/cub_peer" "$here/cub_peer.cu"; then
        absent cub "it does not build: build-peers/cub.log"
        return
    fi
    timeout 30 "$build/cub_peer" "$@" 2>"$build/cub_run.log" || [ $? -eq 1 ] ||
        absent cub "it failed: build-peers/cub_run.log"
}

# Where PyTorch and the CUDA runtime it came with lie: two lines.
torch_places() {
    python3 - 2>/dev/null <<'END'
import glob, os, torch
root = os.path.dirname(torch.__file__)
found = glob.glob(os.path.join(os.path.dirname(root), "nvidia", "*", "lib", "libcudart.so*"))
print(root)
print(found[0] if found else "")
END
}

torch() {
    local places root runtime said
    places=$(torch_places)
    root=$(sed -n 1p <<<"$places")
    runtime=$(sed -n 2p <<<"$places")
    if [ -z "$root" ] || [ ! -f "$root/lib/libc10_cuda.so" ]; then
        absent torch "python3 has no torch with CUDA"
        return
    fi
    # Its own runtime if it brought one: two copies in one process would not share streams.
    local runtime_lib="-L$cuda/lib64 -lcudart" runtime_dir=$cuda/lib64
    if [ -n "$runtime" ]; then
        runtime_lib=$runtime
        runtime_dir=$(dirname "$runtime")
    fi
    # shellcheck disable=SC2086 # a list of words
    if built "$build/torch_peer" "$here/torch_peer.cpp" "$build/torch.log" \
        c++ -O2 -std=c++20 -pthread -isystem "$root/include" -isystem "$cuda/include" \
        -o "$build/torch_peer" "$here/torch_peer.cpp" -L"$root/lib" -lc10_cuda -lc10 \
        $runtime_lib -Wl,-rpath,"$root/lib" -Wl,-rpath,"$runtime_dir" \
        -Wl,--allow-shlib-undefined &&
        said=$(timeout 30 "$build/torch_peer" "$@" 2>"$build/torch_run.log"); then
        echo "$said"
        return
    fi
    timeout 60 python3 "$here/torch_pairs.py" "$@" 2>"$build/torch_pairs.log" ||
        absent torch "it neither builds (torch.log) nor runs (torch_run.log, torch_pairs.log)"
}

for ((i = 1; i <= $#; i += 2)); do
    case ${!i} in
    --pattern | --size | --threads | --seconds) ;;
    *)
        echo "usage: bench/peers/run.sh [--pattern pair|burst] [--size BYTES] [--threads N]" \
            "[--seconds S]" >&2
        exit 2
        ;;
    esac
done

echo '{"schema": "vram.peers/1", "peers": ['
printf '  %s,\n' "$(cub "$@")"
printf '  %s\n' "$(torch "$@")"
echo ']}'
