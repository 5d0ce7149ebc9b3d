# What is generated is what the repository has.
$ vram completion bash | cmp - $ROOT/completions/vram.bash
$ vram completion fish | cmp - $ROOT/completions/vram.fish
$ vram completion zsh | cmp - $ROOT/completions/_vram
