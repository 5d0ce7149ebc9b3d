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
