$ printf 'op,id,bytes,stream,t_us\na,1,1000,0,0\nf,1,,,10\n' >old.csv
> printf 'op,id,bytes,stream,t_us\na,1,1030,0,0\n' >new.csv
> vram report new.csv --against old.csv --fail-if 'peak>+2%' --fail-if 'live>+1M'
  new.csv against old.csv
                      before           now      change
    peak              1000 B      1.01 KiB     +3.00 %
    rounded           1000 B      1.01 KiB     +3.00 %
    held                 0 B           0 B           -
    live                 0 B      1.01 KiB         new
    allocs                 1             1     +0.00 %

  Changed at the peak
    +        30 B  (no stack)
  FAILED: peak>+2%
  passed: live>+1M
[1]

$ tar xzOf $ROOT/tests/fuzz/corpus.tar.gz corpus/chrome_trace/list.json >c.json

$ vram report c.json
  c.json: Chrome JSON, 6 events in 20.2 us
    At the peak, 10.8 us after the start, 812 B were live in 2 blocks.
    Most of it: 512 B (63 %) without a stack; 300 B (37 %) at fusion.7.
    Everything was freed.
    Partial: CPU memory is left out, events: 1.

    peak        812 B live in 2 blocks, after 10.8 us
    rounded     1.00 KiB at most, as blocks were cut
    held        3.00 MiB by pools at most
    live        0 B in 0 blocks at the end
    churn       2 allocations of 812 B in all, the largest 512 B

  Live at the peak
    tag                              bytes   share    blocks
    (no tag)                         512 B  63.1 %         1
    fusion.7                         300 B  36.9 %         1

  Pools
    pool                             bytes   share    blocks
    GPU 0                            512 B  63.1 %         1
    GPU_0_bfc                        300 B  36.9 %         1

  Over time
    from      live, of the peak            live        held
    0 ns      ####################        812 B    3.00 MiB
    15.6 us   ....................          0 B    3.00 MiB

  Advice
    no advice

$ printf 'op,id,bytes,stream,t_us\na,77,512,9,100\nu,77,,8,101\na,78,1048576,8,102\nf,77,,,2103\n' | vram report -
  standard input: 3 events in 2.00 ms
    At the peak, 2.00 us after the start, 1.00 MiB were live in 2 blocks.
    At the end 1 block of 1.00 MiB was not freed.

    peak        1.00 MiB live in 2 blocks, after 2.00 us
    live        1.00 MiB in 1 block at the end
    churn       2 allocations of 1.00 MiB in all, the largest 1.00 MiB

  Live at the peak
    tag                              bytes   share    blocks
    (no tag)                      1.00 MiB 100.0 %         2

  Over time
    from      live, of the peak            live        held fragmentation
    0 ns      ####################     1.00 MiB
    188 us    ####################     1.00 MiB
    375 us    ####################     1.00 MiB
    562 us    ####################     1.00 MiB
    750 us    ####################     1.00 MiB
    938 us    ####################     1.00 MiB
    1.12 ms   ####################     1.00 MiB
    1.31 ms   ####################     1.00 MiB
    1.50 ms   ####################     1.00 MiB
    1.69 ms   ####################     1.00 MiB
    1.88 ms   ####################     1.00 MiB

  Advice
    leaks          1 block, 1.00 MiB, live when the trace ended. Fix: `vram report
                   --leaks FILE` lists them by tag and stack; a scope
                   (vram/scope.h) frees what was allocated in it however it ends.

$ tar xzOf $ROOT/tests/fuzz/corpus.tar.gz corpus/rmm_log/small.csv >r.csv
$ vram report r.csv -f csv -o out.csv && cat out.csv
  op,id,bytes,stream,t_us
  a,1,1024,0,0
  a,2,4096,5,20
  f,1,,0,40
$ tar xzOf $ROOT/tests/fuzz/corpus.tar.gz corpus/snapshot/protocol4.pickle >s.pickle
$ vram report s.pickle -f folded --count
  main (own.py:9);f (own.py:3) 4

