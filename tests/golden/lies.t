# With LD_PRELOAD: inject.c makes libvram lie. What moves data, and what counts, must notice.
$ INJECT=lie:contents vram tour >now
! vram: the step "download" found wrong contents: number 4194303 is 513ffff6 and should be 503ffff6
[1]
$ tail -n 4 now; grep -c "nothing left" now
   5  download  Tell the second queue to begin after that point, and read the copy
                back there. The device waits for the copy; the host waits only for
                the end.
                contents differ
  0
[1]
$ INJECT=lie:contents vram tour --json 2>/dev/null | grep -e passed -e differed -e held
        "result": "differed",
    "passed": false,
    "held_bytes": null
$ INJECT=lie:leak vram tour | tail -n 1
  left behind: 4096 bytes held
$ INJECT=lie:leak vram tour --json | grep -e passed -e held
    "passed": false,
    "held_bytes": 4096
$ vram tour | tail -n 1
  nothing left: 0 bytes held

# A process that ends in a case says in which, once.
$ INJECT=lie:exit vram check --filter context.ba
  sim device 0: Simulated GPU
! vram: exit was called in the case context.backends on sim device 0
[1]
$ for how in fault signal abort; do INJECT=lie:$how vram check --filter context.ba; echo $?; done 2>&1 | grep -v -e dumped -e fault$ -e instruction$ -e Aborted
  vram: SIGSEGV in the case context.backends on sim device 0
  139
  vram: SIGILL in the case context.backends on sim device 0
  132
  vram: SIGABRT in the case context.backends on sim device 0
  134

# Alone, a case whose process dies has failed, and the next one runs.
$ for how in fault signal abort leave late; do INJECT=lie:$how vram check --filter context.ba --isolate --verbose | grep -v -e ^sim -e context.bad_options -e '^1 passed'; done
  failed   context.backends: SIGSEGV ended its process
  failed   context.backends: SIGILL ended its process
  failed   context.backends: SIGABRT ended its process
  failed   context.backends: its process exited with code 0
  failed   context.backends: SIGABRT ended its process when it exited after the case
$ INJECT=lie:abort vram check --filter context.ba --isolate --json | grep -e result -e reason -e passed -e failed
        "proves": "each backend is listed once, and every absent one with a reason",
        "result": "failed",
        "reason": "SIGABRT ended its process"
        "result": "passed",
        "reason": null
    "passed": 1,
    "failed": 1,
$ for cases in memory. base.; do vram check --filter $cases --json >plain; vram check --filter $cases --json --isolate | cmp plain -; done

# The suite fails on a library or a driver that does not do what it must.
$ INJECT=lie:contents vram check --filter fill.edges
  sim device 0: Simulated GPU
  failed   fill.edges: cases_fill.c:<*>: contents of &buffer: byte 4095 of 4096 is 0x20, expected 0x21 (33 bytes)
  0 passed, 1 failed, 0 skipped: this device does not do what the library relies on.
[1]
$ INJECT=lie:contents vram check --filter pool.blocks
  sim device 0: Simulated GPU
  failed   pool.blocks: cases_pool.c:<*>: pool: a block of 4194304 bytes holds 0xb10c0009 and 0xb00c0009, not 0xb10c0009 (as the device has it)
  0 passed, 1 failed, 0 skipped: this device does not do what the library relies on.
[1]
$ INJECT=lie:leak vram check --filter memory.sums
  sim device 0: Simulated GPU
  failed   memory.sums: cases_memory.c:<*>: ledger: held_bytes is 4096, but the calls made so far add up to 0
  0 passed, 1 failed, 0 skipped: this device does not do what the library relies on.
[1]
$ for case in handle.null handle.made_up lifetime.forked; do INJECT=lie:accept vram check --filter $case; done
  sim device 0: Simulated GPU
  failed   handle.null: cases_handle.c:<*>: vram_queue_wait(queue, 0): succeeded, expected VRAM_ERR_INVALID
  0 passed, 1 failed, 0 skipped: this device does not do what the library relies on.
  sim device 0: Simulated GPU
  failed   handle.made_up: cases_handle.c:<*>: vram_queue_wait(queue, 0): succeeded, expected VRAM_ERR_INVALID or VRAM_ERR_STALE (handle 0x1)
  0 passed, 1 failed, 0 skipped: this device does not do what the library relies on.
  sim device 0: Simulated GPU
  failed   lifetime.forked: cases_lifetime.c:<*>: (uint64_t)reap(process) == 0: 3 is not 0
  0 passed, 1 failed, 0 skipped: this device does not do what the library relies on.
