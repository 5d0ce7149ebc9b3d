$ vram info --help
  Usage: vram info [OPTION]...
  Show backends, devices, memory and capabilities, and why a backend is absent.

  Options
    -b, --backend=NAME      use only this backend, or several joined by commas
        --options           also list the options with their values and sources
        --leases            instead, list who holds memory under a lease, and who
                            gave what to whom
        --shares            instead, list the names under which memory is shared
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram info                       # everything, the best device marked *
    vram info --backend cuda        # one backend; exit code 1 if it has no device
    vram info --json                # for programs: schema vram.info/1
    vram info --leases              # who holds memory under a lease
    vram info --shares              # names of shared memory, and their owners
    VRAM_SIM=devices=2,memory=80G vram info    # with two simulated GPUs

$ VRAM_CONF=backends=sim VRAM_SIM=devices=2,fault=device_open:1:6 vram info >now && tail -n 15 now
  Devices (* is used when none is chosen)
  * 0   sim:0       Simulated GPU  simulated sim
        memory      8.00 GiB  free unknown
        problem     simulated device 0: device_open answered device_lost, as
                    planned: lost at call 1: a fault planned it
        granules    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 8.00 GiB
        identity    uuid unknown, pci unknown
        can         vmm pinned managed peers memory_info adopt simulated alias
        cannot      kernels true_address host_access handles integrated rdma
    1   sim:1       Simulated GPU  simulated sim
        memory      8.00 GiB  ....................  8.00 GiB free
        granules    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 8.00 GiB
        identity    uuid unknown, pci unknown
        can         vmm pinned managed peers memory_info adopt simulated alias
        cannot      kernels true_address host_access handles integrated rdma

$ vram info --backend host
  libvram <version>

  Backends
    host      present   1 device<*>

  Devices (* is used when none is chosen)
  * 0   host:0      <*>  cpu <*>
        memory      <*> free
        granules    alloc <*>
        identity    uuid unknown, pci unknown
        can         <*>
  <...>

$ d=$(mktemp -d) && VRAM_SHARE_DIR=$d vram info --leases; c=$?; rm -r $d; exit $c
  No leases: no broker runs.
[1]

$ d=$(mktemp -d) && VRAM_SHARE_DIR=$d vram info --leases --json; c=$?; rm -r $d; exit $c
  {
    "schema": "vram.leases/1",
    "version": "<version>",
    "broker": false,
    "leases": [],
    "log": []
  }
[1]

$ VRAM_CONF=backends=sim VRAM_SIM=fault=memory_info:1:77 vram info --json >now
$ grep -e problem -e memory_free now
        "memory_free_bytes": null,
        "problem": "simulated device 0: memory_info answered an unknown code, as planned"
    "option_problems": []
$ VRAM_CONF=backends=sim vram info --options | tr -s ' \n' '\n\n' >words
$ VRAM_CONF=backends=sim COLUMNS=60 vram info --options >narrow && tr -s ' \n' '\n\n' <narrow | diff words -
  100c100
  < ....................
  ---
  > ...............
[1]
$ awk 'length > 60' narrow; sed -n 28,48p narrow

  Options (VRAM_CONF="name=value,..." or VRAM_<NAME>=value)
    backends        sim  (environment, text)
                    backends to start, by name and comma;
                    empty: all
    backend_order   ""  (default, text)
                    backends that vram_device_select tries, in
                    order, "cuda:1,vulkan,host"; empty: GPUs
                    first
    sim             ""  (default, text)
                    simulated devices,
                    "devices=2,profile=h200"; see vram/sim.h
    cuda_library    ""  (default, text)
                    path of the CUDA driver library; empty:
                    libcuda.so.1
    vulkan_library  ""  (default, text)
                    path of the Vulkan loader library; empty:
                    libvulkan.so.1
    nvml_library    ""  (default, text)
                    path of NVIDIA's management library;
                    empty: libnvidia-ml.so.1

