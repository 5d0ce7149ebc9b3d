$ vram run --help
  Usage: vram run [OPTION]... -- PROGRAM [ARGUMENT]...
  Run a program and report what it did with device memory.

  Options
    -o, --output=FILE       write the trace there; %p is the process, %h the host;
                            vram.PROGRAM.%p.vrt if not given
        --stacks=WHICH      record who allocated: native (the default) or off
    -l, --leaks             list what was never freed, with stacks
        --suppressions=FILE leave out what matches its lines leak:PATTERN, as
                            LeakSanitizer has them
        --error-exitcode=N  exit with N, 1 to 255, if anything was never freed, or
                            if that is not known
        --limit=SIZE        make each device look that small: 8G; allocations
                            beyond it fail
        --tree              the limit is for the program and its children together
        --serve             serve CUDA's stream-ordered memory from libvram's
                            pools instead of the driver's
        --follow-children   record the programs that it starts as well
    -q, --quiet             print no report at the end
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram run -- python train.py              # report on stderr, trace in a file
    vram run --leaks --error-exitcode 99 -- ./test   # for CI
    vram run --limit 24G -- python train.py  # does it fit on a smaller card?
    vram run --serve -- ./app                # cudaMallocAsync served by libvram

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
