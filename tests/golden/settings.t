# A value that cannot be used: a warning, and the verb goes on without it.
$ VRAM_CONF=backends=sim vram info >plain
$ VRAM_CONF=backends=sim VRAM_WAIT_TIMEOUT=soon VRAM_FROBNICATE=1 vram info >now
! vram: warning: VRAM_WAIT_TIMEOUT: "soon" is not a duration; write a number with ns, us, ms, s or min, as in 500ms
! vram: warning: VRAM_FROBNICATE: unknown variable
! vram: programs refuse to start with these values; correct them, or set VRAM_STRICT=off
[2]
$ cmp now plain
$ VRAM_CONF=backends=sim vram info --options >options
$ VRAM_CONF=backends=sim,device_limit=lots,wait_timeout vram info --options >now
! vram: warning: VRAM_CONF: device_limit: "lots" is not a size; write bytes, or a unit as in 64K, 1.5GiB, 2 MB
! vram: warning: VRAM_CONF: wait_timeout has no value; write key=value
! vram: programs refuse to start with these values; correct them, or set VRAM_STRICT=off
[2]
$ diff options now
  218c218
  <   strict          on  (default, bool)
  ---
  >   strict          off  (api, bool)
  223a224,228
  > <>
  > Not usable
  >   VRAM_CONF: device_limit: "lots" is not a size; write bytes, or a unit as in
  >   64K, 1.5GiB, 2 MB
  >   VRAM_CONF: wait_timeout has no value; write key=value
[1]

$ VRAM_CONF=',=sim,wait_timeout,backends=host,backends=sim,pool_slack=2000000,move_share=-1,move_credit=5,log="never closed' vram info > /dev/null
! vram: warning: VRAM_CONF: unknown option ""; `vram info --options` lists them all
! vram: warning: VRAM_CONF: wait_timeout has no value; write key=value
! vram: warning: VRAM_CONF: backends is set twice; the last one counts
! vram: warning: VRAM_CONF: pool_slack: "2000000" is out of range; accepted: 0 to 1000000
! vram: warning: VRAM_CONF: move_share: "-1" is not a whole number
! vram: warning: VRAM_CONF: move_credit: "5" needs a unit: ns, us, ms, s or min, as in 500ms
! vram: warning: VRAM_CONF: log has a quote that is never closed
! vram: programs refuse to start with these values; correct them, or set VRAM_STRICT=off
[2]

$ VRAM_CONF=backends=a_name_with_more_than_32_characters vram info
! vram: cannot list the devices: unknown backend "a_name_with_more_than_32_charact"; there are cuda, hip, metal, vulkan, opencl, sim and host (VRAM_ERR_INVALID)
[2]
$ VRAM_CONF=backends=sim,frobnicate=1 vram info >now
! vram: warning: VRAM_CONF: unknown option "frobnicate"; a value with commas needs quotes, as in backends="a,b"
! vram: programs refuse to start with these values; correct them, or set VRAM_STRICT=off
[2]
$ cmp now plain
$ VRAM_CONF=backends=sim VRAM_LOG=loud vram info > /dev/null
! vram: warning: VRAM_LOG: "loud" is none of: off, error, warn, info, debug
! vram: programs refuse to start with these values; correct them, or set VRAM_STRICT=off
[2]
$ VRAM_CONF=backends=sim VRAM_SIM=devices=many vram info
! vram: cannot list the devices: simulation: devices=many; accepted is 0 to 64 (VRAM_ERR_INVALID)
[2]

$ VRAM_CONF=backends=sim VRAM_SIM=devices=0 vram info
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
    sim       absent    the simulation was told devices=0
    host      absent    left out by the option backends (VRAM_BACKENDS) or the
                        program

  No device was found.
[1]

$ VRAM_CONF=backends=sim VRAM_SIM=devices=0 vram tour
! vram: no device was found; `vram info` says why
[2]
$ VRAM_CONF=backends=sim VRAM_SIM=frobnicate=1 vram info
! vram: cannot list the devices: simulation: no key "frobnicate"; accepted are devices, memory, others, granule, profile, vmm, alias, real, seed, lag, lose, info, journal and fault (VRAM_ERR_INVALID)
[2]