$ VRAM_CONF=backends=sim,device_limit=1.5GiB VRAM_WAIT_TIMEOUT=250ms vram info --options
  libvram <version>

  Backends
    cuda      absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    hip       absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    metal     absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    vulkan    absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    opencl    absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    sim       present   1 device, version <version>
    host      absent    left out by the option backends (VRAM_BACKENDS) or the
                        program

  Devices (* is used when none is chosen)
  * 0   sim:0       Simulated GPU  simulated sim
        memory      8.00 GiB  ....................  8.00 GiB free
        granules    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 8.00 GiB
        identity    uuid unknown, pci unknown
        can         vmm pinned managed memory_info adopt simulated alias
        cannot      peers kernels true_address host_access handles integrated rdma

  Options (VRAM_CONF="name=value,..." or VRAM_<NAME>=value)
    backends        sim  (environment, text)
                    backends to start, by name and comma; empty: all
    backend_order   ""  (default, text)
                    backends that vram_device_select tries, in order,
                    "cuda:1,vulkan,host"; empty: GPUs first
    sim             ""  (default, text)
                    simulated devices, "devices=2,profile=h200"; see vram/sim.h
    cuda_library    ""  (default, text)
                    path of the CUDA driver library; empty: libcuda.so.1
    vulkan_library  ""  (default, text)
                    path of the Vulkan loader library; empty: libvulkan.so.1
    nvml_library    ""  (default, text)
                    path of NVIDIA's management library; empty: libnvidia-ml.so.1
    hip_library     ""  (default, text)
                    path of the HIP runtime library; empty: libamdhip64.so.7, .6
                    or .5
    opencl_library  ""  (default, text)
                    path of the OpenCL loader; empty: libOpenCL.so.1
    opencl_memory   ""  (default, text)
                    how OpenCL memory is allocated: usm, svm or buffer; empty or
                    auto: the first available
    metal_library   ""  (default, text)
                    path of the Metal library; empty: the framework of macOS
    blas_library    ""  (default, text)
                    path of a CPU library with cblas_sgemm; none: our own; empty:
                    OpenBLAS, BLIS or our own
    cublas_library  ""  (default, text)
                    path of cuBLAS; none: our own kernel; empty: libcublas.so.13,
                    .12 or .11, or our own
    hipblas_library ""  (default, text)
                    path of hipBLAS; none: no products on AMD GPUs; empty:
                    libhipblas.so.3, .2 or .1
    clblast_library ""  (default, text)
                    path of CLBlast; none: our own kernel; empty: libclblast.so.1
                    on GPUs, or our own
    calibration_cache ""  (default, text)
                    folder that measured rates are kept in; off: nowhere; empty:
                    vram in the user's cache folder
    device_limit    1.5GiB  (environment, size, limit)
                    most bytes to take from any one device; 0: no limit
    preset          ""  (default, text)
                    limits that pools begin with: default, inference, training or
                    constrained
    memory_fraction 0  (default, fraction, limit)
                    most of a device's memory that pools fill it to, 0.1 to 1; 0:
                    as the preset says
    min_free        0  (default, size)
                    memory that pools leave free on a device, at least; 0: as the
                    preset says
    pool_limit      0  (default, size, limit)
                    most bytes that any one pool holds; 0: no limit
    cached_limit    0  (default, size, limit)
                    most bytes that a pool keeps free for later; 0: no limit
    cached_blocks   0  (default, integer, limit)
                    most blocks of one size that a pool caches; 0: as the preset
                    says
    quotas          ""  (default, text, limit)
                    most that tags may take, as "tenant=4G:6G,tenant/model=2G":
                    soft:hard, or hard
    memory_sample   100ms  (default, duration)
                    shortest time between two queries of a device's free memory
    host_memory     0  (default, size, limit)
                    memory of the host device; 0: what the machine has
    share_dir       ""  (default, text)
                    directory of sockets and names of shared memory; empty:
                    XDG_RUNTIME_DIR, or /tmp/vram-UID
    broker          ""  (default, text)
                    command that is started as the broker of leases; thread: none
                    is; empty: vram, by PATH
    system_root     ""  (default, text)
                    folder in which proc/meminfo and sys/fs/cgroup are read;
                    empty: /
    pool            on  (default, bool)
                    off: each allocation of a pool is a driver allocation, which
                    its free returns
    range_bytes     0  (default, size)
                    addresses a pool reserves at first, for small and for large
                    blocks each; 0: 2 and 64 times the memory
    exportable      off  (default, bool)
                    pools take memory that other processes may open, where the
                    device has such memory
    rdma            ""  (default, text)
                    network cards may register device memory, and pools map none
                    of it elsewhere: auto: where cards are and libibverbs is
                    loaded; off: memory that cannot be registered
    power_of_two    off  (default, bool)
                    pools round every request up to a power of two, for programs
                    built on such buckets
    zero_alloc      off  (default, bool)
                    pools hand out memory filled with zeros
    zero_free       off  (default, bool)
                    pools fill freed memory with zeros, in the order of its queue
    poison          off  (default, bool)
                    pools fill new and freed memory with patterns and check for
                    late writes; stream: they fill new memory in the order of its
                    queue, and do nothing else
    red_zones       off  (default, bool)
                    pools put zones around blocks and check them when a block is
                    freed
    quarantine      16M  (default, size)
                    freed memory that a pool with poison keeps apart, to catch
                    late writes
    tracking        ""  (default, text)
                    pools keep a record of every live block: on or off; empty or
                    auto: in debug builds
    track_stacks    0  (default, integer)
                    tracked pools take the call stack of every n-th allocation; 0:
                    of none
    nvtx            on  (default, bool)
                    off: tools such as compute-sanitizer are not told which memory
                    of a pool is in blocks
    live            on  (default, bool)
                    off: the process writes no live page, for vram top and others
                    to read
    leaks           ""  (default, text)
                    report of blocks still live when a pool ends, with tracking:
                    text or json; empty or off: none
    leak_file       ""  (default, text)
                    file that such reports are added to; empty: standard error
    leak_exit       off  (default, bool)
                    the same report for pools that exist when the process ends
    leak_suppressions ""  (default, text)
                    file of lines "leak:PATTERN": tags, functions and modules that
                    are not reported
    pool_slack      8000  (default, integer)
                    what a pool may hold beyond its peak need before it moves
                    memory, in millionths of it
    move_share      80000  (default, integer)
                    share of the time a pool may spend on moving memory, in
                    millionths; then it grows instead
    move_credit     250ms  (default, duration)
                    time budget for moving memory that a pool starts with
    ladder          ""  (default, list)
                    steps a pool takes when memory is short, by name and comma;
                    none; empty: see vram/oom.h
    oom_wait        100ms  (default, duration)
                    longest wait for other threads to free memory when it is
                    short; 0ns: none
    error_half_life 60s  (default, duration)
                    time after which an error counts half as much for a context's
                    error handler
    wait_timeout    250ms  (environment, duration)
                    longest wait of a call that was given no deadline of its own
    pressure_warn   0.7  (default, fraction)
                    pressure above which watches and the health check warn
    pressure_emergency 0.9  (default, fraction)
                    pressure above which a device is cleaned up
    pressure_hysteresis 0.05  (default, fraction)
                    how far pressure must fall below a threshold to count as below
    response_halve  on  (default, bool)
                    at high pressure a pool halves what it has cached
    response_drop   on  (default, bool)
                    at high pressure a pool drops rarely used sizes from its
                    caches
    response_emergency on  (default, bool)
                    above pressure_emergency a device's pools return what is not
                    needed to the driver
    response_decay  on  (default, bool)
                    caches that are not used shrink with time
    response_interval 1s  (default, duration)
                    shortest time between two responses of one kind to pressure
    decay_interval  10s  (default, duration)
                    time after which half of an unused cache is released
    monitor_interval 1s  (default, duration)
                    time between two samples of a monitor
    staging_slot    4M  (default, size)
                    page-locked memory that a part of a copy of pageable memory
                    goes through
    staging_slots   8  (default, integer)
                    how many of these a device may have; 0: none, the driver
                    copies pageable memory itself
    staging_threads 0  (default, integer)
                    threads that copy for one device, the caller's among them; 0:
                    half the processors, up to 8, and for sleeping pools all, up
                    to 12
    staging_idle    10s  (default, duration)
                    time after which slots that no copy has used are freed; 0ns:
                    never
    pinned_limit    0  (default, size, limit)
                    most bytes of the program's own memory that a device has
                    page-locked in place; 0: no limit
    pinned_entries  256  (default, integer)
                    most ranges of such memory
    trace           ""  (default, text)
                    file for a trace of all pools, for vram report; %p in it is
                    the process's number
    trace_ring      0  (default, size)
                    size of a trace's file that keeps the last events only, up to
                    256M; 0: it keeps all
    trace_sample    100ms  (default, duration)
                    shortest time between two samples of the pools in a trace
    strict          on  (default, bool)
                    on: a context is refused while a variable or VRAM_CONF has a
                    value that cannot be used
    log             ""  (default, text)
                    messages on standard error: error, warn, info or debug; empty:
                    none

