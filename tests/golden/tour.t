$ VRAM_CONF=backends=sim vram tour >told && cat told
  A tour of libvram <version> on sim:0, Simulated GPU (simulated: times are those of a model)

   1  open      Open the device and make two queues. Work on one queue runs in
                order.
                done
   2  allocate  Allocate two blocks of memory straight from the driver.
                done: 2 x 16.00 MiB
   3  upload    Send a pattern from host memory to the first block.
                done
   4  copy      Copy it to the second block, on the device. The call returns at
                once; a point marks where the copy ends.
                done
   5  download  Tell the second queue to begin after that point, and read the copy
                back there. The device waits for the copy; the host waits only for
                the end.
                done: contents are equal
   6  fill      Fill the first block with one repeated number, and check it.
                done: contents are equal
   7  move      Map physical memory at one address, write through it, map it at
                another, and read there: moved, not copied.
                done: contents are equal
   8  pool      Allocate blocks of seven sizes from a pool and free them. After
                the first rounds they come from the cache of this thread, without
                a driver call.
                done: 10000 blocks<*>, <*> of them from that cache
   9  launch    Run a kernel that adds one to every number of the second block.
                skipped: the device runs no kernels written in C
  10  race      Bring frames to the host in four ways: computed on the device,
                copied, summed up. All four run twice; the second run counts.
                done: 4 x 6 frames of 4.00 MiB
  11  free      Free everything.
                done: <*> driver calls in all

  nothing left: 0 bytes held

$ cat >steady <<'END'
> sed -E 's/ in [0-9.]+ [mun]?s//; s/, [0-9.]+ [KMGT]?i?B\/s//; s/, [0-9]+ [mun]?s each//; s/[0-9]+ (of them|driver calls)/N \1/; s/ +[0-9.]+ [mun]?s .*//; s/host:0, .*/host:0/'
> END
$ sh steady <told >plain

$ VRAM_CONF=backends=sim VRAM_SIM=fault=alloc:2:2 vram tour
  <...>
                failed
! vram: the step "allocate" failed: simulated device 0: alloc answered out_of_memory, as planned (VRAM_ERR_DEVICE_MEMORY)
[2]

$ VRAM_CONF=backends=sim VRAM_SIM=fault=alloc:2:2 vram tour --json
  {
    "schema": "vram.tour/1",
    "version": "<version>",
    "backend": "sim",
    "device": 0,
    "device_name": "Simulated GPU",
    "clock": "simulated",
    "steps": [
      {
        "name": "open",
        "story": "Open the device and make two queues. Work on one queue runs in order.",
        "result": "done",
        "remark": null,
        "duration_ns": 0,
        "moved_bytes": null
      },
      {
        "name": "allocate",
        "story": "Allocate two blocks of memory straight from the driver.",
        "result": "failed",
        "remark": "simulated device 0: alloc answered out_of_memory, as planned (VRAM_ERR_DEVICE_MEMORY)",
        "duration_ns": 0,
        "moved_bytes": null
      }
    ],
    "race": [],
    "passed": false,
    "held_bytes": null
  }
! vram: the step "allocate" failed: simulated device 0: alloc answered out_of_memory, as planned (VRAM_ERR_DEVICE_MEMORY)
[2]

# A device that is lost, or refuses.
$ VRAM_CONF=backends=sim VRAM_SIM=lose=12 vram tour
  <...>
                failed
! vram: the step "download" failed: simulated device 0: download answered device_lost: lost at call 12: lose= planned it (VRAM_ERR_DEVICE_LOST)
[2]

$ vram tour --backend host >now && sh steady <now | diff plain -
  1c1
  < A tour of libvram <version> on sim:0, Simulated GPU (simulated: times are those of a model)
  ---
  > A tour of libvram <version> on host:0
  27c27
  <               skipped: the device runs no kernels written in C
  ---
  >               done: contents are equal
  30c30
  <               done: 4 x 6 frames of 4.00 MiB
  ---
  >               skipped: the processor is the device, nothing travels (try --backend sim)
[1]
$ vram tour --backend host --json >now && grep -e backend -e clock -e result -e race -e held now | sort | uniq -c
        1       "name": "race",
        1       "remark": "the processor is the device, nothing travels (try --backend sim)",
       10       "result": "done",
        1       "result": "skipped",
        1   "backend": "host",
        1   "clock": "wall",
        1   "held_bytes": 0
        1   "race": [],

$ VRAM_CONF=backends=sim VRAM_DEVICE_LIMIT=20M vram tour
  A tour of libvram <version> on sim:0, Simulated GPU (simulated: times are those of a model)

   1  open      Open the device and make two queues. Work on one queue runs in
                order.
                done
   2  allocate  Allocate two blocks of memory straight from the driver.
                failed
! vram: the step "allocate" failed: 16777216 bytes more would pass the limit of 20971520 bytes for this device (option device_limit); 16777216 are held (VRAM_ERR_LIMIT)
[2]

$ VRAM_CONF=backends=sim VRAM_SIM=fault=device_open:1:77 vram tour
  <...>
                failed
! vram: the step "open" failed: simulated device 0: device_open answered an unknown code, as planned (VRAM_ERR_BACKEND)
[2]

$ VRAM_SIM=profile=h200 vram tour --race --backend sim
  A tour of libvram <version> on sim:0, Simulated H200 (simulated: times are those of a model)
  <...>
                done in <*>: 2 x 16.00 MiB
   3  race      Bring frames to the host in four ways: computed on the device,
                copied, summed up. All four run twice; the second run counts.
                done in <*>: 4 x 6 frames of 4.00 MiB
                blocking  <*>#<*> <*>
                pinned    <*>#<*> <*>
                staged    <*>#<*> <*>
                double    <*>#<*> 1.6<*>
   4  free      Free everything.
                done in <*>: <*> driver calls in all

  nothing left: 0 bytes held

$ VRAM_SIM=devices=2,profile=h200 vram tour --backend sim --device 1 >now && sh steady <now | diff plain -
  <...>
  > A tour of libvram <version> on sim:1, Simulated H200 (simulated: times are those of a model)
  30a31,34
  >               blocking
  >               pinned
  >               staged
  >               double
[1]

$ VRAM_CONF=backends=sim VRAM_SIM=lag=5,seed=3 vram tour >now && sh steady <now | diff plain -
$ VRAM_CONF=backends=sim VRAM_SIM=vmm=off vram tour >now && sh steady <now | diff plain -
  21c21
  <               done: contents are equal
  ---
  >               skipped: the device has no virtual memory management
[1]
$ VRAM_CONF=backends=sim VRAM_SIM=real=on vram tour >now && sh steady <now | diff plain -
  27c27
  <               skipped: the device runs no kernels written in C
  ---
  >               done: contents are equal
[1]
$ VRAM_CONF=backends=sim VRAM_SIM=memory=4M vram tour >now && sh steady <now | diff plain -
  7c7
  <               done: 2 x 16.00 MiB
  ---
  >               done: 2 x 512.00 KiB
  25c25
  <               done: 10000 blocks, N of them from that cache
  ---
  >               skipped: pool "pool": 1.00 KiB do not fit: pools may use 90% of the device's 4.00 MiB (fraction of the pool), which leaves 614.40 KiB to this pool, and it holds 0 B
  <...>
  >               done: 4 x 6 frames of 512.00 KiB
[1]
