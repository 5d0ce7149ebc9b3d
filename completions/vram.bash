# SPDX-License-Identifier: Apache-2.0
# bash completion for vram, written by `vram completion bash`
_vram() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local verb=${COMP_WORDS[1]} words= files=
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD == 1)); then
        words="--help --version info check tour replay report run top exporter bench stress estimate broker completion help"
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        return
    fi
    case $verb,$prev in
    info,--backend | info,-b) words="cuda hip metal vulkan opencl sim host" ;;
    info,--color) words="auto always never" ;;
    check,--backend | check,-b) words="cuda hip metal vulkan opencl sim host" ;;
    check,--device | check,-d) words="" ;;
    check,--filter | check,-f) words="" ;;
    check,--color) words="auto always never" ;;
    tour,--backend | tour,-b) words="cuda hip metal vulkan opencl sim host" ;;
    tour,--device | tour,-d) words="" ;;
    tour,--color) words="auto always never" ;;
    replay,--backend | replay,-b) words="cuda hip metal vulkan opencl sim host" ;;
    replay,--device | replay,-d) words="" ;;
    replay,--policy | replay,-p) words="vram expandable async caching naive" ;;
    replay,--generate | replay,-g) words="steady varied queues ahead threads" ;;
    replay,--memory | replay,-m) words="" ;;
    replay,--repeat | replay,-r) words="" ;;
    replay,--svg) words="" ;;
    replay,--html) words="" ;;
    replay,--color) words="auto always never" ;;
    report,--html) words="" ;;
    report,--format | report,-f) words="html text json memory_viz perfetto folded csv" ;;
    report,--output | report,-o) words="" ;;
    report,--against | report,-a) words="" ;;
    report,--fail-if) words="" ;;
    report,--pid | report,-p) words="" ;;
    report,--port) words="" ;;
    report,--top | report,-n) words="" ;;
    report,--color) words="auto always never" ;;
    run,--output | run,-o) words="" ;;
    run,--stacks) words="native off" ;;
    run,--suppressions) words="" ;;
    run,--error-exitcode) words="" ;;
    run,--limit) words="" ;;
    run,--color) words="auto always never" ;;
    top,--interval | top,-i) words="" ;;
    top,--pid | top,-p) words="" ;;
    top,--filter | top,-f) words="" ;;
    top,--sort | top,-s) words="pid user device held_bytes live_bytes cached_bytes ratio peak_held_bytes driver_bytes pressure allocations_per_second top_tag command" ;;
    top,--pages) words="" ;;
    top,--thresholds) words="" ;;
    top,--color) words="auto always never" ;;
    exporter,--listen | exporter,-l) words="" ;;
    exporter,--host) words="" ;;
    exporter,--textfile | exporter,-f) words="" ;;
    exporter,--pages) words="" ;;
    exporter,--interval | exporter,-i) words="" ;;
    exporter,--color) words="auto always never" ;;
    bench,--pattern | bench,-p) words="pair burst mixed handover" ;;
    bench,--size | bench,-s) words="" ;;
    bench,--messages | bench,-m) words="" ;;
    bench,--from) words="" ;;
    bench,--to) words="" ;;
    bench,--threads | bench,-t) words="" ;;
    bench,--live | bench,-l) words="" ;;
    bench,--backend | bench,-b) words="cuda hip metal vulkan opencl sim host" ;;
    bench,--device | bench,-d) words="" ;;
    bench,--seconds) words="" ;;
    bench,--baseline) words="" ;;
    bench,--margin) words="" ;;
    bench,--save) words="" ;;
    bench,--color) words="auto always never" ;;
    stress,--backend | stress,-b) words="cuda hip metal vulkan opencl sim host" ;;
    stress,--device | stress,-d) words="" ;;
    stress,--seconds | stress,-s) words="" ;;
    stress,--threads | stress,-t) words="" ;;
    stress,--limit | stress,-l) words="" ;;
    stress,--seed) words="" ;;
    stress,--color) words="auto always never" ;;
    estimate,--ctx-size | estimate,-c) words="" ;;
    estimate,--gpu-layers) words="all" ;;
    estimate,--cache-type-k) words="f32 f16 bf16 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl" ;;
    estimate,--cache-type-v) words="f32 f16 bf16 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl" ;;
    estimate,--batch-size | estimate,-b) words="" ;;
    estimate,--ubatch-size) words="" ;;
    estimate,--parallel) words="" ;;
    estimate,--flash-attn) words="on off auto 0 1" ;;
    estimate,--tensor-split) words="" ;;
    estimate,--n-cpu-moe) words="" ;;
    estimate,--mmproj) words="" ;;
    estimate,--memory | estimate,-m) words="" ;;
    estimate,--overhead) words="" ;;
    estimate,--weights) words="F32 BF16 F16 Q8_0 Q6_K Q5_K_M Q5_K_S Q4_K_M Q4_K_S Q4_0 Q3_K_L Q3_K_M Q3_K_S Q2_K IQ4_XS IQ4_NL IQ3_M IQ3_XXS IQ2_M IQ2_XXS MXFP4_MOE fp8 mxfp8 nvfp4 mxfp4 int4 int8 awq gptq" ;;
    estimate,--outputs) words="" ;;
    estimate,--activation-bytes) words="" ;;
    estimate,--params) words="" ;;
    estimate,--backend) words="cuda hip metal vulkan opencl sim host" ;;
    estimate,--device | estimate,-d) words="" ;;
    estimate,--color) words="auto always never" ;;
    broker,--dir) words="" ;;
    broker,--idle) words="" ;;
    broker,--color) words="auto always never" ;;
    completion,--color) words="auto always never" ;;
    help,--color) words="auto always never" ;;
    info,*) words="--backend --options --leases --shares --json --color --help " ;;
    check,*) words="--backend --device --filter --isolate --list --verbose --json --color --help " ;;
    tour,*) words="--backend --device --race --json --color --help " ;;
    replay,*) words="--backend --device --policy --generate --memory --repeat --least --rebuild --verify --pace --picture --svg --html --print --json --color --help " files=yes ;;
    report,*) words="--leaks --stacks --html --format --output --count --against --fail-if --pid --serve --port --top --json --color --help " files=yes ;;
    run,*) words="--output --stacks --leaks --suppressions --error-exitcode --limit --tree --serve --follow-children --quiet --json --color --help " files=yes ;;
    top,*) words="--once --interval --csv --pid --filter --sort --reverse --pages --pages-only --thresholds --ascii --json --color --help " ;;
    exporter,*) words="--listen --host --textfile --pages --interval --once --json --color --help " ;;
    bench,*) words="--pattern --size --messages --from --to --threads --live --backend --device --seconds --baseline --margin --save --json --color --help alloc copy distance grow launch matmul readback ring track" ;;
    stress,*) words="--backend --device --seconds --threads --limit --seed --json --color --help soak pressure" ;;
    estimate,*) words="--ctx-size --gpu-layers --cache-type-k --cache-type-v --batch-size --ubatch-size --parallel --flash-attn --swa-full --tensor-split --n-cpu-moe --cpu-moe --mmproj --guess --fit --memory --overhead --weights --outputs --activation-bytes --params --backend --device --json --color --help " files=yes ;;
    broker,*) words="--dir --idle --detach --json --color --help " ;;
    completion,*) words="--json --color --help bash zsh fish" ;;
    help,*) words="--json --color --help info check tour replay report run top exporter bench stress estimate broker completion help" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    if [[ $files && $cur != -* ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _vram vram