[1]
$ for lie in native_base native_kind native_device native_bytes held_count held_peak free_late violation handle no_state; do echo $lie; INJECT=lie:$lie vram check --filter memory.sums | grep -e ^failed -e ^1; done
  native_base
  failed   memory.sums: cases_memory.c:<*>: vram_device_alloc(1): vram_native does not describe it
  native_kind
  failed   memory.sums: cases_memory.c:<*>: vram_device_alloc(1): vram_native does not describe it
  native_device
  failed   memory.sums: cases_memory.c:<*>: vram_device_alloc(1): vram_native does not describe it
  native_bytes
  failed   memory.sums: cases_memory.c:<*>: vram_device_alloc(1): 1 is not 4096
  held_count
  failed   memory.sums: cases_memory.c:<*>: ledger: held_count is 1, but the calls made so far add up to 0
  held_peak
  failed   memory.sums: cases_memory.c:<*>: ledger: held_peak_bytes is 1, but the calls made so far add up to 0
  free_late
  failed   memory.sums: cases_memory.c:<*>: vram_device_free(one): the free failed, yet the memory is no longer known
  violation
  failed   memory.sums: suite.c:<*>: simulated driver: protocol violated: <>
  handle
  failed   memory.sums: suite.c:<*>: native handles: 2 is not 1
  no_state
  1 passed, 0 failed, 0 skipped: everything that was checked is as it should be.
$ for lie in block_unknown block_size block_pool live_blocks kept; do echo $lie; INJECT=lie:$lie vram check --filter pool.blocks | grep ^failed; done
  block_unknown
  failed   pool.blocks: cases_pool.c:<*>: vram_alloc(sizes[i]): a live block of 1 bytes is not known (as the device has it)
  block_size
  failed   pool.blocks: cases_pool.c:<*>: vram_alloc(sizes[i]): 2 is not 1 (as the device has it)
  block_pool
  failed   pool.blocks: cases_pool.c:<*>: vram_alloc(sizes[i]): does not hold (as the device has it)
  live_blocks
  failed   pool.blocks: cases_pool.c:<*>: pool: 19 is not 9 (as the device has it)
  kept
  failed   pool.blocks: cases_pool.c:<*>: vram_alloc(sizes[i]): the pool holds 2 bytes after a failure, 1 before it (as the device has it)
$ for call in memory_info_get:2 device_free:3 queue_download:1 queue_wait:2; do INJECT=vram_$call vram check --filter memory.sizes | grep ^failed; done
  failed   memory.sizes: cases_memory.c:<*>: ledger: VRAM_ERR_BACKEND from vram_memory_info_get: planted in vram_memory_info_get (3 bytes)
  failed   memory.sizes: cases_memory.c:<*>: vram_device_free(buffer.addr): VRAM_ERR_BACKEND from vram_device_free: planted in vram_device_free (4095 bytes)
  failed   memory.sizes: cases_memory.c:<*>: contents of &buffer: VRAM_ERR_BACKEND from vram_queue_download: planted in vram_queue_download (1 bytes)
  failed   memory.sizes: cases_memory.c:<*>: contents of &buffer: VRAM_ERR_BACKEND from vram_queue_wait: planted in vram_queue_wait (3 bytes)
$ for call in free:3 alloc:5 queue_download:2 queue_wait:3; do INJECT=vram_$call vram check --filter pool.blocks | grep ^failed; done
  failed   pool.blocks: cases_pool.c:<*>: vram_free(addrs[i]): a free of a live block failed: VRAM_ERR_BACKEND (as the device has it)
  failed   pool.blocks: cases_pool.c:<*>: vram_alloc(sizes[i]): VRAM_ERR_BACKEND from vram_alloc: planted in vram_alloc (as the device has it)
  failed   pool.blocks: cases_pool.c:<*>: pool: VRAM_ERR_BACKEND from vram_queue_download: planted in vram_queue_download (as the device has it)
  failed   pool.blocks: cases_pool.c:<*>: pool: VRAM_ERR_BACKEND from vram_queue_wait: planted in vram_queue_wait (as the device has it)
$ INJECT=vram_resize:2 vram check --filter resize.in_place | grep ^failed
  failed   resize.in_place: cases_resize.c:<*>: vram_resize(sizes[i]): does not hold (size 900)

