$ vram check --help
  Usage: vram check [OPTION]...
  Run the conformance suite on a device.

  Options
    -b, --backend=NAME      check every device of this backend, or of several
                            joined by commas
    -d, --device=N          use device N as `vram info` numbers them, within
                            --backend if given
    -f, --filter=TEXT       run only the cases with TEXT in their name
    -i, --isolate           run each case in its own process; a case that a driver
                            ends has failed
    -l, --list              list the cases and what each proves, do not run them
    -v, --verbose           show the cases that pass too
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram check                      # on the best device
    vram check --backend sim        # on every simulated device
    vram check --filter mapping -v  # some cases, each with what it proves
    vram check --isolate            # if a driver ends the process
    vram check --list               # all cases
    vram check --backend cuda --json    # for programs: schema vram.check/1

$ VRAM_CONF=backends=sim vram check --filter fill --color=always
  <esc>[1msim device 0<esc>[0m: Simulated GPU
  <esc>[32m<*> passed<esc>[0m, 0 failed, 0 skipped: everything that was checked is as it should be.
$ VRAM_CONF=backends=sim VRAM_SIM=fault=alloc:1:2:forever vram check --filter fill
  sim device 0: Simulated GPU
  failed   fill.<*>: <*>out_of_memory, as planned
  <...>
  0 passed, <*> failed, 0 skipped: this device does not do what the library relies on.
[1]
$ vram check --backend host --filter fill --verbose
  host device 0: <*>
  passed   fill.<*>: <*>
  <...>
  <*> passed, 0 failed, 0 skipped: everything that was checked is as it should be.
$ vram check --list --filter fill
  fill.<*>  <*>
  <...>
$ vram check --list --filter destroy_under
  lifetime.destroy_under_work  ending a context under working threads is safe
  lifetime.destroy_under_wait  ending a context wakes those who wait on its queues
$ VRAM_SIM=devices=2 vram check --backend sim --device 1 --filter fill
  sim device 1: Simulated GPU
  <*> passed, 0 failed, 0 skipped: everything that was checked is as it should be.
$ VRAM_SIM=devices=2 vram check --backend sim --filter fill
  sim device 0: Simulated GPU
  sim device 1: Simulated GPU
  <*> passed, 0 failed, 0 skipped: everything that was checked is as it should be.
$ VRAM_CONF=backends=sim VRAM_SIM=vmm=off vram check --filter mapping
  sim device 0: Simulated GPU
  skipped  mapping.<*>: <*>vmm<*>
  <...>
  0 passed, 0 failed, <*> skipped: nothing was checked.

# What cannot be done.
$ VRAM_CUDA_LIBRARY=/nonexistent vram check --backend cuda
! vram: backend cuda is absent: /nonexistent: cannot open shared object file: No such file or directory; the option cuda_library (VRAM_CUDA_LIBRARY) asks for it
[2]
$ VRAM_CONF=backends=sim vram check --filter nothing-like-it
! vram: no case has "nothing-like-it" in its name; `vram check --list` shows them
[2]
