#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/h200.sh STAGE: what is run on a machine with an NVIDIA GPU, one stage at a time.
#
#   check    `vram info`, the conformance suite on cuda, on every OpenCL device that there is (NVIDIA's
#            and PoCL's) in each way of taking memory, host and sim, the tour, a thousand short-lived
#            threads on cuda, the examples that launch a kernel, examples/forces with a million nodes,
#            and the suite once more under
#            compute-sanitizer where that is installed; with H200_VULKAN_DIR, a folder with
#            libvulkan.so.1, also the suite and the example on vulkan. The driver is the one that a .json
#            there or VK_DRIVER_FILES names, else NVIDIA's
#   bench    `vram bench alloc` with its peers, those in bench/peers too, `vram bench grow`,
#            `launch` and `readback`, and what each call of the driver costs
#   transfer `vram bench copy` beside the driver's own copies, with its goals, and examples/forces with a
#            million nodes on cuda, every frame held against the reference; `vram bench ring` with a million
#            messages to a kernel that stays and a million from it, every byte looked at; example 21_ring
#   sleep    bench/pool_sleep with 16 GiB, each time in a new process, with its goals; the cases of
#            `vram check` on sleep, with the kernel that touches sleeping memory in a child process; and
#            `vram bench copy` up to 4 MiB as it is, with the driver's way alone (VRAM_STAGING_SLOTS=0),
#            and with one and four threads
#   replay   the six traces with memory really mapped: in the traces' own time with every block filled
#            and checked (REPEATS=3 times), in their time without that, and as fast as it goes, checked
#   models   bench/model_peak.py: the peak of inference with three models of random weights beside what
#            `vram estimate` says of them; MODELS=a,b chooses models
#   torch    bench/torch_run.py: six programs under PyTorch's allocator, its expandable_segments and vram.torch;
#            PROGRAMS=a,b chooses programs and TORCH_FLAGS adds flags (--quick, --repeats 3, --modes vram for
#            the C plug-in); memory held, after one run and after all, time, and losses bit by bit
#   least    bench/torch_run.py --least: the least memory in which each of the six still runs, found by
#            bisection, and the time that it takes there; PROGRAMS and TORCH_FLAGS as for torch
#   largest  bench/torch_run.py --largest: the largest batch (gpt2, llama, resnet) and the longest context
#            (serve) under 8, 16, 24 and 80 GB, with the throughput there
#   pairs    bench/torch_run.py --pairs 15: time against expandable_segments in pairs of runs, with
#            confidence intervals, and the 99th percentile of step times
#   python   bindings/python/tests/device_test.py: the Python package, CuPy, Numba, ONNX Runtime, JAX and PyTorch
#            on it, one line an item, with and without it where they can be compared; ITEMS="a b" chooses items
#   adapters tests/torch/h200.py: vram.torch, one line for each thing that PyTorch's own allocator can do;
#            ITEMS=a,b chooses items
#   faults   every entry point of the driver with every documented code and three others: the tests' shim
#            answers in its place, in child processes, and the library is used and used again (JOBS at a
#            time, as many as there are processors); the last line is "entry x code: N of N". What the program's
#            reset of its context leaves (tests/conformance/device_reset.c): "resets survived: 4 of 4"; and the
#            suite beside captures in each mode, none of which it may end (tests/conformance/capture.h)
#   handout  bench/handout_cuda: HANDOUTS=10000000 blocks from stream to stream under kernels that write
#            to their last moment, and the proof that the test can fail; Thrust, CUB and a user of cuda::mr on pools
#            (tests/cuda/resources.cu)
#   share    memory of two processes: the group share of the suite, what opening costs (bench/share_bench),
#            readers that are killed, and example 24_share in two sets of user, mount and pid namespaces
#            where the machine allows that
#   lease    two processes that take turns with 16 GiB of sealed weights and 60 GiB of cache each: the
#            group lease of the suite, and bench/lease_bench beside a sleep that copies and the driver's
#            process checkpoint; SWITCHES, COPY_SWITCHES, CHECKPOINT_SWITCHES
#   compose  every feature with every other: the group compose of the suite (28 pairs, with real graphs), and
#            all eight in random sequences for COMPOSE_SECONDS (300; 1800 with STAGE_SECONDS=2000 is the long
#            run), SEED=1 the first of them
#   run      `vram run` (bench/run_device.py): a static-cudart program that leaks, PyTorch gpt2, CuPy, JAX, ONNX
#            Runtime, Numba and Triton: counted bytes beside the driver's figure, time with and without, --limit,
#            --serve; ITEMS="a b" chooses items, REPEATS=3 how often each runs
#   top      `vram top` and `vram exporter` beside two processes of libvram and one without it
#   zero     bench/zero_handouts: HANDOUTS=1000000 blocks of a pool with zero_alloc and as many with zero_free, every
#            byte looked at by a kernel, and the proof that it can fail
#   sanitizer  compute-sanitizer sees the blocks of pools: bench/planted_bugs, each bug found by the tool that is made
#            for it, none without announcements (VRAM_NVTX=off) and none in the clean program; the groups memory, pool
#            and buffer of the suite under memcheck, 0 errors. SANITIZER names the command if it is not installed
#   foreign  other people's tests, natively and on libvram (bench/foreign/run.py): a table, what is worse on libvram, and
#            the times of what passes in both. FOREIGN=folder has the suites (bench/foreign/suites.py lists them);
#            FOREIGN_SUITES=a,b chooses, FOREIGN_MODES=native or vram runs one way, FOREIGN_BEFORE=foreign.json of an
#            earlier run is completed, FOREIGN_TESTS is an expression for pytest's -k, FOREIGN_POISON=1 has work on side
#            streams start late and overwrites what is handed out again
#
# Needs a C compiler and CMake; nvcc for handout and CUB, PyTorch for torch, its peer and models, which
# needs transformers besides. What a step prints is in ${OUT:-build-h200/out}/STAGE.log as soon as it has ended, all of it again, file by file,
# in STAGE.tgz. A short table comes last. Each step has a time limit, and all together STAGE_SECONDS
# (400, torch and least 470, largest, pairs, adapters and foreign 560); a step that fails is said and the rest goes on.
# Exit code 0 when every step passed, 1 when one failed, 2 for misuse.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

