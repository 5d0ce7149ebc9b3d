# A record as the baseline: a margin, and what is worse.
$ vram bench alloc -b host --seconds 0.1 --save r >/dev/null && vram bench alloc -b host --seconds 0.1 --baseline r --margin 10000 | grep -c ^good: && sed "s/ [0-9.]*$/ 0.0001/" r >s && vram bench alloc -b host --seconds 0.1 --baseline s | sed -n "s/^worse: .* it was/worse: it was/p"; vram bench alloc -b host --seconds 0.1 --baseline s --json >/dev/null
  1
  worse: it was 0.000, the margin is 15 %
[1]

$ vram bench alloc --backend sim --pattern burst --threads 2 --live 100 --seconds 0.1
  alloc, bursts of 1000 of 1.00 KiB, 2 threads, 100 live, on sim:0, Simulated GPU

  allocator           median ns          p10          p90        pairs/s    ratio
  vram             <*>
  vram_empty       <*>
  vram_one_thread  <*>
  mimalloc         <*>
  malloc           <*>
  naive            <*>
  <...>

$ vram bench copy --backend host --size 64K --seconds 0.1
  copy between host and host:0, <*>

  way               median us     GB/s      p10      p90  driver  what
  1 B to the device
  <...>
  1 B to the host
  <...>
  4.00 KiB to the device
    vram           <*>libvram, ordinary memory
    vram_pinned    <*>libvram, page-locked memory
    driver         <*> 1.00  the backend's copy, waited for
    driver_pinned  <*>
    memcpy_all     <*>the host alone, all threads
    memcpy_one     <*>the host alone, one thread
  4.00 KiB to the host
  <...>
  64.00 KiB to the host
  <...>

  10 copies of 4.00 KiB
  <...>
  batched  <*>
  submitted<*>
  one_by_one<*>

  page-locked memory, 64.00 KiB, taken and given
  way <*>
  pool <*>
  driver <*>

$ vram bench distance --backend host --size 100 --seconds 0.01
  distance of 100 queries and 100 vectors of 128, the 10 nearest, on host:0, <*>

  way <*>
  fp32 <*>single precision, placed by the rule
  fp16 <*>half precision
  int8 <*>8 bits
  cpu <*>single precision, on the CPU
  product <*>only the product of queries and corpus, downloaded

  fp32: <*> GFLOP/s, <*> GB/s of the corpus.
  fp16: <*> GFLOP/s, <*> GB/s of the corpus.
  int8: <*> GFLOP/s, <*> GB/s of the corpus.
  This machine: <*> GFLOP/s of products in single precision, <*> GB/s of ordinary memory to the device.

$ vram bench grow --backend host --from 1M --seconds 0.05
  grow from 1.00 MiB to 2.00 MiB, on host:0, <*>

  way <*>
  held <*>in place, with memory that the pool holds after it
  cached <*>in place, with memory that another block grew by
  moved <*>in place, next to free memory of an ordinary block
  fresh <*>in place, with memory from the driver
  copy <*>allocate, copy and free, in a pool that has it all
  driver <*>allocate, copy and free, without a pool

  Growing over held memory is <*> times as fast as the driver's allocate, copy and free, and <*> times as fast as a pool's.
  With large handles that lie free elsewhere it is <*> times as fast as the driver's.

$ vram bench grow --backend sim --from 1M --seconds 0.05
  grow from 1.00 MiB to 2.00 MiB, on sim:0, Simulated GPU, in simulated time

  way <*>
  held              0.0 <*>
  cached            0.0 <*>
  moved             0.0 <*>
  fresh             0.0 <*>
  copy              0.0 <*>
  driver            0.0 <*>

$ vram bench alloc --backend host --seconds 0.1
  alloc, pairs of 1.00 KiB, 1 thread, on host:0, <*>

  allocator           median ns          p10          p90        pairs/s    ratio
  vram             <*>
  mimalloc         <*>
  malloc           <*>
  naive            <*>
  <...>

