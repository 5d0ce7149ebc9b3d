$ vram broker --help
  Usage: vram broker [OPTION]...
  Share out device memory among the leases of this user's processes.

  Options
        --dir=DIR           directory of the socket; XDG_RUNTIME_DIR or
                            /tmp/vram-UID if not given
        --idle=SECONDS      end after so long without a lease, 10 if not given; 0:
                            never
        --detach            go on in the background, without a terminal
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram broker                     # until nobody has used it for 10 seconds
    vram broker --idle 0 --detach   # for ever, in the background

$ d=$(mktemp -d) && vram broker --dir $d --idle 1; rm -r $d
  the broker listens at <*>/vram-b-<*>

# One broker a folder.
$ d=$(mktemp -d) && vram broker --dir $d --idle 20 --detach && until VRAM_SHARE_DIR=$d vram info --leases; do sleep 0.01; done | tail -n 1; vram broker --dir $d; c=$?; rm -r $d; exit $c
  No leases: a broker runs, and nobody uses it.
! vram: there is a broker already: <*>/vram-b-<*>
[1]
$ vram broker --idle soon
! vram: --idle=soon: not a whole number from 0 to 1000000000
[2]