$ vram report s.pickle --format text
  s.pickle
  At the peak, 9.00 us after the start, 127.11 KiB were live in 4 blocks.
  Most of it: 126.42 KiB (99 %) at f (own.py:3); 700 B (1 %) without a stack.
  PyTorch's own peaks, all GPUs together: 131,072 bytes allocated and 44,040,892 bytes reserved. 130,156 bytes were requested; allocated adds rounding and what is too small to cut off.
  41.88 MiB of the reserved memory (100 %) is more than was ever allocated at once: it was cached, or free in pieces that did not fit. `vram replay FILE -b sim -p caching -p expandable -p vram` shows what other allocators hold for the same requests.
  1 request failed for lack of memory, the largest of 1.00 TiB.
  At the end 3 blocks of 125.54 KiB were not freed: 125.54 KiB (100 %) at f (own.py:3).
  Partial: the history begins late: 0.00 MiB in 1 block were live already, 1 of them from an unknown call site, and an earlier peak is not known.

  MOST MEMORY ALLOCATED
  121.64 KiB in 3 blocks in all from
    f (own.py:3)
      f (own.py:3)
      main (own.py:9)
  4.88 KiB in 1 block in all from
    f (own.py:3)
      f (own.py:3)
      main (own.py:9)

  PEAK MEMORY CONSUMERS
  121.54 KiB in 2 blocks at the peak from
    f (own.py:3)
      f (own.py:3)
      main (own.py:9)
  4.88 KiB in 1 block at the peak from
    f (own.py:3)
      f (own.py:3)
      main (own.py:9)
  700 B in 1 block at the peak from
    (no stack)

  MEMORY LEAKS
  120.66 KiB in 2 blocks never freed from
    f (own.py:3)
      f (own.py:3)
      main (own.py:9)
  4.88 KiB in 1 block never freed from
    f (own.py:3)
      f (own.py:3)
      main (own.py:9)

  total runtime: 16.0 us
  calls to allocation functions: 4
  temporary memory allocations: 2 (freed within 10 ms)
  peak memory consumption: 127.11 KiB
  total memory leaked: 125.54 KiB

$ printf 'op,id,bytes,stream,t_us\na,1,1000,0,0\nf,1,,,10\n' >old.csv
> printf 'op,id,bytes,stream,t_us\na,1,1030,0,0\n' >new.csv
> printf 'no trace\n' >wrong.csv
> vram report new.csv old.csv --html page.html && grep -c '<script' page.html
> vram report new.csv wrong.csv --html wrong.html
> test -e wrong.html || echo 'a page that is not whole is removed'
> vram report new.csv old.csv --html old.csv
> vram report new.csv old.csv --json
> vram report new.csv old.csv
> vram report new.csv - --html page.html
> vram report new.csv $(yes old.csv | head -16) --html page.html
> vram replay new.csv --backend sim --html new.csv
  2
  a page that is not whole is removed
! vram: wrong.csv:1: this is not a trace: neither one of libvram (VRAM_TRACE), nor a memory snapshot of PyTorch, nor Chrome JSON, nor a log of RMM, nor CSV that begins with op,id,bytes,stream,t_us; plain, gzip'd or zstd'd
! vram: old.csv: it cannot be read and written at once
! vram: several traces make one page: add --html FILE; to compare two in words, `vram report NEW --against OLD`
! vram: several traces make one page: add --html FILE; to compare two in words, `vram report NEW --against OLD`
! vram: an HTML page needs a file that can be read again, not standard input
! vram: a page has 16 traces at most, but 17 are given
! vram: new.csv: it cannot be read and written at once
[2]

$ printf 'op,id,bytes,stream,t_us\n' | vram report -
  standard input: 0 events in 0 ns
    Nothing was ever live.

  Advice
    no advice

$ vram report r.csv
  r.csv: RMM log, 5 events in 50.0 us
    At the peak, 20.0 us after the start, 5.00 KiB were live in 2 blocks.
    1 request failed for lack of memory, the largest of 95.37 MiB.
    At the end 1 block of 4.00 KiB was not freed.

    peak        5.00 KiB live in 2 blocks, after 20.0 us
    live        4.00 KiB in 1 block at the end
    churn       2 allocations of 5.00 KiB in all, the largest 4.00 KiB
    refused     1

  Live at the peak
    tag                              bytes   share    blocks
    (no tag)                      5.00 KiB 100.0 %         2

  Over time
    from      live, of the peak            live        held fragmentation
    0 ns      ####................     1.00 KiB
    15.6 us   ####################     5.00 KiB
    31.2 us   ################....     4.00 KiB
    46.9 us   ################....     4.00 KiB

  Advice
    refusals       1 allocation was refused, with VRAM_ERR_DEVICE_MEMORY first,
                   the largest of 95.37 MiB. Fix: `vram replay FILE --least` finds
                   the least memory in which it runs with other allocators.
    leaks          1 block, 4.00 KiB, live when the trace ended. Fix: `vram report
                   FILE --leaks` lists them by call site; weights and caches may
                   live that long.

