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
  ok      levels: held at 60 %                        251658240
  ok      levels: level at 60 %                       2
  ok      levels: caches halved                       0
  ok      levels: rare sizes dropped                  0
  ok      levels: emergency cleanups                  0
  ok      levels: held at 80 %                        335544320
  ok      levels: level at 80 %                       3
  ok      levels: caches halved                       1
  ok      levels: rare sizes dropped                  1
  ok      levels: emergency cleanups                  0
  ok      levels: held at 91 %                        381681664
  ok      levels: level at 91 %                       3
  ok      levels: caches halved                       1
  ok      levels: rare sizes dropped                  1
  ok      levels: emergency cleanups                  1
  ok      levels: held at 96 %                        402653184
  ok      levels: level at 96 %                       4
  ok      levels: caches halved                       1
  ok      levels: rare sizes dropped                  1
  ok      levels: emergency cleanups                  1
  ok      levels: bytes given back                    20971520
  ok      levels: held at 91 %                        381681664
  ok      levels: level at 91 %                       3
  ok      levels: bytes given back                    46137344
  ok      levels: held at 80 %                        335544320
  ok      levels: level at 80 %                       3
  ok      levels: bytes given back                    83886080
  ok      levels: held at 60 %                        251658240
  ok      levels: level at 60 %                       2
  ok      levels: bytes given back                    4194304
  ok      levels: held at 59 %                        247463936
  ok      levels: level at 59 %                       1
  ok      levels: bytes given back                    247463936
  ok      levels: held at 0 %                         0
  ok      levels: level at 0 %                        1
  ok      levels: rises into low                      0
  ok      levels: falls into low                      1
  ok      levels: rises into medium                   1
  ok      levels: falls into medium                   1
  ok      levels: rises into high                     1
  ok      levels: falls into high                     1
  ok      levels: rises into critical                 1
  ok      levels: falls into critical                 0
  ok      levels: reported a higher level             3
  ok      levels: reported a lower level              3
  ok      levels: warned                              1
  ok      levels: reported the end of the warning     1
  ok      levels: reported an emergency               1
  ok      levels: reported the end of the emergency   1
  ok      time: ticks of the decay                    3
  ok      time: maintenances                          1
  ok      time: held at 0 %                           0
  ok      time: level at 0 %                          1
  ok      ladder: held at 100 %                       419430400
  ok      ladder: level at 100 %                      4
  ok      ladder: caches halved                       2
  ok      ladder: rare sizes dropped                  2
  ok      ladder: emergency cleanups                  2
  ok      ladder: drain is taken                      1
  ok      ladder: drain in vain                       1
  ok      ladder: drain in the report                 1
  ok      ladder: finished is taken                   1
  ok      ladder: finished in vain                    1
  ok      ladder: finished in the report              1
  ok      ladder: move is taken                       1
  ok      ladder: move in vain                        1
  ok      ladder: move in the report                  1
  ok      ladder: trim is taken                       1
  ok      ladder: trim in vain                        1
  ok      ladder: trim in the report                  1
  ok      ladder: others is taken                     1
  ok      ladder: others in vain                      1
  ok      ladder: others in the report                1
  ok      ladder: cleanup is taken                    1
  ok      ladder: cleanup in vain                     1
  ok      ladder: cleanup in the report               1
  ok      ladder: retry is taken                      1
  ok      ladder: retry in vain                       1
  ok      ladder: retry in the report                 1
  ok      ladder: report: the cause is the limit      1
  ok      ladder: report: bytes asked for             8388608
  ok      ladder: report: bytes live                  419430400
  ok      ladder: report: bytes reserved              419430400
  ok      ladder: report: the limit                   419430400
  ok      ladder: report: steps                       10
  ok      ladder: callbacks are called                1
  ok      ladder: callbacks help                      1
  ok      ladder: waiting is tried                    1
  ok      ladder: waiting helps                       1
  ok      ladder: falls back to managed memory        1
  ok      ladder: managed memory in use               8388608
  ok      ladder: falls back to pinned memory         1
  ok      ladder: pinned memory in use                8388608
  ok      ladder: falls back to host memory           1
  ok      ladder: host memory in use                  8388608
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
