# SPDX-License-Identifier: Apache-2.0
# bash completion for vram, written by `vram completion bash`
_vram() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local verb=${COMP_WORDS[1]} words=
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD == 1)); then
        words="--help --version info check tour completion help"
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
    completion,--color) words="auto always never" ;;
    help,--color) words="auto always never" ;;
    info,*) words="--backend --options --json --color --help " ;;
    check,*) words="--backend --device --filter --list --verbose --json --color --help " ;;
    tour,*) words="--backend --device --json --color --help " ;;
    completion,*) words="--json --color --help bash zsh fish" ;;
    help,*) words="--json --color --help info check tour completion help" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _vram vram
