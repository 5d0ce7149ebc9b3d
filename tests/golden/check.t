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
