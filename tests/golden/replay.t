$ VRAM_SIM=profile=h200 LC_ALL=C.UTF-8 vram replay --generate steady,steps=1,blocks=9 --backend sim -p caching --color=always
  <esc>[1mReplay on sim:0, Simulated H200<esc>[0m<esc>[33m (simulated: times are those of a model)<esc>[0m

  <esc>[1msteady,steps=1,blocks=9<esc>[0m: 69 blocks in 18.9 ms, at most 123.31 MiB live
  <esc>[2m  policy<esc>[0m     <esc>[2mheld at peak<esc>[0m <esc>[2m           <esc>[0m<esc>[2m   ratio<esc>[0m<esc>[2m   moved<esc>[0m<esc>[2m  moving<esc>[0m<esc>[2m   calls<esc>[0m<esc>[2m  per op<esc>[0m
  <esc>[36m  caching<esc>[0m    <esc>[32m███████████<esc>[0m<esc>[31m▒<esc>[0m  138.00 MiB<esc>[33m   1.119<esc>[0m       0  0.00 %      13 5.32 us

$ VRAM_SIM=lose=60 vram replay --generate steady,steps=1 --backend sim -p naive
  Replay on sim:0, Simulated GPU (simulated: times are those of a model)

  steady,steps=1: 310 blocks in 20.0 ms, at most 445.27 MiB live
    policy     held at peak               ratio   moved  moving   calls  per op
    naive      ###.........  117.22 MiB       -       0  0.00 %     115       -
      failed: operation 58, 12329 bytes: simulated device 0: alloc answered
      device_lost: lost at call 60: lose= planned it (VRAM_ERR_DEVICE_LOST)
! vram: steady,steps=1, naive: operation 58, 12329 bytes: simulated device 0: alloc answered device_lost: lost at call 60: lose= planned it (VRAM_ERR_DEVICE_LOST)
[2]

$ cat >twice.csv <<'END'
> op,id,bytes,stream,t_us
> a,1,9000000,0,0
> a,2,9000000,0,0
> END

$ VRAM_SIM=memory=1G,profile=h200 vram replay - <twice.csv --backend sim -p naive --memory 16M
  Replay on sim:0, Simulated GPU (simulated: times are those of a model)

  standard input: 2 blocks in 0 ns, at most 17.17 MiB live
    policy     held at peak               ratio   moved  moving   calls  per op
    naive      ######......    8.59 MiB       -       0  0.00 %       3 62.4 us
      does not fit: operation 2, 9000000 bytes: simulated device 0: alloc answered
      out_of_memory: 8.59 MiB asked, 7.41 MiB free (VRAM_ERR_DEVICE_MEMORY)
[1]

$ echo op,id,bytes,stream,t_us | vram replay - --backend sim -p naive
  Replay on sim:0, Simulated GPU (simulated: times are those of a model)

  standard input: 0 blocks in 0 ns, at most 0 B live
    policy     held at peak               ratio   moved  moving   calls  per op
    naive      ............         0 B       -       0  0.00 %       0    0 ns

$ export VRAM_SIM=profile=h200
> printf 'op,id,bytes,stream,t_us\na,1,10000000,0,0\na,2,3000000,0,1000\nf,1,,,2000\n' | vram replay - --backend sim --policy caching --json
  {
    "schema": "vram.replay/1",
    "version": "<version>",
    "backend": "sim",
    "device": 0,
    "device_name": "Simulated H200",
    "clock": "simulated",
    "memory_bytes": 85899345920,
    "passes": [
      {
        "trace": "standard input",
        "policy": "caching",
        "repeat": 1,
        "result": "done",
        "reason": null,
        "operations": 3,
        "allocations": 2,
        "queues": 1,
        "threads": 1,
        "peak_requested_bytes": 13000000,
        "peak_reserved_bytes": 20971520,
        "ratio": 1.6131938461538462,
        "moved_handles": 0,
        "move_ns": 0,
        "trace_ns": 2000000,
        "move_share": 0,
        "driver_calls": {
          "alloc": 1,
          "free": 0,
          "create": 0,
          "release": 0,
          "map": 0,
          "access": 0,
          "unmap": 0,
          "marker": 0,
          "total": 1
        },
        "ns_per_op": 11500
      }
    ]
  }

$ cat >grows.csv <<'END'
> op,id,bytes,stream,t_us
> a,1,31457280,0,0
> a,2,62914560,0,1000
> f,1,,,2000
> f,2,,,3000
> a,3,94371840,0,4000
> f,3,,,50000
> END

$ VRAM_SIM=profile=h200 vram replay - <grows.csv -b sim --least -p vram -p expandable -p async -p caching -p naive
  Replay on sim:0, Simulated H200 (simulated: times are those of a model)

  standard input: 3 blocks in 50.0 ms, at most 90.00 MiB live
    policy        no limit   ratio      least   ratio   slower     at 5 %   ratio
    vram         90.00 MiB  1.0000  90.00 MiB  1.0000   2.20 %  90.00 MiB  1.0000
    expandable  100.00 MiB  1.1111 100.00 MiB  1.1111   0.00 % 100.00 MiB  1.1111
    async        96.00 MiB  1.0667  96.00 MiB  1.0667   0.00 %  96.00 MiB  1.0667
    caching     180.00 MiB  2.0000  90.04 MiB  1.0005   0.27 %  90.04 MiB  1.0005
    naive        90.00 MiB  1.0000  90.00 MiB  1.0000   0.00 %  90.00 MiB  1.0000

$ VRAM_SIM=profile=h200 vram replay - <grows.csv -b sim --least -p expandable -p naive -m 64M
  Replay on sim:0, Simulated H200 (simulated: times are those of a model)

  standard input: 3 blocks in 50.0 ms, at most 90.00 MiB live
    policy        no limit   ratio      least   ratio   slower     at 5 %   ratio
  expandable: does not fit: operation 2, 62914560 bytes: simulated device 0:
  create answered out_of_memory: 20.00 MiB asked, 4.00 MiB free
  (VRAM_ERR_DEVICE_MEMORY)
  naive: does not fit: operation 2, 62914560 bytes: simulated device 0: alloc
  answered out_of_memory: 60.00 MiB asked, 34.00 MiB free (VRAM_ERR_DEVICE_MEMORY)
[1]

$ VRAM_SIM=profile=h200,fault=free:1:6 vram replay - <grows.csv -b sim --least -p caching
  Replay on sim:0, Simulated H200 (simulated: times are those of a model)

  standard input: 3 blocks in 50.0 ms, at most 90.00 MiB live
    policy        no limit   ratio      least   ratio   slower     at 5 %   ratio
  caching: failed: operation 5, 94371840 bytes: simulated device 0: free answered
  device_lost, as planned: lost at call 6: a fault planned it
  (VRAM_ERR_DEVICE_LOST)
! vram: standard input, caching: operation 5, 94371840 bytes: simulated device 0: free answered device_lost, as planned: lost at call 6: a fault planned it (VRAM_ERR_DEVICE_LOST)
[2]

$ export VRAM_SIM=profile=h200
> awk 'BEGIN { print "op,id,bytes,stream,t_us"; for (i = 0; i < 25; i++) { print "a," i + 1 "," (i ? 3145728 : 75497472) ",0," i * 1000; if (!i) print "f,1,,,500" } for (i = 1; i < 25; i++) if (i % 3) print "f," i + 1 ",,," 30000 + i * 100; print "a,99,41943040,0,40000"; print "f,99,,,50000" }' | vram replay - -b sim --least --rebuild
  Replay on sim:0, Simulated H200 (simulated: times are those of a model)

  standard input: 26 blocks in 50.0 ms, at most 72.00 MiB live
    policy        no limit   ratio      least   ratio   slower     at 5 %   ratio
    vram         88.00 MiB  1.2222  72.06 MiB  1.0009   3.74 %  72.06 MiB  1.0009

$ vram replay - <twice.csv --backend host -p naive --memory 16M --json | grep -o 'operation 2.*'
  operation 2, 9000000 bytes: 9003008 bytes more would pass the limit of 16777216 bytes for this device (option device_limit); 9003008 are held (VRAM_ERR_LIMIT)",

$ cat >moves.csv <<'END'
> op,id,bytes,stream,t_us
> a,1,10000000,0,0
> a,2,3000000,0,1000
> f,1,,,2000
> a,3,12000000,0,3000
> f,2,,,4000
> f,3,,,5000
> END

$ VRAM_SIM=profile=h200 vram replay - <moves.csv --backend sim -p vram -p caching -p naive --picture
  Replay on sim:0, Simulated H200 (simulated: times are those of a model)

  standard input: 3 blocks in 5.00 ms, at most 14.31 MiB live

   32.00 MiB |                                   +++++++++                       <>
             |                                   +++++++++                       <>
             |                                   +++++++++                       <>
             |                                   +++++++++                       <>
             |                       +++++++++++++++++++++                       <>
   14.31 MiB |            +++++++++  +++++++++++++++++++++              #####    <>
             |    #####+++#########  ++++#####+++#########      #####   #########
             |#########+++#########  #########+++#########  #########   #########
             |#########+++#########  #########+++#########  #########   #########
             |#####################  #####################  #####################
           0 +---------------------  ---------------------  ---------------------
              vram                   caching                naive
              peak 16.00 MiB         peak 32.00 MiB         peak 14.31 MiB
              ratio 1.118            ratio 2.237            ratio 1.000
              took 587 us, 11.7 %    took 66.8 us, 1.3 %    took 186 us, 3.7 %
              20 driver calls        2 driver calls         6 driver calls

              # what the program had asked for, over its time  + held beyond that
              % of the program's own 5.00 ms

$ VRAM_SIM=profile=h200 LC_ALL=C.UTF-8 COLUMNS=60 vram replay - <moves.csv --backend sim -p caching -p naive --picture --color=always
  <esc>[1mReplay on sim:0, Simulated H200<esc>[0m<esc>[33m (simulated: times are those of a model)<esc>[0m

  <esc>[1mstandard input<esc>[0m: 3 blocks in 5.00 ms, at most 14.31 MiB live

  <esc>[2m 32.00 MiB │<esc>[0m<esc>[32m             <esc>[0m<esc>[31m▒▒▒▒▒▒▒▒▒▒<esc>[0m  <esc>[32m                       <esc>[0m
  <esc>[2m           │<esc>[0m<esc>[32m             <esc>[0m<esc>[31m▒▒▒▒▒▒▒▒▒▒<esc>[0m  <esc>[32m                       <esc>[0m
  <esc>[2m           │<esc>[0m<esc>[32m             <esc>[0m<esc>[31m▒▒▒▒▒▒▒▒▒▒<esc>[0m  <esc>[32m                       <esc>[0m
  <esc>[2m           │<esc>[0m<esc>[32m             <esc>[0m<esc>[31m▒▒▒▒▒▒▒▒▒▒<esc>[0m  <esc>[32m                       <esc>[0m
  <esc>[2m           │<esc>[0m<esc>[31m▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒<esc>[0m  <esc>[32m                       <esc>[0m
  <esc>[2m 14.31 MiB │<esc>[0m<esc>[31m▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒<esc>[0m  <esc>[32m             ▄▄▄▄▄▄    <esc>[0m
  <esc>[2m           │<esc>[0m<esc>[31m▒▒▒▒<esc>[0m<esc>[32m██████<esc>[0m<esc>[31m▒▒▒<esc>[0m<esc>[32m██████████<esc>[0m  <esc>[32m    ▇▇▇▇▇▇   ██████▅▅▅▅<esc>[0m
  <esc>[2m           │<esc>[0m<esc>[32m██████████<esc>[0m<esc>[31m▒▒▒<esc>[0m<esc>[32m██████████<esc>[0m  <esc>[32m██████████   ██████████<esc>[0m
  <esc>[2m           │<esc>[0m<esc>[32m██████████<esc>[0m<esc>[31m▒▒▒<esc>[0m<esc>[32m██████████<esc>[0m  <esc>[32m██████████   ██████████<esc>[0m
  <esc>[2m           │<esc>[0m<esc>[32m███████████████████████<esc>[0m  <esc>[32m██████████▇▇▇██████████<esc>[0m
  <esc>[2m         0 └<esc>[0m<esc>[2m───────────────────────<esc>[0m  <esc>[2m───────────────────────<esc>[0m
              <esc>[1mcaching<esc>[0m                  <esc>[1mnaive<esc>[0m
              peak 32.00 MiB           peak 14.31 MiB
              <esc>[31mratio 2.237<esc>[0m              <esc>[32mratio 1.000<esc>[0m
              took 66.8 us, 1.3 %      took 186 us, 3.7 %
              2 driver calls           6 driver calls

              <esc>[32m█<esc>[0m<esc>[2m what the program had asked for, over its time  <esc>[0m<esc>[31m▒<esc>[0m<esc>[2m held beyond that<esc>[0m
              <esc>[2m% of the program's own 5.00 ms<esc>[0m

$ vram replay - <moves.csv --backend sim -p naive --picture --memory 12M
  Replay on sim:0, Simulated GPU (simulated: times are those of a model)

  standard input: 3 blocks in 5.00 ms, at most 14.31 MiB live

   14.31 MiB |                                                            <>
             |                                                            <>
             |                                                            <>
             |#                                                           <>
             |#                                                           <>
             |#                                                           <>
             |#                                                           <>
             |#                                                           <>
             |#                                                           <>
             |#                                                           <>
           0 +------------------------------------------------------------
              naive
              peak 9.54 MiB
              does not fit
              took -
              3 driver calls

              # what the program had asked for, over its time  + held beyond that
              % of the program's own 5.00 ms
  naive: does not fit: operation 2, 3000000 bytes: simulated device 0: alloc
  answered out_of_memory: 2.86 MiB asked, 2.46 MiB free (VRAM_ERR_DEVICE_MEMORY)
[1]

$ COLUMNS=40 vram replay - <moves.csv --backend sim -p caching -p naive --picture
  Replay on sim:0, Simulated GPU (simulated: times are those of a model)

  standard input: 3 blocks in 5.00 ms, at most 14.31 MiB live

   32.00 MiB |                ++++++++++++
             |                ++++++++++++
             |                ++++++++++++
             |                ++++++++++++
             |++++++++++++++++++++++++++++
   14.31 MiB |++++++++++++++++++++++++++++
             |+++++#######++++############
             |############++++############
             |############++++############
             |############################
           0 +----------------------------
              caching
              peak 32.00 MiB
              ratio 2.237
              took -
              2 driver calls

   32.00 MiB |                            <>
             |                            <>
             |                            <>
             |                            <>
             |                            <>
   14.31 MiB |                #######     <>
             |     #######    ############
             |############    ############
             |############    ############
             |############################
           0 +----------------------------
              naive
              peak 14.31 MiB
              ratio 1.000
              took -
              6 driver calls

              # what the program had asked for, over its time  + held beyond that
              % of the program's own 5.00 ms

$ vram replay --generate threads,steps=1,blocks=20,weights=2,threads=2,queues=2,max=64K,uses=50 --print
  op,id,bytes,stream,t_us,thread
  a,0,3723,0,0,0
  a,1,830,0,0,0
  u,1,830,1,0,0
  a,2,33934,0,0,0
  a,3,15662,0,500,0
  a,4,2146,0,1000,0
  a,5,45813,0,1500,0
  u,5,45813,0,1500,0
  a,6,13871,0,2000,0
  u,6,13871,0,2000,0
  a,7,4368,0,2500,0
  u,7,4368,0,2500,0
  a,8,1070,0,3000,0
  u,8,1070,1,3000,0
  a,9,59864,0,3500,0
  a,10,989,0,4000,0
  u,10,989,1,4000,0
  a,11,687,0,4500,0
  a,12,642,0,5000,0
  a,13,600,0,5500,0
  a,14,7125,0,6000,0
  u,14,7125,1,6000,0
  a,15,12044,0,6500,0
  a,16,11356,0,7000,0
  u,16,11356,0,7000,0
  a,17,10798,0,7500,0
  a,18,7715,1,8000,1
  a,19,3201,1,8500,1
  a,20,5902,1,9000,1
  a,21,1887,1,9500,1
  f,21,,1,10000,1
  f,20,,1,10500,0
  f,19,,1,11000,1
  f,18,,1,11500,1
  f,17,,0,12000,0
  f,16,,0,12500,1
  f,15,,0,13000,0
  f,14,,0,13500,0
  f,13,,0,14000,0
  f,12,,0,14500,0
  f,11,,0,15000,0
  f,10,,0,15500,0
  f,9,,0,16000,0
  f,8,,0,16500,0
  f,7,,0,17000,1
  f,6,,0,17500,0
  f,5,,0,18000,0
  f,4,,0,18500,1
  f,3,,0,19000,0
  f,2,,0,19500,0

$ printf 'op,id,bytes,stream,t_us\na,77,512,9,100\nu,77,,8,101\nf,77,,,103\n' | vram replay - --print
  op,id,bytes,stream,t_us
  a,0,512,0,0
  u,0,512,1,1
  f,0,,0,3

$ VRAM_SIM=profile=h200 vram replay --generate steady,steps=2,blocks=40 --backend sim -p caching -p naive -r 2
  Replay on sim:0, Simulated H200 (simulated: times are those of a model)

  steady,steps=2,blocks=40: 140 blocks in 39.8 ms, at most 179.34 MiB live
    policy     held at peak               ratio   moved  moving   calls  per op
    caching #1 ##########++  210.00 MiB   1.171       0  0.00 %      19 2.77 us
    caching #2 ##########++  210.00 MiB   1.171       0  0.00 %       0    0 ns
    naive #1   ##########..  179.52 MiB   1.001       0  0.00 %     280 29.4 us
    naive #2   ##########..  179.52 MiB   1.001       0  0.00 %     280 29.4 us

$ tar xzOf $ROOT/tests/fuzz/corpus.tar.gz corpus/snapshot/protocol4.pickle >s.pickle

$ vram replay s.pickle -b sim -p vram -p caching
  Replay on sim:0, Simulated GPU (simulated: times are those of a model)

  s, GPU 0: 4 blocks in 13.0 us, at most 6.54 KiB live
    policy     held at peak               ratio   moved  moving   calls  per op
    vram       ++++++++++++    2.00 MiB 313.008       0  0.00 %       3       -
    caching    ++++++++++++    2.00 MiB 313.008       0  0.00 %       1       -

  s, GPU 1: 1 blocks in 0 ns, at most 120.56 KiB live
    policy     held at peak               ratio   moved  moving   calls  per op
    vram       #+++++++++++    2.00 MiB  16.987       0  0.00 %       3       -
    caching    #+++++++++++    2.00 MiB  16.987       0  0.00 %       1       -

$ VRAM_SIM=profile=h200 vram replay - <moves.csv --backend sim -p caching -p naive --svg picture.svg >/dev/null && cat picture.svg
  <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1126 392" width="1126" height="392" role="img" fill="#57606a" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">
  <title>Memory held over time, by policy</title>
  <rect width="1126" height="392" rx="8" fill="#ffffff"/>
  <rect x="114" y="360" width="12" height="12" rx="2" fill="#2f7d5b"/>
  <text x="132" y="371" font-size="12">asked for by the program</text>
  <rect x="304" y="360" width="12" height="12" rx="2" fill="#c98a3a"/>
  <text x="322" y="371" font-size="12">held beyond that</text>
  <text x="24" y="32" font-size="17" font-weight="bold" fill="#24292f">standard input</text>
  <text x="24" y="54" font-size="13">3 blocks in 5.00 ms, at most 14.31 MiB live</text>
  <rect x="114" y="84" width="480" height="200" fill="#f6f8fa"/>
  <path fill="#c98a3a" d="M114 284V159.0h288V84.0h192V284Z"/>
  <path fill="#2f7d5b" d="M114 284V224.4h96V206.5h98V266.1h94V194.6h98V212.5h94V284Z"/>
  <text x="114" y="306" font-size="15" font-weight="bold" fill="#24292f">caching</text>
  <text x="114" y="326" font-size="13">peak 32.00 MiB, ratio 2.237</text>
  <text x="114" y="344" font-size="13">2 driver calls, took 66.8 us</text>
  <rect x="622" y="84" width="480" height="200" fill="#f6f8fa"/>
  <path fill="#c98a3a" d="M622 284V224.4h96V206.5h98V266.1h94V194.6h98V212.5h94V284Z"/>
  <path fill="#2f7d5b" d="M622 284V224.4h96V206.5h98V266.1h94V194.6h98V212.5h94V284Z"/>
  <text x="622" y="306" font-size="15" font-weight="bold" fill="#24292f">naive</text>
  <text x="622" y="326" font-size="13">peak 14.31 MiB, ratio 1.000</text>
  <text x="622" y="344" font-size="13">6 driver calls, took 186 us</text>
  <text x="24" y="96" font-size="12">32.00 MiB</text>
  <line x1="114" y1="195" x2="1102" y2="195" stroke="#24292f" stroke-dasharray="4 3"/>
  <text x="24" y="199" font-size="12">14.31 MiB</text>
  </svg>

$ VRAM_SIM=profile=h200 vram replay - <moves.csv --backend sim --policy caching --policy naive
  Replay on sim:0, Simulated H200 (simulated: times are those of a model)

  standard input: 3 blocks in 5.00 ms, at most 14.31 MiB live
    policy     held at peak               ratio   moved  moving   calls  per op
    caching    #####+++++++   32.00 MiB   2.237       0  0.00 %       2 11.1 us
    naive      #####.......   14.31 MiB   1.000       0  0.00 %       6 31.0 us

$ VRAM_SIM=lag=10,seed=4 vram replay --generate queues,steps=1,blocks=20,max=64K --backend sim -p caching -p naive --verify
  Replay on sim:0, Simulated GPU (simulated: times are those of a model)

  queues,steps=1,blocks=20,max=64K: 40 blocks in 19.5 ms, at most 518.16 KiB live
    policy     held at peak               ratio   moved  moving   calls  per op
    caching    #+++++++++++    8.00 MiB  15.810       0  0.00 %      10       -
    naive      #...........  604.00 KiB   1.166       0  0.00 %      80       -

  every block was filled and checked: 0 bytes differ

# What each kind of generated trace has: allocations, uses and frees, streams, threads, and sizes within their bounds.
$ for kind in steady varied queues ahead threads; do
>   vram replay -g $kind,steps=3,blocks=50,weights=10,min=3,max=1M --print >made
>   echo $kind $(cut -d, -f1 made | sort | uniq -c | tr -d '\n') $(awk -F, '$1 == "a" { streams[$4]; sizes[$3]++; if ($3 < 3 || $3 > 1048576) bad++ }
>     END { for (each in streams) count++; for (each in sizes) { different++ }; print count " streams, " different " sizes, " bad + 0 " out of bounds" }' made)
> done
> vram replay -g queues,seed=5 --print >one; vram replay -g queues,seed=5 --print | cmp one - && echo the same
> vram replay -g queues,seed=6 --print | cmp -s one - || echo another
> vram replay -g queues,seed=18446744073709551615 --print >other
> for wrong in steps steps=0 steps=-1 steps= queues=65 seed=18446744073709551616 min=x min=2M,max=1M; do vram replay -g steady,$wrong --print; done
> vram replay -g $(printf '%0400d' 0) --print
  steady 160 a 150 f 1 op 1 streams, 60 sizes, 0 out of bounds
  varied 160 a 150 f 1 op 1 streams, 148 sizes, 0 out of bounds
  queues 160 a 150 f 1 op 45 u 4 streams, 87 sizes, 0 out of bounds
  ahead 160 a 150 f 1 op 52 u 4 streams, 55 sizes, 0 out of bounds
  threads 160 a 150 f 1 op 26 u 4 streams, 87 sizes, 0 out of bounds
  the same
  another
! vram: --generate: "steps" is none of steps, blocks, weights, min, max, vary, queues, uses, threads, handover, step_us, seed, with =VALUE
! vram: --generate: steps=0: not a whole number from 1 to 1000000
! vram: --generate: steps=-1: not a whole number from 1 to 1000000
! vram: --generate: steps=: not a whole number from 1 to 1000000
! vram: --generate: queues=65: not a whole number from 1 to 64
! vram: --generate: seed=18446744073709551616: not a whole number from 0 to 18446744073709551615
! vram: --generate: min=x: not a size from 1 to 1099511627776
! vram: --generate: min is larger than max
! vram: --generate: the specification is too long
[2]
$ vram replay - <moves.csv --backend sim -p naive --html /nonexistent/page.html >/dev/null
! vram: cannot write the page to /nonexistent/page.html: No such file or directory
[2]
$ vram replay - <grows.csv -b sim --least --picture
! vram: --least cannot be combined with --picture
[2]
$ VRAM_SIM=fault=queue_create:1:5 vram replay - <grows.csv -b sim --least
! vram: cannot start the device: simulated device 0: queue_create answered host_memory, as planned (VRAM_ERR_HOST_MEMORY)
[2]
$ printf 'op,id,bytes,stream,t_us\na,1,512,0,0\nf,2,,,1\n' | vram replay - --backend sim
! vram: standard input:3: block 2 is freed, but it is not live
[2]
$ echo hello | vram replay - --backend sim
! vram: standard input:1: this is not a trace: neither one of libvram (VRAM_TRACE), nor a memory snapshot of PyTorch, nor Chrome JSON, nor a log of RMM, nor CSV that begins with op,id,bytes,stream,t_us; plain, gzip'd or zstd'd
[2]
$ VRAM_SIM=vmm=off vram replay -g steady,steps=1 -b sim -p async
! vram: --policy=async needs virtual memory management, which sim:0 does not have; try --backend sim
[2]
$ vram replay - <moves.csv --backend sim -p naive --svg /nonexistent/picture.svg >/dev/null
! vram: cannot write the picture to /nonexistent/picture.svg: No such file or directory
[2]

# A workload that comes again needs few calls of the driver, and little more memory than it asks for: tests/perf has the
# exact figures.
$ gzip -dc $ROOT/traces/serve_kv_cache.csv.gz | VRAM_SIM=profile=h200 vram replay - --backend sim -p vram --repeat 2 --json | awk '/"total"/ { print ($2 + 0 > 3000 ? "many" : "few") }'
  many
  few
$ gzip -dc $ROOT/traces/resnet50_multires.csv.gz | VRAM_SIM=profile=h200,lag=300 vram replay - --backend sim -p vram --repeat 3 --json | awk '/"ratio"/ { print ($2 + 0 > 1.0105 ? "more" : "enough") }'
  enough
  enough
  enough