stage=${1:-}
stages=(check bench transfer sleep models replay torch least largest pairs python adapters faults handout share lease
    compose run top zero sanitizer foreign)
case $#-" ${stages[*]} " in
1-*" $stage "*) ;;
*)
    echo "usage: bench/h200.sh $(IFS='|' && echo "${stages[*]}")" >&2
    exit 2
    ;;
esac
case $stage in
torch | least) seconds_in_all=${STAGE_SECONDS:-470} ;;
largest | pairs | adapters | foreign) seconds_in_all=${STAGE_SECONDS:-560} ;;
*) seconds_in_all=${STAGE_SECONDS:-400} ;;
esac

build="build-h200"
work=$PWD/$build/$stage
out=${OUT:-$build/out}
log=$out/$stage.log
jobs=$(nproc 2>/dev/null || echo 2)
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
rows=()
failed=0
quiet=0 # 1: steps that passed have no row of their own

# row NAME RESULT SECONDS
row() {
    rows+=("$(printf '%-24s %-46s %4s s' "$1" "$2" "$3")")
}

# step NAME SECONDS FILE COMMAND...: runs a command under a limit. Its output is FILE, errors apart in
# FILE.err when FILE is JSON; both go to the log. Where the last line sums the output up the row
# shows it.
step() {
    local name=$1 limit=$2 file=$work/$3 start=$SECONDS left code said
    shift 3
    left=$((seconds_in_all - SECONDS))
    if [ "$left" -lt 5 ]; then
        row "$name" "FAILED: not run, no time left" 0
        failed=1
        return 1
    fi
    [ "$limit" -lt "$left" ] || limit=$left
    echo "== $name: $*" | tee -a "$log"
    case $file in
    *.json) timeout -k 5 "$limit" "$@" >"$file" 2>"$file.err" </dev/null ;;
    *) timeout -k 5 "$limit" "$@" >"$file" 2>&1 </dev/null ;;
    esac
    code=$?
    cat "$file.err" "$file" >>"$log" 2>/dev/null
    said=$(tail -n 1 "$file" | tr -d '\r' | cut -c 1-46)
    case $quiet$code-$file in
    10-*) ;;
    ?0-*.json) row "$name" "done" $((SECONDS - start)) ;;
    ?0-*) row "$name" "${said:-done}" $((SECONDS - start)) ;;
    ?124-* | ?137-*) row "$name" "FAILED: ran past $limit s" $((SECONDS - start)) ;;
    *) row "$name" "FAILED: exit code $code" $((SECONDS - start)) ;;
    esac
    if [ "$code" -ne 0 ]; then
        failed=1
        tail -n 12 "$file" "$file.err" 2>/dev/null
        return 1
    fi
}

