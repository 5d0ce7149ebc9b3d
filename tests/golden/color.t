# Asked for.
$ VRAM_CONF=backends=sim NO_COLOR=1 vram info --color=always >colored && cat colored
  <esc>[1mlibvram <version><esc>[0m

  <esc>[1mBackends<esc>[0m
    <esc>[2mcuda<esc>[0m      <esc>[2mabsent<esc>[0m    <esc>[2mleft out by the option backends (VRAM_BACKENDS) or the<esc>[0m
                        <esc>[2mprogram<esc>[0m
    <esc>[2mhip<esc>[0m       <esc>[2mabsent<esc>[0m    <esc>[2mleft out by the option backends (VRAM_BACKENDS) or the<esc>[0m
                        <esc>[2mprogram<esc>[0m
    <esc>[2mmetal<esc>[0m     <esc>[2mabsent<esc>[0m    <esc>[2mleft out by the option backends (VRAM_BACKENDS) or the<esc>[0m
                        <esc>[2mprogram<esc>[0m
    <esc>[2mvulkan<esc>[0m    <esc>[2mabsent<esc>[0m    <esc>[2mleft out by the option backends (VRAM_BACKENDS) or the<esc>[0m
                        <esc>[2mprogram<esc>[0m
    <esc>[2mopencl<esc>[0m    <esc>[2mabsent<esc>[0m    <esc>[2mleft out by the option backends (VRAM_BACKENDS) or the<esc>[0m
                        <esc>[2mprogram<esc>[0m
    <esc>[1msim<esc>[0m       <esc>[32mpresent<esc>[0m   1 device, version <version>
    <esc>[2mhost<esc>[0m      <esc>[2mabsent<esc>[0m    <esc>[2mleft out by the option backends (VRAM_BACKENDS) or the<esc>[0m
                        <esc>[2mprogram<esc>[0m

  <esc>[1mDevices (* is used when none is chosen)<esc>[0m
  <esc>[32m*<esc>[0m <esc>[36m0<esc>[0m   sim:0       <esc>[1mSimulated GPU<esc>[0m<esc>[2m  simulated sim<esc>[0m
        <esc>[2mmemory<esc>[0m      8.00 GiB  <esc>[2m....................<esc>[0m  8.00 GiB free
        <esc>[2mgranules<esc>[0m    alloc 4.00 KiB, vmm 2.00 MiB; largest allocation 8.00 GiB
        <esc>[2midentity<esc>[0m    uuid unknown, pci unknown
        <esc>[2mcan<esc>[0m         <esc>[32mvmm pinned managed memory_info adopt simulated alias<esc>[0m
        <esc>[2mcannot<esc>[0m      <esc>[2mpeers kernels true_address host_access handles integrated rdma<esc>[0m
$ sed 's/\x1b\[[0-9;]*m//g' colored >plain; grep -c "$(printf '\033')" colored plain
  colored:22
  plain:0

$ vram info --help --color=always
  Usage: vram info [OPTION]...
  Show backends, devices, memory and capabilities, and why a backend is absent.

  <esc>[1mOptions<esc>[0m
    -b, <esc>[36m--backend=NAME<esc>[0m      use only this backend, or several joined by commas
        <esc>[36m--options<esc>[0m           also list the options with their values and sources
        <esc>[36m--leases<esc>[0m            instead, list who holds memory under a lease, and who
                            gave what to whom
        <esc>[36m--shares<esc>[0m            instead, list the names under which memory is shared
    -j, <esc>[36m--json<esc>[0m              print one JSON document, sizes in bytes
        <esc>[36m--color=WHEN<esc>[0m        use colors: auto (the default), always or never
    -h, <esc>[36m--help<esc>[0m              print this help and exit

  <esc>[1mExamples<esc>[0m
    vram info                       <esc>[2m# everything, the best device marked *<esc>[0m
    vram info --backend cuda        <esc>[2m# one backend; exit code 1 if it has no device<esc>[0m
    vram info --json                <esc>[2m# for programs: schema vram.info/1<esc>[0m
    vram info --leases              <esc>[2m# who holds memory under a lease<esc>[0m
    vram info --shares              <esc>[2m# names of shared memory, and their owners<esc>[0m
    VRAM_SIM=devices=2,memory=80G vram info    <esc>[2m# with two simulated GPUs<esc>[0m

$ VRAM_CONF=backends=sim vram tour --color=always
  <esc>[1mA tour of libvram <version> on sim:0, Simulated GPU<esc>[0m<esc>[33m (simulated: times are those of a model)<esc>[0m

  <esc>[36m 1<esc>[0m  <esc>[1mopen<esc>[0m      Open the device and make two queues. Work on one queue runs in
                order.
                <esc>[32mdone<esc>[0m
  <esc>[36m 2<esc>[0m  <esc>[1mallocate<esc>[0m  Allocate two blocks of memory straight from the driver.
                <esc>[32mdone<esc>[0m<esc>[2m: 2 x 16.00 MiB<esc>[0m
  <esc>[36m 3<esc>[0m  <esc>[1mupload<esc>[0m    Send a pattern from host memory to the first block.
                <esc>[32mdone<esc>[0m
  <esc>[36m 4<esc>[0m  <esc>[1mcopy<esc>[0m      Copy it to the second block, on the device. The call returns at
                once; a point marks where the copy ends.
                <esc>[32mdone<esc>[0m
  <esc>[36m 5<esc>[0m  <esc>[1mdownload<esc>[0m  Tell the second queue to begin after that point, and read the copy
                back there. The device waits for the copy; the host waits only for
                the end.
                <esc>[32mdone<esc>[0m<esc>[2m: contents are equal<esc>[0m
  <esc>[36m 6<esc>[0m  <esc>[1mfill<esc>[0m      Fill the first block with one repeated number, and check it.
                <esc>[32mdone<esc>[0m<esc>[2m: contents are equal<esc>[0m
  <esc>[36m 7<esc>[0m  <esc>[1mmove<esc>[0m      Map physical memory at one address, write through it, map it at
                another, and read there: moved, not copied.
                <esc>[32mdone<esc>[0m<esc>[2m: contents are equal<esc>[0m
  <esc>[36m 8<esc>[0m  <esc>[1mpool<esc>[0m      Allocate blocks of seven sizes from a pool and free them. After
                the first rounds they come from the cache of this thread, without
                a driver call.
                <esc>[32mdone<esc>[0m<esc>[2m: 10000 blocks, <*> of them from that cache<esc>[0m
  <esc>[36m 9<esc>[0m  <esc>[1mlaunch<esc>[0m    Run a kernel that adds one to every number of the second block.
                <esc>[33mskipped<esc>[0m<esc>[2m: the device runs no kernels written in C<esc>[0m
  <esc>[36m10<esc>[0m  <esc>[1mrace<esc>[0m      Bring frames to the host in four ways: computed on the device,
                copied, summed up. All four run twice; the second run counts.
                <esc>[32mdone<esc>[0m<esc>[2m: 4 x 6 frames of 4.00 MiB<esc>[0m
  <esc>[36m11<esc>[0m  <esc>[1mfree<esc>[0m      Free everything.
                <esc>[32mdone<esc>[0m<esc>[2m: <*> driver calls in all<esc>[0m

  <esc>[32mnothing left: 0 bytes held<esc>[0m

# By the environment.
$ VRAM_CONF=backends=sim CLICOLOR_FORCE=1 vram info >now && cmp now colored
$ VRAM_CONF=backends=sim CLICOLOR_FORCE=1 NO_COLOR=1 vram info >now && cmp now plain
$ VRAM_CONF=backends=sim CLICOLOR_FORCE=0 vram info >now && cmp now plain

# JSON never has any.
$ VRAM_CONF=backends=sim vram info --json --color=always | head -n 2
  {
    "schema": "vram.info/1",
$ VRAM_CONF=backends=sim CLICOLOR_FORCE=1 vram info --color=never >now && cmp now plain