$ VRAM_CONF=backends=sim vram info
  libvram <version>

  Backends
    cuda      absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    hip       absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    metal     absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    vulkan    absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    opencl    absent    left out by the option backends (VRAM_BACKENDS) or the
                        program
    sim       present   1 device, version <version>
    host      absent    left out by the option backends (VRAM_BACKENDS) or the
                        program

  Devices (* is used when none is chosen)
  * 0   sim:0       Simulated GPU  simulated sim
        memory      8.00 GiB  ....................  8.00 GiB free
        granules    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 8.00 GiB
        identity    uuid unknown, pci unknown
        can         vmm pinned managed memory_info adopt simulated alias
        cannot      peers kernels true_address host_access handles integrated rdma

$ VRAM_CONF=backends=sim VRAM_SIM=devices=2,profile=h200 vram info --json >now && sed -n "/\"devices\"/,/}/p" now
    "devices": [
      {
        "index": 0,
        "backend": "sim",
        "backend_index": 0,
        "name": "Simulated H200",
        "kind": "simulated",
        "architecture": "sim",
        "uuid": null,
        "pci": null,
        "memory_total_bytes": 150109880320,
        "memory_free_bytes": 150109880320,
        "alloc_granule_bytes": 4096,
        "alloc_max_bytes": 150109880320,
        "vmm_granule_bytes": 2097152,
        "caps": {
          "vmm": true,
          "pinned": true,
          "managed": true,
          "peers": true,
          "kernels": false,
          "true_address": false,
          "host_access": false,
          "memory_info": true,
          "adopt": true,
          "simulated": true,
          "alias": true,
          "handles": false,
          "integrated": false,
          "rdma": false
        },

$ VRAM_SIM=info=off vram info -jbsim | grep bytes
        "memory_total_bytes": 8589934592,
        "memory_free_bytes": null,
        "alloc_granule_bytes": 4096,
        "alloc_max_bytes": 8589934592,
        "vmm_granule_bytes": 2097152,
        "help": "most bytes to take from any one device; 0: no limit"
        "help": "most bytes that any one pool holds; 0: no limit"
        "help": "most bytes that a pool keeps free for later; 0: no limit"
        "name": "range_bytes",
        "help": "most bytes of the program's own memory that a device has page-locked in place; 0: no limit"

$ VRAM_SIM=devices=2,profile=h200 vram info --backend sim
  libvram <version>

  Backends
    sim       present   2 devices, version <version>

  Devices (* is used when none is chosen)
  * 0   sim:0       Simulated H200  simulated sim
        memory      139.80 GiB  ....................  139.80 GiB free
        granules    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 139.80 GiB
        identity    uuid unknown, pci unknown
        can         vmm pinned managed peers memory_info adopt simulated alias
        cannot      kernels true_address host_access handles integrated rdma
    1   sim:1       Simulated H200  simulated sim
        memory      139.80 GiB  ....................  139.80 GiB free
        granules    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 139.80 GiB
        identity    uuid unknown, pci unknown
        can         vmm pinned managed peers memory_info adopt simulated alias
        cannot      kernels true_address host_access handles integrated rdma

$ VRAM_SIM=vmm=off,info=off vram info -b sim
  libvram <version>

  Backends
    sim       present   1 device, version <version>

  Devices (* is used when none is chosen)
  * 0   sim:0       Simulated GPU  simulated sim
        memory      8.00 GiB  free unknown
        granules    alloc 4.00 KiB; largest allocation 8.00 GiB
        identity    uuid unknown, pci unknown
        can         pinned managed adopt simulated
        cannot      vmm peers kernels true_address host_access memory_info alias
                    handles integrated rdma

$ VRAM_CONF=backends=sim LC_ALL=C.UTF-8 VRAM_SIM=profile=h200 vram info >now && tail -n 6 now
  * 0   sim:0       Simulated H200  simulated sim
        memory      139.80 GiB  ░░░░░░░░░░░░░░░░░░░░  139.80 GiB free
        granules    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 139.80 GiB
        identity    uuid unknown, pci unknown
        can         vmm pinned managed memory_info adopt simulated alias
        cannot      peers kernels true_address host_access handles integrated rdma