$ vram bench matmul --backend host --size 64 --seconds 0.01
  matmul of 64 x 64, on host:0, <*>
  CPU: <*>; device: vram c

  way <*>
  cpu <*>a scheduler, on the CPU
  cblas <*>
  own <*>libvram's own CPU kernel
  device <*>
  naive <*>
  resident <*>
  cublas <*>
  pooled_256 <*>
  driver_256 <*>
  batch <*>
  singles <*>

  <...>

$ vram bench readback -b host --size 64K --seconds 0.05 | sed -n "s/^readback of frames of/frames of/p; s/.* checked, \(.* wrong\)/\1/p" | sed "s/, on host.*//"
  frames of 64.00 KiB
  0 wrong.

$ vram bench ring --backend host --messages 500
  ring of 4096 messages of 64 bytes, 500 each way, on host:0, <*>

  strategy        to device/s      to host/s    round trip    90 % below  the kernel
  direct        <*> us  stays
  dma_polling   <*> us  stays
  async         <*> us  stays
  sync          <*> us  stays

# A record that is saved again keeps what others wrote.
$ printf '# an old heading\nalloc pair 64 1 0 host mimalloc 1.5\nalloc pair 1024 1 0 cuda naive 2.5\n' >r
> printf 'alloc pair 1024 1 0 host mimalloc 0.0001\nalloc pair 1024 1 0 host malloc 0.0001\n' >>r
> vram bench alloc -b host --seconds 0.02 --save r >/dev/null && sed "s/ host m[a-z]* / host PEER /; s/[0-9.]*$//" r && grep -c 0.0001 r
  # vram bench: bench pattern bytes threads live backend peer ratio
  alloc pair 64 1 0 host PEER <>
  alloc pair 1024 1 0 cuda naive <>
  alloc pair 1024 1 0 host PEER <>
  alloc pair 1024 1 0 host PEER <>
  1

$ vram bench alloc --backend host --size 64M --seconds 0.1 | sed -n '1p;6p'
  alloc, pairs of 64.00 MiB, 1 thread, on host:0, <*>
  mimalloc_1KiB    <*>

$ vram bench track --backend host --seconds 0.05
  track: 1000 pairs of 1.00 KiB a round, on host:0, <*>

  way <*>
  off <*>not tracked
  on <*>tracked: id, size, queue, thread and time
  off_tag <*>not tracked, with a tag
  on_tag <*>tracked, with a tag
  stacks <*>tracked, with a call stack each
  traced <*>not tracked, but written to a trace

  Tracking adds <*> ns to a pair, <*> ns to one with a tag: <*> % of a CPU at 10000 allocations a second.
  A call stack adds <*> ns.
  A trace adds <*> ns to a pair, which is two events.
  100000 live blocks have records of <*>.<*> bytes each.

$ VRAM_TRACKING=off vram bench track --backend host --seconds 0.05
  track: 1000 pairs of 1.00 KiB a round, on host:0, <*>

  way <*>
  off <*>not tracked
  on       VRAM_TRACKING decides otherwise
  off_tag <*>not tracked, with a tag
  on_tag   VRAM_TRACKING decides otherwise
  stacks   VRAM_TRACKING decides otherwise
  traced <*>not tracked, but written to a trace
  A trace adds <*> ns to a pair, which is two events.
$ vram bench alloc -b host --seconds 0.05 --save /nonexistent/r >/dev/null
! vram: cannot write /nonexistent/r: No such file or directory
[2]

$ for mode in "grow --from" "launch --size" "matmul --size" "distance --size" "copy --size" "ring --size"; do vram bench $mode many; done
! vram: --from=many: not a size like 4096, 64K or 1.5GiB
! vram: --size=many: not a size like 4096, 64K or 1.5GiB
! vram: --size=many: not a size like 4096, 64K or 1.5GiB
! vram: --size=many: not a size like 4096, 64K or 1.5GiB
! vram: --size=many: not a size like 4096, 64K or 1.5GiB
! vram: --size=many: not a size like 4096, 64K or 1.5GiB
[2]
