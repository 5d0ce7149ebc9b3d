$ vram --help > /dev/full
! vram: cannot write to standard output: No space left on device
[2]
$ VRAM_CONF=backends=sim vram info <&- >&- 2>&-
[2]

# A file that may not grow: a sentence, exit code 2, and no half of a file.
$ export VRAM_CONF=backends=sim
> vram replay --generate varied,steps=4 --print > t.csv; { (export GCOV_PREFIX=/dev/null; ulimit -f 1; for to in '--svg picture.svg' '--html page.html'; do vram replay t.csv -b sim $to > /dev/null; echo $?; done; vram report t.csv -f csv -o out.csv; echo $?; vram report t.csv -f json -o out.json; echo $?; vram exporter --once --textfile m.prom; echo $?) 2>&1 >&3 | grep -v ^profiling: >&2; } 3>&1; ls
  2
  2
  2
  2
  2
  t.csv
! vram: cannot write the picture to picture.svg: File too large
! vram: cannot write the page to page.html: File too large
! vram: out.csv: File too large
! vram: out.json: File too large
! vram: cannot write m.prom: File too large

$ vram frobnicate 2>&-
[2]
$ VRAM_CONF=backends=sim vram info --json <&- >/dev/null
$ VRAM_CONF=backends=sim vram info >&-
! vram: cannot write to standard output: Bad file descriptor
[2]
$ VRAM_CONF=backends=sim vram info --json >&-
! vram: cannot write to standard output: Bad file descriptor
[2]

$ export VRAM_CONF=backends=sim
> printf 'op,id,bytes,stream,t_us\na,1,10000000,0,0\nf,1,,,2000\n' | vram replay - --backend sim --json >&-
! vram: cannot write to standard output: Bad file descriptor
[2]

# A full disk.
$ VRAM_CONF=backends=sim vram info > /dev/full
! vram: cannot write to standard output: No space left on device
[2]
$ VRAM_CONF=backends=sim vram bench alloc --backend sim --seconds 0.05 > /dev/full
! vram: cannot write to standard output: No space left on device
[2]
$ vram completion zsh > /dev/full
! vram: cannot write to standard output: No space left on device
[2]
$ VRAM_CONF=backends=sim vram info --json > /dev/full
! vram: cannot write to standard output: No space left on device
[2]

$ export VRAM_CONF=backends=sim
> printf 'op,id,bytes,stream,t_us\na,1,10000000,0,0\nf,1,,,2000\n' | vram replay - --backend sim > /dev/full
! vram: cannot write to standard output: No space left on device
[2]

$ export VRAM_CONF=backends=sim
> printf 'op,id,bytes,stream,t_us\na,1,10000000,0,0\nf,1,,,2000\n' | vram replay - --print > /dev/full
! vram: cannot write to standard output: No space left on device
[2]
$ VRAM_CONF=backends=sim vram tour > /dev/full
! vram: cannot write to standard output: No space left on device
[2]
$ vram --version > /dev/full
! vram: cannot write to standard output: No space left on device
[2]

# What cannot be done.
$ VRAM_CONF=backends=sim vram check --filter fill > /dev/full
! vram: cannot write to standard output: No space left on device
[2]

# A server whose address nobody can read does not stay.
$ make_trace.py story >t.vrt; vram report --serve t.vrt >/dev/full
! vram: cannot write to standard output
[2]
