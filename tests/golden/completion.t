$ vram completion --help
  Usage: vram completion bash|zsh|fish [OPTION]...
  Print the completion script for a shell.

  Options
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    source <(vram completion bash)           # this bash, now
    vram completion zsh > ~/.zfunc/_vram     # zsh, in a folder of your fpath
    vram completion fish > ~/.config/fish/completions/vram.fish

# What is generated is what the repository has.
$ vram completion bash | cmp - $ROOT/completions/vram.bash
$ vram completion fish | cmp - $ROOT/completions/vram.fish
$ vram completion zsh | cmp - $ROOT/completions/_vram

# What cannot be done.
$ vram completion
! vram: `vram completion` needs one shell: bash, zsh or fish
[2]
$ vram completion bash zsh
! vram: `vram completion` needs one shell: bash, zsh or fish
[2]
$ vram completion tcsh
! vram: "tcsh" is not one of bash, zsh, fish
[2]