# What surroundings keep it from checking is skipped, with the reason.
$ while read -r settings case; do env $settings vram check --filter $case --verbose | sed -n 2p; done <<END
> VRAM_LOG=error log.silent
> VRAM_CONF=log=error log.silent
> TMPDIR=/nonexistent compose.tight_trace
> VRAM_SHARE_DIR=/nonexistent share.time
> VRAM_SHARE_DIR=/nonexistent compose.share_limit
> VRAM_TRACE=$PWD/trace compose.tight_trace
> VRAM_SIM=memory=1G,others=600M pressure.watches
> VRAM_DEVICE_LIMIT=4K memory.limit
> END
  skipped  log.silent: the environment may ask for messages (VRAM_LOG, VRAM_CONF)
  skipped  log.silent: the environment may ask for messages (VRAM_LOG, VRAM_CONF)
  skipped  compose.tight_trace: no file can be made in /nonexistent
  skipped  share.time: the directory /nonexistent cannot be used: stat: No such file or directory; set share_dir (VRAM_SHARE_DIR) to another
  skipped  compose.share_limit: the directory /nonexistent cannot be used: stat: No such file or directory; set share_dir (VRAM_SHARE_DIR) to another
  skipped  compose.tight_trace: this process writes a trace already
  skipped  pressure.watches: others use most of the device's memory
  skipped  memory.limit: the environment sets a lower device_limit

# Nothing keeps these from running.
$ while read -r settings case; do env $settings vram check --filter $case | tail -n 1; done <<END
> TMPDIR= compose.tight_trace
> VRAM_LOG= log.silent
> VRAM_SIM=memory=1024T memory.bad_sizes
> VRAM_BACKENDS=sim,host device.order
> VRAM_BACKENDS=sim,host managed.targets
> END
  1 passed, 0 failed, 0 skipped: everything that was checked is as it should be.
  1 passed, 0 failed, 0 skipped: everything that was checked is as it should be.
  1 passed, 0 failed, 0 skipped: everything that was checked is as it should be.
  1 passed, 0 failed, 0 skipped: everything that was checked is as it should be.
  1 passed, 0 failed, 0 skipped: everything that was checked is as it should be.

# `vram bench` looks at what it has moved.
$ INJECT=lie:contents vram bench copy --size 4K --threads 1 --seconds 0.01 >now
[1]
$ grep -c "the copy differs from its source" now; grep -A1 one_by_one now
  16
  one_by_one
           copy 9 of the list differs from its source
$ INJECT=lie:contents vram bench grow --from 1M --to 2M --seconds 0.01 >now
[1]
$ grep -c "the buffer has lost its contents" now
  6
$ INJECT=lie:contents vram bench readback --size 4K --seconds 0.01 >now
[1]
$ grep -o " [1-9][0-9]* wrong" now
   <*> wrong
$ for lie in contents length kernel; do INJECT=lie:$lie vram bench ring --messages 10 >now; echo $?; grep -c "data or a driver's answer makes no sense" now; done
  1
  3
  1
  3
  1
  3
$ for what in copy grow; do INJECT=lie:contents vram bench $what --seconds 0.01 --json >now; echo $?; tail -n 1 now; done
  1
  }
  1
  }

# `vram stress pressure` holds every counter against its plan.
$ for lie in rises falls response_steps ladder_steps ladder_rescues refusals pressure report report_step report_taken; do INJECT=lie:$lie vram stress pressure >now; echo $lie $? "$(grep -c ^WRONG now)"; grep ^WRONG now | head -n 1; tail -n 1 now; done
  rises 1 4
  WRONG   levels: rises into low                      6, planned 0
  98 of 102 as planned
  falls 1 4
  WRONG   levels: falls into low                      7, planned 1
  98 of 102 as planned
  response_steps 1 20
  WRONG   levels: caches halved                       1, planned 0
  82 of 102 as planned
  ladder_steps 1 9
  WRONG   ladder: drain is taken                      2, planned 1
  93 of 102 as planned
  ladder_rescues 1 2
  WRONG   ladder: callbacks help                      2, planned 1
  100 of 102 as planned
  refusals 1 7
  WRONG   ladder: drain in vain                       2, planned 1
  95 of 102 as planned
  pressure 1 24
  WRONG   levels: held at 59 %                        247463937, planned 247463936
  78 of 102 as planned
  report 1 13
  WRONG   ladder: drain in the report                 0, planned 1
  89 of 102 as planned
  report_step 1 7
  WRONG   ladder: drain in the report                 0, planned 1
  95 of 102 as planned
  report_taken 1 7
  WRONG   ladder: drain in the report                 0, planned 1
  95 of 102 as planned
