$ vram top --help
  Usage: vram top [OPTION]...
  Show the memory of devices and processes, live.

  Options
    -1, --once              print one look as text and end
    -i, --interval=SECONDS  time between looks, 2 if not given; --json and --csv
                            then go on until stopped
        --csv               print one line per process with commas; unknown
                            figures are empty
    -p, --pid=PID           open this process
    -f, --filter=TEXT       only processes with this in their pid, user, device,
                            tag or command
    -s, --sort=COLUMN       sort by this column
    -r, --reverse           sort the other way round
        --pages=DIR         read live pages in this folder alone, such as one of a
                            container's host
        --pages-only        only processes with a live page: ask neither NVML nor
                            /proc for others
        --thresholds=A,B,C  percentages from which colours change, 60,80,95 if not
                            given
    -U, --ascii             draw with plain characters alone
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram top
    vram top --once                       # one look, for a mail or a log
    vram top --once --pid 4711            # one process: pools, tags, refusals
    vram top --json | jq '.processes[] | {pid, held_bytes}'
    vram top --csv -i 1 > memory.csv
