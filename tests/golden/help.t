$ vram help --help
  Usage: vram help [VERB] [OPTION]...
  Print the help of the command or of one verb.

  Options
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram help               # all verbs
    vram help check         # the same as vram check --help
    vram help --json        # the whole table of verbs and flags, for tools

$ vram --help
  Usage: vram VERB [OPTION]...
  A memory manager for every GPU.

  Verbs
    info        Show backends, devices, memory and capabilities, and why a backend
                is absent
    check       Run the conformance suite on a device
    tour        Walk through allocation, copies, queues, moves, pools and a race,
                with times
    replay      Replay recorded allocations on a real or simulated device, by
                several policies
    report      Report on a trace: the peak and its owners, leaks, churn, and what
                to do
    run         Run a program and report what it did with device memory
    top         Show the memory of devices and processes, live
    exporter    Export the metrics of every process that uses libvram, for
                Prometheus
    bench       Measure allocations and copies, compared with other allocators in
                the same run
    stress      Run a soak test on a device, or a script through all levels of
                memory pressure
    estimate    Check whether a model fits: weights, cache and buffers against
                free memory
    broker      Share out device memory among the leases of this user's processes
    completion  Print the completion script for a shell
    help        Print the help of the command or of one verb

  Options
    -h, --help              print this help and exit
    -V, --version           print the version and exit

  Examples
    vram info               # what is in this machine
    vram tour               # see it work, step by step
    vram check              # does my device do what libvram needs
    vram help info          # the options of one verb

  Exit codes: 0 success, 1 the answer is no (a check failed), 2 misuse or failure.

$ vram help tour
  Usage: vram tour [OPTION]...
  Walk through allocation, copies, queues, moves, pools and a race, with times.

  Options
    -b, --backend=NAME      use only this backend, or several joined by commas
    -d, --device=N          use device N as `vram info` numbers them, within
                            --backend if given
        --race              only the race of transfers
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram tour                       # on the best device
    vram tour --backend host        # on plain host memory, works everywhere
    vram tour --backend cuda -d 1   # on the second CUDA device
    VRAM_SIM=profile=h200 vram tour --backend sim    # a model of an H200
    vram tour --race                # frames to the host in four ways, a table

# Each verb's, by both ways: what it is for, and lines that are wider than a terminal.
$ for verb in $(vram --help | sed -n '/^Verbs/,/^Options/s/^  \([a-z][a-z]*\) .*/\1/p'); do
>   vram $verb --help >one; vram help $verb | cmp one -; sed -n 2p one; awk 'length > 80' one
> done
  Show backends, devices, memory and capabilities, and why a backend is absent.
  Run the conformance suite on a device.
  Walk through allocation, copies, queues, moves, pools and a race, with times.
  Replay recorded allocations on a real or simulated device, by several policies.
  Report on a trace: the peak and its owners, leaks, churn, and what to do.
  Run a program and report what it did with device memory.
  Show the memory of devices and processes, live.
  Export the metrics of every process that uses libvram, for Prometheus.
  Measure allocations and copies, compared with other allocators in the same run.
  Usage: vram bench alloc|copy|distance|grow|launch|matmul|readback|ring|track [OPTION]...
  Run a soak test on a device, or a script through all levels of memory pressure.
  Check whether a model fits: weights, cache and buffers against free memory.
                            hidden=N,intermediate=N,layers=N,vocab=N,heads=N,kv_heads=N,tokens=N,bytes=N
  Share out device memory among the leases of this user's processes.
  Print the completion script for a shell.
  Print the help of the command or of one verb.
$ vram --help >one; vram -h | cmp one -; vram help | cmp one -