$ vram report s.pickle
  s.pickle: PyTorch memory snapshot, 16 events in 16.0 us
    At the peak, 9.00 us after the start, 127.11 KiB were live in 4 blocks.
    Most of it: 126.42 KiB (99 %) at f (own.py:3); 700 B (1 %) without a stack.
    PyTorch's own peaks, all GPUs together: 131,072 bytes allocated and 44,040,892
    bytes reserved. 130,156 bytes were requested; allocated adds rounding and what
    is too small to cut off.
    41.88 MiB of the reserved memory (100 %) is more than was ever allocated at
    once: it was cached, or free in pieces that did not fit. `vram replay FILE -b
    sim -p caching -p expandable -p vram` shows what other allocators hold for the
    same requests.
    1 request failed for lack of memory, the largest of 1.00 TiB.
    At the end 3 blocks of 125.54 KiB were not freed: 125.54 KiB (100 %) at f
    (own.py:3).
    Partial: the history begins late: 0.00 MiB in 1 block were live already, 1 of
    them from an unknown call site, and an earlier peak is not known.

    peak        127.11 KiB live in 4 blocks, after 9.00 us
    rounded     128.00 KiB at most, as blocks were cut
    held        42.00 MiB by pools at most
    live        125.54 KiB in 3 blocks at the end
    churn       4 allocations of 126.52 KiB in all, the largest 120.56 KiB
    refused     1

  Live at the peak
    tag                              bytes   share    blocks
    (no tag)                    122.22 KiB  96.2 %         3
    x                             4.88 KiB   3.8 %         1

    stack                            bytes   share    blocks
    (no tag)                    121.54 KiB  95.6 %         2
      f (own.py:3)
      main (own.py:9)
    x                             4.88 KiB   3.8 %         1
      f (own.py:3)
      main (own.py:9)

  Pools
    pool                             bytes   share    blocks
    GPU 0                              0 B   0.0 %         0
    GPU 1, 0x5                         0 B   0.0 %         0
    GPU 0, pool 0.1               6.54 KiB   5.1 %         3
    GPU 1                       120.56 KiB  94.9 %         1
    GPU 0, 0x3                         0 B   0.0 %         0

  Over time
    from      live, of the peak            live        held
    0 ns      ####################   127.11 KiB   42.00 MiB
    9.00 us   step
    15.6 us   ####################   125.54 KiB   40.00 MiB
    16.0 us   snapshot

  Advice
    refusals       1 allocation was refused, with VRAM_ERR_DEVICE_MEMORY first,
                   the largest of 1.00 TiB. Fix: `vram replay FILE --least` finds
                   the least memory in which it runs with other allocators.
    reserved       PyTorch reserved 41.88 MiB, 100 %, more than was ever allocated
                   at once. Fix: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,
                   or libvram's allocator (docs/pytorch.md); `vram replay FILE -b
                   sim -p caching -p expandable -p vram` compares them.
    leaks          3 blocks, 125.54 KiB, live when the trace ended. Fix: `vram
                   report FILE --leaks` lists them by call site; weights and
                   caches may live that long.

$ make_trace.py clean >t.vrt

# A trace that was cut.
$ head -c 600 t.vrt >cut.vrt
> vram report cut.vrt --leaks
  cut.vrt: 1 events in 0 ns, until it ends abruptly: the program was killed or is still running
  nothing was live where the trace breaks off
! vram: cut.vrt: events are missing, so whether all memory was freed is not known
[2]
$ vram report t.vrt --leaks
  t.vrt: 4 events in 4.00 ms
  no leaks: nothing was live at the end
$ make_trace.py story >t.vrt
$ vram report t.vrt --top 1 >plain && vram report t.vrt --color=always --top 1 >colored && head -n 40 colored
  <esc>[1mt.vrt<esc>[0m: 48 events in 115 ms
    At the peak, 80.0 ms after the start, 544.00 MiB were live in 9 blocks.
    Most of it: 384.00 MiB (71 %) at program`load_layer+0x2c; 160.00 MiB (29 %) at
    program`attention+0x44.
    1 request failed for lack of memory, the largest of 2.00 GiB.
    At the end 2 blocks of 160.00 MiB were not freed: 160.00 MiB (100 %) at
    program`attention+0x44; 4.00 KiB (0 %) at log?[31m.

    <esc>[2mpeak<esc>[0m        544.00 MiB live in 9 blocks, after 80.0 ms
    <esc>[2mheld<esc>[0m        980.00 MiB by pools at most
    <esc>[2mlive<esc>[0m        160.00 MiB in 2 blocks at the end
    <esc>[2mchurn<esc>[0m       21 allocations of 960.01 MiB in all, the largest 96.00 MiB
    <esc>[2mrefused<esc>[0m     1
    <esc>[2mhit rate<esc>[0m    54.5 % of 22
    <esc>[2mresized<esc>[0m     1 time

  <esc>[1mLive at the peak<esc>[0m
    <esc>[2mtag<esc>[0m                       <esc>[2m       bytes   share    blocks<esc>[0m
    model/weights             <esc>[36m  384.00 MiB<esc>[0m  70.6 %         8
    and 1 more tags

    <esc>[2mstack<esc>[0m                     <esc>[2m       bytes   share    blocks<esc>[0m
    model/weights             <esc>[36m  384.00 MiB<esc>[0m  70.6 %         8
      <esc>[2mprogram`load_layer+0x2c<esc>[0m
      <esc>[2mprogram`load_model+0x10<esc>[0m
      <esc>[2mprogram`main+0x80<esc>[0m

  <esc>[1mPools<esc>[0m
    <esc>[2mpool<esc>[0m                      <esc>[2m       bytes   share    blocks<esc>[0m
    main                      <esc>[36m  544.00 MiB<esc>[0m 100.0 %        15

  <esc>[1mTransfers<esc>[0m
    <esc>[2mdirection<esc>[0m  <esc>[2mroute<esc>[0m       <esc>[2m   copies       bytes    GB/s  half in  99 % in  longest<esc>[0m
    to_device  staged              8<esc>[36m  384.00 MiB<esc>[0m   55.71   907 us   907 us   907 us
    to_host    async               1<esc>[36m         0 B<esc>[0m    0.00  2.00 ms  2.00 ms  2.00 ms<esc>[31m  1 failed<esc>[0m
    to_host    readback            6<esc>[36m   24.00 MiB<esc>[0m   52.43  80.0 us  80.0 us  80.0 us

  <esc>[1mOver time<esc>[0m
    <esc>[2mfrom<esc>[0m      <esc>[2mlive, of the peak<esc>[0m    <esc>[2m        live        held fragmentation<esc>[0m
    0 ns      <esc>[32m############<esc>[0m<esc>[2m........<esc>[0m   336.00 MiB
$ sed 's/\x1b\[[0-9;]*m//g' colored | cmp - plain

$ vram report t.vrt --leaks
  t.vrt: 48 events in 115 ms
  2 blocks, 160.00 MiB, live at the end

    tag                              bytes   share    blocks
    kv cache                    160.00 MiB 100.0 %         1
    log?[31m                      4.00 KiB   0.0 %         1

    stack                            bytes   share    blocks
    kv cache                    160.00 MiB 100.0 %         1
      program`attention+0x44
      program`step+0x1f
      program`main+0xc3

  Largest
    block 105 of 160.00 MiB, tag kv cache, from thread 1 after 70.0 ms
    block 300 of 4.00 KiB, tag log?[31m, name tab?here, from thread 1 after 110 ms
[1]

$ vram report t.vrt --leaks --stacks
  program`main;program`step;program`attention 167772160
  (no stack);log?[31m 4096
[1]
$ vram report t.vrt --stacks
  program`main;program`load_model;program`load_layer 402653184
  program`main;program`step;program`attention 167772160

$ vram report t.vrt
  t.vrt: 48 events in 115 ms
    At the peak, 80.0 ms after the start, 544.00 MiB were live in 9 blocks.
    Most of it: 384.00 MiB (71 %) at program`load_layer+0x2c; 160.00 MiB (29 %) at
    program`attention+0x44.
    1 request failed for lack of memory, the largest of 2.00 GiB.
    At the end 2 blocks of 160.00 MiB were not freed: 160.00 MiB (100 %) at
    program`attention+0x44; 4.00 KiB (0 %) at log?[31m.

    peak        544.00 MiB live in 9 blocks, after 80.0 ms
    held        980.00 MiB by pools at most
    live        160.00 MiB in 2 blocks at the end
    churn       21 allocations of 960.01 MiB in all, the largest 96.00 MiB
    refused     1
    hit rate    54.5 % of 22
    resized     1 time

  Live at the peak
    tag                              bytes   share    blocks
    model/weights               384.00 MiB  70.6 %         8
    kv cache                    160.00 MiB  29.4 %         1

    stack                            bytes   share    blocks
    model/weights               384.00 MiB  70.6 %         8
      program`load_layer+0x2c
      program`load_model+0x10
      program`main+0x80
    kv cache                    160.00 MiB  29.4 %         1
      program`attention+0x44
      program`step+0x1f
      program`main+0xc3

  Pools
    pool                             bytes   share    blocks
    main                        544.00 MiB 100.0 %        15
    scratch                          300 B   0.0 %         6

  Transfers
    direction  route          copies       bytes    GB/s  half in  99 % in  longest
    to_device  staged              8  384.00 MiB   55.71   907 us   907 us   907 us
    to_host    async               1         0 B    0.00  2.00 ms  2.00 ms  2.00 ms  1 failed
    to_host    readback            6   24.00 MiB   52.43  80.0 us  80.0 us  80.0 us

  Over time
    from      live, of the peak            live        held fragmentation
    0 ns      ############........   336.00 MiB
    8.00 ms   ##############......   384.00 MiB  512.00 MiB          0.00
    10.0 ms   model loaded
    16.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    24.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    32.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    40.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    48.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    56.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    64.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    72.0 ms   ##################..   480.00 MiB  512.00 MiB          0.00
    80.0 ms   ####################   544.00 MiB  544.00 MiB          0.00
    88.0 ms   ####################   544.00 MiB  980.00 MiB          0.79
    96.0 ms   ####################   544.00 MiB  980.00 MiB          0.79
    104 ms    ###########.........   304.00 MiB  980.00 MiB          0.79
    112 ms    ######..............   160.00 MiB  980.00 MiB          0.79

  Advice
    refusals       1 allocation was refused, with VRAM_ERR_LIMIT first, the
                   largest of 2.00 GiB. Fix: vram_oom_report_get says why each
                   failed and which setting would help; vram_oom_callback_add lets
                   the program free memory before a request fails.
    pressure       a pool reached 96 % of what it may hold. Fix:
                   vram_pool_watch_begin tells the program at 0.7 and 0.9;
                   vram_health cleans up; vram_monitor_begin does both at
                   intervals.
    leaks          2 blocks, 160.00 MiB, live when the trace ended. Fix: `vram
                   report --leaks FILE` lists them by tag and stack; a scope
                   (vram/scope.h) frees what was allocated in it however it ends.
    idle           at one time 44 % of what pools held, 428.00 MiB, was cached or
                   free. Fix: call vram_pool_trim (VRAM_TRIM_RARE) in the
                   program's loop to release what it does not need, or
                   vram_device_trim to release all at once; VRAM_CACHED_LIMIT or
                   VRAM_POOL_LIMIT limits it.
    fragmentation  fragmentation was high: the largest free piece was 21 % of the
                   free memory. Fix: on a device with VMM (see `vram info`) the
                   pool moves free memory together; on others, batches
                   (vram/batch.h) put blocks of the same lifetime side by side,
                   and vram_pool_trim (VRAM_TRIM_CACHES) merges cached blocks.

$ vram report t.vrt --top 2 >plain && LC_ALL=C.UTF-8 vram report t.vrt --top 2 >now && diff plain now | grep "^>" | sed -n 1,2p
  >   0 ns      ████████████░░░░░░░░   336.00 MiB
  >   8.00 ms   ██████████████░░░░░░   384.00 MiB  512.00 MiB          0.00
$ make_trace.py killed >t.vrt

$ vram report t.vrt
  t.vrt: 5 events in 5.00 ms, until it ends abruptly: the program was killed or is still running
    At the peak, 5.00 ms after the start, 3.00 MiB were live in 1 block.
    Most of it: 3.00 MiB (100 %) at left.
    At the end 1 block of 3.00 MiB was not freed: 3.00 MiB (100 %) at left.

    peak        3.00 MiB live in 1 block, after 5.00 ms
    live        3.00 MiB in 1 block at the end
    churn       2 allocations of 4.00 MiB in all, the largest 3.00 MiB

  Live at the peak
    tag                              bytes   share    blocks
    left                          3.00 MiB 100.0 %         1

  Over time
    from      live, of the peak            live        held fragmentation
    0 ns      ....................          0 B
    375 us    ....................          0 B
    750 us    #######.............     1.00 MiB
    1.12 ms   #######.............     1.00 MiB
    1.50 ms   #######.............     1.00 MiB
    1.88 ms   #######.............     1.00 MiB
    2.25 ms   #######.............     1.00 MiB
    2.62 ms   #######.............     1.00 MiB
    3.00 ms   ....................          0 B
    3.38 ms   ....................          0 B
    3.75 ms   ....................          0 B
    4.12 ms   ....................          0 B
    4.50 ms   ....................          0 B
    4.88 ms   ####################     3.00 MiB

  Advice
    leaks          1 block, 3.00 MiB, live when the trace broke off. Fix: `vram
                   report --leaks FILE` lists them by tag and stack; a scope
                   (vram/scope.h) frees what was allocated in it however it ends.

$ vram report t.vrt --leaks
  t.vrt: 5 events in 5.00 ms, until it ends abruptly: the program was killed or is still running
  1 block, 3.00 MiB, live at the end

    tag                              bytes   share    blocks
    left                          3.00 MiB 100.0 %         1

  Largest
    block 2 of 3.00 MiB, tag left, from thread 1 after 5.00 ms
[1]

$ make_trace.py lines >t.vrt

$ vram report t.vrt --leaks -n 4
> vram report t.vrt --stacks
> vram report t.vrt --json | grep model.c
  t.vrt: 6 events in 9.00 ms
  4 blocks, 16.00 MiB, live at the end or when their pool ended

    tag                              bytes   share    blocks
    (no tag)                     10.00 MiB  62.5 %         1
    weights                       6.00 MiB  37.5 %         3

    stack                            bytes   share    blocks
    (no tag)                     10.00 MiB  62.5 %         1
      libplain.so+0x10 (plain.c:3)
      main+0x99 (main.c:11, program+0x4099)
    weights                       3.00 MiB  18.8 %         1
      load_layer+0x44 (model.c:42, libmodel.so+0x1044)
      main+0x82 (main.c:9, program+0x4082)
    weights                       2.00 MiB  12.5 %         1
      load_layer+0x2f (model.c:40, libmodel.so+0x102f)
      main+0x81 (main.c:9, program+0x4081)
    weights                       1.00 MiB   6.2 %         1
      load_layer+0x1c (model.c:40, libmodel.so+0x101c)
      main+0x80 (main.c:7, program+0x4080)

  Largest
    block 10 of 10.00 MiB, tag (none), from thread 1 after 5.00 ms
    block 3 of 3.00 MiB, tag weights, from thread 1 after 3.00 ms
    block 2 of 2.00 MiB, tag weights, from thread 1 after 2.00 ms
    block 1 of 1.00 MiB, tag weights, from thread 1 after 1.00 ms
  main (program);libplain.so+0x10 (plain.c:3) 10485760
  main (program);load_layer (model.c:40, libmodel.so) 3145728
  main (program);load_layer (model.c:42, libmodel.so) 3145728
      "Most of it: 10.00 MiB (62 %) at libplain.so+0x10 (plain.c:3); 3.00 MiB (19 %) at load_layer+0x44 (model.c:42, libmodel.so+0x1044); 2.00 MiB (12 %) at load_layer+0x2f (model.c:40, libmodel.so+0x102f).",
      "At the end 4 blocks of 16.00 MiB were not freed: 10.00 MiB (62 %) at libplain.so+0x10 (plain.c:3); 3.00 MiB (19 %) at load_layer+0x44 (model.c:42, libmodel.so+0x1044)."
          "load_layer+0x44 (model.c:42, libmodel.so+0x1044)",
          "load_layer+0x2f (model.c:40, libmodel.so+0x102f)",
          "load_layer+0x1c (model.c:40, libmodel.so+0x101c)",
          "load_layer+0x44 (model.c:42, libmodel.so+0x1044)",
          "load_layer+0x2f (model.c:40, libmodel.so+0x102f)",
          "load_layer+0x1c (model.c:40, libmodel.so+0x101c)",

$ make_trace.py lost >t.vrt

$ vram report t.vrt
  t.vrt: 10 events in 9.00 ms
    At the peak, 2.00 ms after the start, 3.00 MiB were live in 2 blocks.
    Most of it: 2.00 MiB (67 %) at b; 1.00 MiB (33 %) at a.
    At the end 2 blocks of 2.00 MiB were not freed: 2.00 MiB (100 %) at a.

    peak        3.00 MiB live in 2 blocks, after 2.00 ms
    live        0 B in 0 blocks at the end
    lost        2.00 MiB in 2 blocks that were live when the pool ended
    churn       4 allocations of 6.00 MiB in all, the largest 2.00 MiB

  Live at the peak
    tag                              bytes   share    blocks
    b                             2.00 MiB  66.7 %         1
    a                             1.00 MiB  33.3 %         1

  Pools
    pool                             bytes   share    blocks
    main                          3.00 MiB 100.0 %         2
    scratch                       3.00 MiB 100.0 %         2

  Over time
    from      live, of the peak            live        held fragmentation
    0 ns      ....................          0 B
    750 us    #######.............     1.00 MiB
    1.50 ms   ####################     3.00 MiB
    2.25 ms   ####################     3.00 MiB
    3.00 ms   #######.............     1.00 MiB
    3.75 ms   #######.............     1.00 MiB
    4.50 ms   ....................          0 B
    5.25 ms   ....................          0 B
    6.00 ms   #######.............     1.00 MiB
    6.75 ms   ####################     3.00 MiB
    7.50 ms   ####################     3.00 MiB
    8.25 ms   #######.............     1.00 MiB
    9.00 ms   ....................          0 B

  Advice
    leaks          2 blocks, 2.00 MiB, live when their pool or the trace ended.
                   Fix: `vram report --leaks FILE` lists them by tag and stack; a
                   scope (vram/scope.h) frees what was allocated in it however it
                   ends.

$ vram report t.vrt --leaks
  t.vrt: 10 events in 9.00 ms
  2 blocks, 2.00 MiB, live at the end or when their pool ended

    tag                              bytes   share    blocks
    a                             2.00 MiB 100.0 %         2

  Largest
    block 1 of 1.00 MiB, tag a, from thread 1 after 1.00 ms
    block 3 of 1.00 MiB, tag a, from thread 1 after 6.00 ms
[1]

$ make_trace.py fold >t.vrt
$ vram report t.vrt --stacks
  main (program);libplain.so+0x20 11534336
  main (program);libplain.so+0x10 10485760
  main (program);load_layer (libmodel.so) 3145728
$ printf 'op,id,bytes,stream,t_us\na,77,512,9\n' | vram report -
! vram: standard input:2: there are not 5 fields
[2]

# A trace of a later version.
$ printf '\211VRT\r\n\032\n\003\0\0\0%0200d' 0 | vram report -
! vram: standard input: at offset 8: format version 3 is not supported; this command reads 1 and 2
[2]
$ printf 'hello\n' | vram report -
! vram: standard input:1: this is not a trace: neither one of libvram (VRAM_TRACE), nor a memory snapshot of PyTorch, nor Chrome JSON, nor a log of RMM, nor CSV that begins with op,id,bytes,stream,t_us; plain, gzip'd or zstd'd
[2]

$ printf 'op,id,bytes,stream,t_us\n' >old.csv
> vram report old.csv -o x
! vram: --output needs --format: one of html text json memory_viz perfetto folded csv
[2]

$ printf 'op,id,bytes,stream,t_us\n' >old.csv
> vram report old.csv --fail-if 'peak>+2%'
! vram: --fail-if=peak>+2%: a growth needs the other trace: --against OLD
[2]

$ base64 -d >s.pickle <<'END'
> gASVMgAAAAAAAAB9lIwNZGV2aWNlX3RyYWNlc5SMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpRzLg==
> END

# A pickle that would run code.
$ vram report s.pickle
! vram: s.pickle: at offset 46: the pickle would run code (STACK_GLOBAL); only plain data is read, as in a memory snapshot
[2]

$ printf 'op,id,bytes,stream,t_us\n' >old.csv
> vram report --serve --pid 1 old.csv
! vram: --pid is for a running process: leave out the trace
[2]
$ printf '\211VRT\r\n\032\n' | vram report -
! vram: standard input: at offset 8: the file ends inside its header
[2]
$ make_trace.py damaged >t.vrt
$ vram report t.vrt
! vram: t.vrt: at offset 512: the chunk is damaged: its checksum does not match
[2]
