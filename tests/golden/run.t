$ vram run -- /nonexistent/program
! vram: /nonexistent/program: cannot be executed: No such file or directory
[127]
