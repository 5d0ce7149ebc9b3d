$ d=$(mktemp -d) && vram broker --dir $d --idle 1; rm -r $d
  the broker listens at <*>/vram-b-<*>

# One broker a folder.
$ d=$(mktemp -d) && vram broker --dir $d --idle 20 --detach && until VRAM_SHARE_DIR=$d vram info --leases; do sleep 0.01; done | tail -n 1; vram broker --dir $d; c=$?; rm -r $d; exit $c
  No leases: a broker runs, and nobody uses it.
! vram: there is a broker already: <*>/vram-b-<*>
[1]
