$ vram stress --help
  Usage: vram stress soak|pressure [OPTION]...
  Run a soak test on a device, or a script through all levels of memory pressure.

  Options
    -b, --backend=NAME      use only this backend, or several joined by commas
    -d, --device=N          use device N as `vram info` numbers them, within
                            --backend if given
    -s, --seconds=N         how long to run (10)
    -t, --threads=N         threads that allocate (2)
    -l, --limit=SIZE        most that the pool may hold (a quarter of what is
                            free, at most 1 GiB)
        --seed=N            seed of sizes and order (1)
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram stress soak                       # ten seconds on the best device
    vram stress soak -s 3600 -t 8          # an hour, eight threads
    vram stress soak -b host -l 64M        # in 64 MiB of host memory
    vram stress pressure -b sim            # exit code 1 if not as planned
    vram stress pressure -b host --json    # for programs: vram.stress/1

$ vram stress pressure --backend sim
  ok      levels: held at 59 %                        247463936
  ok      levels: level at 59 %                       1
  ok      levels: caches halved                       0
  ok      levels: rare sizes dropped                  0
  ok      levels: emergency cleanups                  0
  <...>
  ok      ladder: no other memory is left in use      0
  ok      ladder: times that memory was short         13
  102 of 102 as planned

$ vram stress soak --backend sim --seconds 1 --limit 64M
  <*> allocations in <*> s, <*> % of them hits; <*> refused because memory ran out
  most held <*> of 64.00 MiB; caches halved <*> times, rare sizes dropped <*>, emergencies <*>
  <*> blocks read back, 0 wrong; 0 failures; 0 bytes left
  passed

$ VRAM_SIM=lose=50 vram stress soak --backend sim --seconds 1
  <*> allocations in <*> s, <*> % of them hits; <*> refused because memory ran out
  most held <*> of 1.00 GiB; caches halved <*> times, rare sizes dropped <*>, emergencies <*>
  <*> blocks read back, 0 wrong; <*> failures; <*> bytes left
  the first failure: <*>: <*>VRAM_ERR_DEVICE_LOST<*>
  FAILED
[1]

# What cannot be done.
$ vram stress soak --limit 5
! vram: --limit=5: not a size from 1M on, like 64M or 1.5GiB
[2]
$ vram stress
! vram: say which test to run: vram stress soak, or vram stress pressure
[2]
$ vram stress pressure --backend sim --seconds 3
! vram: --seconds is only for `vram stress soak`
[2]
$ VRAM_SIM=vmm=off vram stress pressure --backend sim
! vram: sim device 0 cannot map memory, which the script needs; `vram stress soak` runs on any device
[2]
$ vram stress soak --seconds 0
! vram: --seconds=0: not a whole number from 1 to 604800
[2]
$ vram stress soke
! vram: "soke" is not one of soak, pressure
[2]
