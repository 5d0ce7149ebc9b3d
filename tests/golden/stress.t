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
$ VRAM_SIM=vmm=off vram stress pressure --backend sim
! vram: sim device 0 cannot map memory, which the script needs; `vram stress soak` runs on any device
[2]