$ INJECT=lie:rises vram stress pressure --json | grep -e good -e '"wrong"'
    "wrong": 4,
    "good": false

# `vram stress soak` does so with what it has allocated, with contents and with what is left.
$ for lie in contents allocs live_blocks requested_bytes reserved_bytes; do { INJECT=lie:$lie vram stress soak --seconds 1 --limit 16M; echo $lie $?; } | tail -n 1 & done | sort; wait
  allocs 1
  contents 1
  live_blocks 1
  requested_bytes 1
  reserved_bytes 1

# It goes on where calls fail now and then, counts them, and says the first. Without these it does not begin.
$ INJECT='vram:97*' vram stress soak --seconds 1 --limit 16M >now
[1]
$ grep -o "the first failure: .*planted in vram_" now; tail -n 1 now
  the first failure: <*>: planted in vram_
  FAILED
$ for call in device_open pool_create queue_create; do INJECT=vram_$call:1 vram stress soak --seconds 1; done
! vram: soaking the device: planted in vram_device_open (VRAM_ERR_BACKEND)
! vram: soaking the device: planted in vram_pool_create (VRAM_ERR_BACKEND)
! vram: soaking the device: planted in vram_queue_create (VRAM_ERR_BACKEND)
[2]

# Whatever a broker and owners of shared memory answer is shown, and nobody is left out. -3 is gone, -81 too late.
$ INJECT=lie:leases vram info --leases
  Device sim 0, 16.00 MiB for all leases
    lease (process)       granted     held        minimum     wanted      priority
    train (11)            4.00 MiB    3.00 MiB    1.00 MiB    8.00 MiB    5  waits for 2.00 MiB
    serve (12)            0 B         0 B         0 B         0 B         0  is asked for 5.00 MiB

  Device sim 1, 0 B for all leases
    lease (process)       granted     held        minimum     wanted      priority
    other (13)            0 B         0 B         0 B         0 B         -1

  Log
    -9.00 s     opened 1.00 MiB to train (11)
    -0 ns       serve (12) gave 1.00 MiB to train (11) after 2.00 ms
    -0 ns        (12) kept 0 B from  (11): it gave what it was asked for
    -0 ns       denied 0 B to train (0)
    -0 ns       other (0) closed 0 B
$ INJECT=lie:leases vram info --leases --json | grep -e capacity -e '"from": null' -e '"to": null' -e '"why": null' | sort | uniq -c
        2       "capacity_bytes": 0,
        1       "capacity_bytes": 16777216,
        2       "from": null,
        1       "to": null,
        4       "why": null,
$ INJECT=lie:crowd vram info --leases --json | grep -c '"lease-[0-9]*\."'
  1000
$ INJECT=lie:nobody vram info --leases
  No leases: a broker runs, and nobody uses it.
$ for code in -3 -81; do INJECT=vram_lease_list:1 INJECT_CODE=$code vram info --leases; echo $?; done
  No leases: no broker runs.
  1
  2
! vram: cannot list the leases: planted in vram_lease_list (VRAM_ERR_TIMEOUT)
$ INJECT=lie:names vram info --shares >now && grep -c "served, 4.00 KiB" now; sed -n '2,3p;$p' now
  500
  name-001                        499         served, 4.00 KiB
  name-002                        498         served, 4.00 KiB
  name-500                        0           served, 4.00 KiB
$ for code in -3 -81 -61 -40; do INJECT_CODE=$code INJECT=lie:names vram info --shares --json | grep -e owner -e bytes; done
        "owner": "gone",
        "bytes": null
        "owner": "unknown",
        "bytes": null
        "owner": "served",
        "bytes": null
        "owner": "served",
        "bytes": null
$ INJECT_CODE=-3 INJECT=lie:silent vram info --shares --json | grep -e owner -e bytes
        "owner": "served",
        "bytes": null
$ INJECT=vram_share_list:1 INJECT_CODE=-81 vram info --shares
! vram: cannot list the names of shared memory: planted in vram_share_list (VRAM_ERR_TIMEOUT)
[2]

# What cannot begin, or cannot be written.
$ VRAM_SIM=memory=1G,others=600M vram stress pressure
! vram: 59 % of the device's memory is in use already, but the script needs most of it; --backend sim always has it free
[2]
$ vram bench readback --size 9G
! vram: --size=9663676416: a frame must have 4096 bytes to 8 GiB
[2]
$ TMPDIR=/nonexistent vram bench track --seconds 0.01 | grep ^traced
  traced   cannot create a file at /nonexistent/vram-bench-<*>