# beside NAME SECONDS FILE COMMAND...: the same in the background, for what is checked and not timed; together()
# waits for all of them and says what became of each.
others=()
beside() {
    local name=$1 limit=$2 file=$3
    shift 3
    echo "== $name, beside the next: $*" | tee -a "$log"
    timeout -k 5 "$limit" "$@" >"$work/$file" 2>&1 </dev/null &
    others+=("$! $name $file $SECONDS")
}

together() {
    local each process name file start
    for each in "${others[@]}"; do
        read -r process name file start <<<"$each"
        if wait "$process"; then
            row "$name" "$(tail -n 1 "$work/$file" | cut -c 1-46)" $((SECONDS - start))
        else
            row "$name" "FAILED: exit code $?" $((SECONDS - start))
            failed=1
            tail -n 12 "$work/$file"
        fi
        cat "$work/$file" >>"$log"
    done
    others=()
}

# configure and build TARGET...
build_targets() {
    local generator=()
    if command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    [ -f "$build/CMakeCache.txt" ] ||
        step configure 60 configure.txt cmake -B "$build" "${generator[@]}" -DVRAM_DEPS=OFF \
            -DCMAKE_BUILD_TYPE=Release || return 1
    step build 180 build.txt cmake --build "$build" -j "$jobs" --target "$@"
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
        echo
        heading
        printf '%s\n' "${rows[@]}"
        python3 bench/h200_table.py "$stage" "$work" || failed=1
        if [ "$failed" -eq 0 ]; then echo "all passed"; else echo "FAILED"; fi
    } >"$work/summary.txt" 2>&1
    tee -a "$log" <"$work/summary.txt"
    tar -C "$build" -czf "$out/$stage.tgz" "$stage"
    exit "$failed"
}

find_tool() {
    command -v "$1" || find /usr/local/cuda*/bin/ -name "$1" 2>/dev/null | head -n 1
}

# ------------------------------------------------------------------------------ stages

# The sanitizer counts memory errors alone: the suite provokes refusals of the driver on purpose.
memcheck() {
    local tool
    tool=$(find_tool compute-sanitizer)
    if [ -z "$tool" ]; then
        row memcheck "not run: no compute-sanitizer" 0
        return
    fi
    # With announced blocks pools run on segments (stage sanitizer): here they map memory, as programs do.
    VRAM_NVTX=off step memcheck 150 memcheck.txt "$tool" --tool memcheck --report-api-errors no \
        --error-exitcode 99 "$build/vram" check --backend cuda
}

