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
  <...>
    device_limit    1.5GiB  (environment, size, limit)
                    most bytes to take from any one device; 0: no limit
  <...>
    wait_timeout    250ms  (environment, duration)
                    longest wait of a call that was given no deadline of its own
  <...>
    strict          on  (default, bool)
                    on: a context is refused while a variable or VRAM_CONF has a
                    value that cannot be used
    log             ""  (default, text)
                    messages on standard error: error, warn, info or debug; empty:
                    none

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
