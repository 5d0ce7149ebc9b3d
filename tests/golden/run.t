$ vram run -- /nonexistent/program
! vram: /nonexistent/program: cannot be executed: No such file or directory
[127]

# What cannot be done.
$ vram run --limit=lots -- true
! vram: --limit=lots: not a size: use a number with K, M, G or T, such as 8G
[2]
$ vram run
! vram: `vram run` needs a program: vram run -- PROGRAM [ARGUMENT]...
[2]
$ vram run --tree -- true
! vram: --tree needs --limit: it says for whom the limit is
[2]