# The loader and the driver's description, where the machine has neither.
find_vulkan() {
    local file
    [ -n "${H200_VULKAN_DIR:-}" ] || return 1
    export VRAM_VULKAN_LIBRARY=$H200_VULKAN_DIR/libvulkan.so.1
    if [ -z "${VK_DRIVER_FILES:-}" ]; then
        VK_DRIVER_FILES=$work/nvidia_icd.json
        for file in "$H200_VULKAN_DIR"/*.json; do
            [ ! -e "$file" ] || VK_DRIVER_FILES=$file
        done
        export VK_DRIVER_FILES
    fi
    echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0",
        "api_version": "1.3.0"}}' >"$work/nvidia_icd.json"
}

check_vulkan() {
    if ! find_vulkan; then
        row check-vulkan "not run: no H200_VULKAN_DIR" 0
        return
    fi
    step info-vulkan 60 info-vulkan.txt "$build/vram" info --backend vulkan
    step check-vulkan 180 check-vulkan.txt "$build/vram" check --backend vulkan --verbose
    example 17_vulkan_kernel
}

# example NUMBER_NAME: one that launches a kernel.
example() {
    step "build-$1" 60 "build-$1.txt" cmake --build "$build" -j "$jobs" --target "example_$1" &&
        step "$1" 60 "example-$1.txt" "$build/examples/$1"
}

# A million nodes on each backend, every frame held against the reference.
layout() {
    step build-forces 60 build-forces.txt cmake --build "$build" -j "$jobs" --target example_forces ||
        return
    find_vulkan
    for on in cuda opencl ${H200_VULKAN_DIR:+vulkan}; do
        step "forces-$on" 90 "forces-$on.txt" "$build/examples/forces" --nodes 1000000 --report \
            --backend "$on"
    done
}

stage_check() {
    build_targets vram_command tools || finish
    step info 60 info.txt "$build/vram" info
    step info.json 60 info.json "$build/vram" info --json
    step check-cuda 120 check-cuda.txt "$build/vram" check --backend cuda --verbose
    step check-cuda.json 120 check-cuda.json "$build/vram" check --backend cuda --json
    beside check-opencl 250 check-opencl.txt "$build/vram" check --backend opencl --verbose
    beside check-opencl-buffer 250 check-opencl-buffer.txt env VRAM_OPENCL_MEMORY=buffer \
        "$build/vram" check --backend opencl --verbose
    step check-host 60 check-host.txt "$build/vram" check --backend host
    step check-sim 60 check-sim.txt "$build/vram" check --backend sim
    step tour 60 tour.txt "$build/vram" tour
    example 15_cuda_kernel
    example 16_opencl_kernel
    layout
    step threads-cuda 90 threads.json "$build/tests/tools" threads --count 1000 --backend cuda --json
    memcheck
    together
    check_vulkan # by itself: nearly every case opens a device, and the drivers of one GPU do so one after another
    finish
}

# contest NAME FLAG...; on $on, cuda unless it is set
contest() {
    local name=$1
    shift
    step "$name" 30 "bench-$name.json" "$build/vram" bench alloc --backend "${on:-cuda}" --json \
        --seconds 3 "$@"
}

stage_bench() {
    local size
    build_targets vram_command bench_baseline bench_prices || finish
    contest pair-1K --size 1K
    contest pair-1M --size 1M
    contest pair-64M --size 64M
    contest pair-1K-16-threads --size 1K --threads 16
    contest pair-1K-live --size 1K --live 100000
    contest burst --pattern burst
    contest mixed --pattern mixed
    contest handover --pattern handover
    for size in 1K 1M 64M; do
        on=opencl contest "opencl-$size" --size "$size"
        on=opencl VRAM_OPENCL_MEMORY=buffer contest "opencl-buffer-$size" --size "$size"
        ! find_vulkan || on=vulkan contest "vulkan-$size" --size "$size"
    done
    for size in 64M 1G; do
        step "grow-$size" 40 "grow-$size.json" "$build/vram" bench grow --backend cuda --json \
            --from "$size" --seconds 10
    done
    step launch 20 launch-1M.json "$build/vram" bench launch --backend cuda --json
    step track 20 track.json "$build/vram" bench track --backend cuda --json
    step readback 40 readback.txt "$build/vram" bench readback --backend cuda
    step readback.json 40 readback.json "$build/vram" bench readback --backend cuda --json
    step matmul 60 matmul-4096.json "$build/vram" bench matmul --backend cuda --size 4096 --json \
        --seconds 20
    step distance 120 distance-1M.json "$build/vram" bench distance --backend cuda --size 1000000 \
        --json --seconds 30
    step distance-torch 60 distance-torch.json python3 bench/torch_distance.py
    step peers-1K 120 peers-1K.json bench/peers/run.sh --size 1024
    step peers-1M 40 peers-1M.json bench/peers/run.sh --size 1048576
    step peers-64M 40 peers-64M.json bench/peers/run.sh --size 67108864
    step peers-16 40 peers-1K-16-threads.json bench/peers/run.sh --size 1024 --threads 16
    step baseline 60 baseline.txt "$build/bench/baseline"
    step prices 60 prices.txt "$build/bench/prices" cuda
    finish
}

unpack() {
    local trace
    mkdir -p build-traces
    for trace in traces/*.csv.gz; do
        [ -s "build-traces/$(basename "$trace" .gz)" ] ||
            gzip -dc "$trace" >"build-traces/$(basename "$trace" .gz)" || return 1
    done
}

# play NAME SECONDS TRACE FLAG...
play() {
    local name=$1 limit=$2 trace=$3
    shift 3
    step "$name $trace" "$limit" "replay-$name-$trace.json" "$build/vram" replay \
        "build-traces/$trace.csv" --backend cuda --policy vram --json "$@"
}

# Small traces first: whatever time is left goes to the large ones.
stage_replay() {
    local trace turn traces="resnet50_multires serve_kv_cache bert_dynpad sage_subgraphs
        llama1b_train_ckpt gpt2_train_varlen"
    build_targets vram_command || finish
    unpack || row unpack "FAILED: the traces cannot be unpacked" 0
    step probe 30 probe.json "$build/vram" replay --generate queues,steps=2 --backend cuda \
        --policy vram --verify --json
    quiet=1
    if grep -q '"checked_on": "device"' "$work/probe.json"; then
        for ((turn = 1; turn <= ${REPEATS:-3}; turn++)); do
            for trace in $traces; do
                play "checked-$turn" 40 "$trace" --pace --verify
            done
        done
    else
        row checked "FAILED: the device does not compare by itself" 0
        failed=1
    fi
    for trace in $traces; do
        play paced 40 "$trace" --pace
    done
    for trace in $traces; do
        play full-speed 60 "$trace" --verify
    done
    finish
}

stage_transfer() {
    build_targets vram_command example_forces bench_slot_copy bench_strided shim_cuda || finish
    step copy 120 copy.json "$build/vram" bench copy --backend cuda --json --seconds 40
    step check-ring 60 check-ring.txt "$build/vram" check --backend cuda --filter ring --verbose
    # Idle staging slots, copies and launches beside a kernel that goes on: none of them waits for it.
    step check-staging 60 check-staging.txt "$build/vram" check --backend cuda --filter staging --verbose
    step ring 90 ring.json "$build/vram" bench ring --backend cuda --json --messages 1000000
    example 21_ring
    step forces 120 forces.txt "$build/examples/forces" --nodes 1000000 --report --backend cuda
    step strided 60 strided.txt "$build/bench/strided" cuda 32
    # The same where the driver has no call for rows, as the shim says: a launch of the library's, or row by row.
    SHIM_FAIL=cuMemcpy2DAsync:1:801:forever VRAM_CUDA_LIBRARY=$PWD/$build/tests/fake/libcuda_shim.so \
        step strided-rows 60 strided-rows.txt "$build/bench/strided" cuda 32
    step slot-copy 60 slot-copy.txt "$build/bench/slot_copy" 1024 32 1 2 4 8 16
    finish
}

# small NAME SIZE [VARIABLE=VALUE]: copies of ordinary memory up to SIZE.
small() {
    local name=$1 size=$2
    shift 2
    step "copy-$name-$size" 30 "small-$name-$size.json" env "$@" "$build/vram" bench copy --backend cuda \
        --json --size "$size" --seconds 6
}

stage_sleep() {
    local turn size
    build_targets vram_command bench_pool_sleep || finish
    for turn in 1 2; do
        step "pool-sleep-$turn" 90 "pool-sleep-$turn.txt" "$build/bench/pool_sleep" cuda 16G
    done
    step check-sleep 60 check-sleep.txt "$build/vram" check --backend cuda --filter sleep --verbose
    step check-sleep-alone 60 check-sleep-alone.txt "$build/vram" check --backend cuda \
        --filter sleep.kernels --isolate --verbose
    for size in 256K 512K 2M 4M; do
        small default "$size"
    done
    for size in 512K 2M 4M; do
        small driver "$size" VRAM_STAGING_SLOTS=0
    done
    small one-thread 4M VRAM_STAGING_THREADS=1
    small four-threads 4M VRAM_STAGING_THREADS=4
    finish
}

stage_models() {
    local choice=()
    build_targets vram_command || finish
    [ -z "${MODELS:-}" ] || choice=(--models "$MODELS")
    step models 330 models.txt python3 bench/model_peak.py --vram "$build/vram" \
        --json "$work/models.json" "${choice[@]}"
    finish
}

# torch_adapter: what vram.torch needs; its adapter is compiled once, before many processes want it. The shared
# library is built as a part of libvram-model's: the command has the name of its target.
torch_adapter() {
    export LIBVRAM_PATH=$PWD/$build/libvram.so.0 LIBVRAM_TORCH_PLUGIN=$PWD/$build/bench/libvram_torch.so
    export LIBVRAM_TORCH_CACHE=$PWD/$build/torch-cache
    mkdir -p "$LIBVRAM_TORCH_CACHE"
    PYTHONPATH=bindings/python step torch-adapter 150 torch-adapter.txt python3 -c \
        "import torch, vram.torch.extension as e; e.load(torch); print('for PyTorch', torch.__version__)"
}

# torch_run FLAG...: bench/torch_run.py in all the time that is left. Its JSON is also beside the log.
torch_run() {
    local choice=() left
    build_targets vram_model vram_torch || finish
    torch_adapter || finish
    [ -z "${PROGRAMS:-}" ] || choice=(--programs "$PROGRAMS")
    left=$((seconds_in_all - SECONDS - 25))
    # shellcheck disable=SC2016,SC2086 # for the inner shell; a list of words
    step "$stage" "$((left + 15))" "$stage.txt" bash -c 'exec "$@" 2>"$0"' "$work/$stage.err" \
        python3 bench/torch_run.py --budget-seconds "$left" \
        --plugin "$build/bench/libvram_torch.so" --json "$work/$stage.json" \
        "${choice[@]}" "$@" ${TORCH_FLAGS:-}
    tail -n 40 "$work/$stage.err" >>"$log"
    cp "$work/$stage.json" "$out/$stage.json"
    finish
}

stage_torch() { torch_run; }
stage_least() { torch_run --least; }
stage_largest() { torch_run --largest; }
stage_pairs() { torch_run --pairs 15; }

stage_python() {
    build_targets vram_model vram_command vram_cupy || finish # libvram.so comes with libvram-model's
    export LIBVRAM_PATH=$PWD/$build/libvram.so.0 LIBVRAM_COMMAND=$PWD/$build/vram
    # shellcheck disable=SC2086 # a list of words
    step python "${PYTHON_SECONDS:-200}" python.txt python3 bindings/python/tests/device_test.py ${ITEMS:-}
    cat "$work/python.txt"
    finish
}

stage_adapters() {
    local left
    build_targets vram_model vram_torch vram_cupy vram_command || finish
    export LIBVRAM_COMMAND=$PWD/$build/vram # reads what _dump_snapshot writes
    torch_adapter || finish
    left=$((seconds_in_all - SECONDS - 20))
    step adapters "$((left + 10))" adapters.txt python3 tests/torch/h200.py --seconds "$left" --json "$work/adapters.json" \
        ${ITEMS:+--items "$ITEMS"}
    cat "$work/adapters.txt"
    finish
}

# The shim is built like any other target; nothing of the driver is changed.
stage_faults() {
    local shim="$PWD/$build/tests/fake/libcuda_shim.so" mode
    build_targets tools shim_cuda vram_command || finish
    step reset 120 reset.txt "$build/tests/tools" device_reset
    for mode in global thread_local relaxed; do
        step "capture-$mode" 60 "capture-$mode.txt" "$build/tests/tools" conform cuda "$mode"
        step "capture-$mode-b" 60 "capture-$mode-b.txt" "$build/tests/tools" conform cuda "$mode,blocking"
    done
    # With no plan it changes nothing.
    VRAM_CUDA_LIBRARY=$shim step shim-check 90 shim-check.txt "$build/vram" check --backend cuda \
        --filter memory
    step faults 330 faults.txt "$build/tests/tools" drivers cuda --shim "$shim" --jobs "${JOBS:-$((jobs > 32 ? 32 : jobs))}"
    finish
}

stage_handout() {
    local nvcc
    nvcc=$(find_tool nvcc)
    build_targets vram_static || finish
    if [ -z "$nvcc" ]; then
        row handout "FAILED: no nvcc" 0
        failed=1
        finish
    fi
    step nvcc 120 nvcc.txt "$nvcc" -O2 -std=c++17 -arch="${CUDA_ARCH:-native}" -Iinclude \
        -o "$work/handout_cuda" bench/handout_cuda.cu "$build/libvram.a" -lpthread -ldl || finish
    step nvcc-resources 120 nvcc-resources.txt "$nvcc" -O2 -std=c++17 -arch="${CUDA_ARCH:-native}" -Iinclude \
        -o "$work/resources" tests/cuda/resources.cu "$build/libvram.a" -lpthread -ldl &&
        step resources 60 resources.txt "$work/resources"
    rm -f "$work/resources"
    export CUDA_DEVICE_MAX_CONNECTIONS=32 # as many streams side by side as the device has channels
    # Kernels of 10 ms: whatever a pool does meanwhile, memory that it hands out early is still written.
    step broken 60 broken.json "$work/handout_cuda" --broken --ticks 20000000 --handouts 200000 \
        --seconds 20
    step slow 60 slow.json "$work/handout_cuda" --ticks 20000000 --handouts 200000 --seconds 30 \
        --seed 2
    step handout 240 handout.json "$work/handout_cuda" --handouts "${HANDOUTS:-10000000}" \
        --seconds "${HANDOUT_SECONDS:-170}"
    rm -f "$work/handout_cuda"
    finish
}

stage_share() {
    local meet
    meet=$(mktemp -d /tmp/vram-share-XXXXXX)
    build_targets vram_command bench_share example_24_share shim_cuda || finish
    export VRAM_BACKENDS=cuda,host VRAM_SHARE_DIR=$meet
    step check 120 check.txt "$build/vram" check --backend cuda --filter share. --verbose
    step bench 200 bench.txt "$build/bench/share_bench" --kills "${KILLS:-100}"
    VRAM_CUDA_LIBRARY=$PWD/$build/tests/fake/libcuda_shim.so step driver 120 driver.txt "$build/bench/share_bench" \
        --kills 0
    step namespaces 120 namespaces.txt bench/share_apart.sh "$build/examples/24_share" "$meet"
    rm -rf "$meet"
    finish
}

stage_compose() {
    local seconds=${COMPOSE_SECONDS:-300}
    build_targets vram_command tools || finish
    step pairs 120 pairs.txt "$build/vram" check --backend cuda --filter compose. --verbose
    step random $((seconds + 60)) random.txt "$build/tests/tools" compose_soak --backend cuda --seconds "$seconds" \
        --seed "${SEED:-1}"
    finish
}

stage_run() {
    build_targets vram_command || finish # libvram-run.so comes with it
    # shellcheck disable=SC2086 # a list of words
    step run "${RUN_SECONDS:-380}" run.txt python3 bench/run_device.py "$PWD/$build/vram" ${ITEMS:-}
    cat "$work/run.txt"
    finish
}

stage_lease() {
    local meet
    meet=$(mktemp -d /tmp/vram-lease-XXXXXX)
    build_targets vram_command bench_lease example_25_lease shim_cuda || finish
    export VRAM_BACKENDS=cuda,host VRAM_SHARE_DIR=$meet VRAM_BROKER=$build/vram
    step check 120 check.txt "$build/vram" check --backend cuda --filter lease. --verbose
    step example 60 example.txt "$build/examples/25_lease"
    step switch 500 switch.txt "$build/bench/lease_bench" --switches "${SWITCHES:-100}" --way lease
    step together 300 together.txt "$build/bench/lease_bench" --switches "${TOGETHER_SWITCHES:-20}" --way lease \
        --together 1
    # Small blocks: what the same memory takes in many handles.
    step blocks 300 blocks.txt "$build/bench/lease_bench" --switches "${BLOCK_SWITCHES:-10}" --way lease --parts 1024
    VRAM_CUDA_LIBRARY=$PWD/$build/tests/fake/libcuda_shim.so step driver 300 driver.txt "$build/bench/lease_bench" \
        --switches "${DRIVER_SWITCHES:-10}" --way lease
    step copy 300 copy.txt "$build/bench/lease_bench" --switches "${COPY_SWITCHES:-20}" --way copy
    step checkpoint 300 checkpoint.txt "$build/bench/lease_bench" \
        --switches "${CHECKPOINT_SWITCHES:-10}" --way checkpoint
    rm -rf "$meet"
    finish
}

# Three processes: two of libvram, and one that takes its memory from the driver alone.
stage_top() {
    build_targets vram_command || finish
    beside soak-1 40 soak-1.txt "$build/vram" stress soak -b cuda -s 12 -t 2
    beside soak-2 40 soak-2.txt "$build/vram" stress soak -b cuda -s 12 -t 1
    beside foreign 40 foreign.txt python3 -c 'import ctypes, time
driver, context, addr = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(addr), ctypes.c_size_t(1 << 30)) == 0
time.sleep(12)'
    sleep 6
    step top 20 top.txt "$build/vram" top --once
    step top.json 20 top.json "$build/vram" top --once --json
    step exporter 20 exporter.txt "$build/vram" exporter --once
    together
    cat "$work/top.txt"
    finish
}

stage_zero() {
    build_targets bench_zero || finish
    step zero "${ZERO_SECONDS:-390}" zero.txt "$build/bench/zero_handouts" cuda "${HANDOUTS:-1000000}" 150
    cat "$work/zero.txt"
    finish
}

# sanitize NAME TOOL WANTED BUG [VARIABLE=VALUE]: WANTED is found or none.
sanitize() {
    local name=$1 tool=$2 wanted=$3 bug=$4 count
    shift 4
    # The exit code is what is asked for; a step that fails by itself must not stop the stage.
    # shellcheck disable=SC2016 # for the inner shell
    step "$name" 60 "$name.txt" env "$@" bash -c '"$@"; code=$?; echo "exit code $code"; exit $((code != 0 && code != 99))' \
        run "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 99 "$build/bench/planted_bugs" "$bug" ||
        return
    count=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p' "$work/$name.txt" | tail -n 1)
    case $wanted-${count:-unknown} in
    found-0 | found-unknown | none-[1-9]* | none-unknown)
        row "$name" "FAILED: ${count:-unknown} errors, $wanted expected" 0
        failed=1
        cat "$work/$name.txt"
        ;;
    *) row "$name" "$count errors, as expected" 0 ;;
    esac
}

stage_sanitizer() {
    local sanitizer group
    sanitizer=${SANITIZER:-$(find_tool compute-sanitizer)}
    if [ -z "$sanitizer" ]; then
        row sanitizer "FAILED: no compute-sanitizer" 0
        failed=1
        finish
    fi
    build_targets bench_planted vram_command || finish
    "$sanitizer" --version | tee -a "$log"
    quiet=1
    sanitize clean-memcheck memcheck none clean
    sanitize clean-initcheck initcheck none clean
    sanitize overrun memcheck found overrun
    sanitize freed memcheck found freed
    sanitize fresh initcheck found fresh
    sanitize overrun-unannounced memcheck none overrun VRAM_NVTX=off
    sanitize freed-unannounced memcheck none freed VRAM_NVTX=off
    sanitize fresh-unannounced initcheck none fresh VRAM_NVTX=off
    quiet=0
    for group in memory pool buffer; do
        step "check-$group" 120 "check-$group.txt" "$sanitizer" --tool memcheck --report-api-errors no \
            --error-exitcode 99 "$build/vram" check --backend cuda --filter "$group."
    done
    finish
}

stage_foreign() {
    local left
    if [ ! -d "${FOREIGN:-}" ]; then
        row foreign "FAILED: FOREIGN names no folder" 0
        failed=1
        finish
    fi
    build_targets vram_model vram_torch vram_cupy vram_command || finish
    torch_adapter || finish
    if [ -f "$FOREIGN/tms/setup.py" ] && [ -z "$(find "$FOREIGN/tms" -name '*.so' | head -n 1)" ]; then
        # shellcheck disable=SC2016 # for the inner shell
        TMS_CUDA_MAJOR=${TMS_CUDA_MAJOR:-13} TMS_PLATFORM=cuda step tms 120 tms.txt bash -c \
            'cd "$0" && exec python3 setup.py build_ext --inplace' "$FOREIGN/tms"
    fi
    [ -z "${FOREIGN_BEFORE:-}" ] || cp "$FOREIGN_BEFORE" "$work/foreign.json"
    left=$((seconds_in_all - SECONDS - 15))
    # shellcheck disable=SC2016 # for the inner shell
    step foreign "$((left + 10))" foreign.txt bash -c 'exec "$@" 2>"$0"' "$work/foreign.err" \
        python3 bench/foreign/run.py "$FOREIGN" --seconds "$left" --json "$work/foreign.json" \
        --suites "${FOREIGN_SUITES:-}" --modes "${FOREIGN_MODES:-native,vram}" --tests "${FOREIGN_TESTS:-}" \
        ${FOREIGN_POISON:+--poison --delay "${FOREIGN_DELAY:-2}"}
    cat "$work/foreign.txt"
    cat "$work/foreign.err" >>"$log"
    cp "$work/foreign.json" "$out/foreign.json"
    finish
}

mkdir -p "$out" && rm -rf "$work" && mkdir -p "$work" || exit 2
: >"$log"
"stage_$stage"
