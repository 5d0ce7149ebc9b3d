$ VRAM_CUDA_LIBRARY=/nonexistent vram tour --backend cuda
! vram: backend cuda is absent: /nonexistent: cannot open shared object file: No such file or directory; the option cuda_library (VRAM_CUDA_LIBRARY) asks for it
[2]

$ VRAM_CUDA_LIBRARY=/nonexistent vram info --backend cuda
  libvram <version>

  Backends
    cuda      absent    /nonexistent: cannot open shared object file: No such file
                        or directory; the option cuda_library (VRAM_CUDA_LIBRARY)
                        asks for it

  No device was found.
[1]

$ vram tour --backend metal
! vram: backend metal is absent: Metal was not found: it is a part of macOS, and nowhere else
[2]
$ vram tour --backend sim,,host
! vram: cannot start: unknown backend ""; there are cuda, hip, metal, vulkan, opencl, sim and host (VRAM_ERR_INVALID)
[2]
$ vram info --backend cdua
! vram: cannot list the devices: unknown backend "cdua"; there are cuda, hip, metal, vulkan, opencl, sim and host (VRAM_ERR_INVALID)
[2]
$ vram --json info
! vram: unknown flag --json before the verb; `vram --help` shows the order
[2]
$ vram --versoin
! vram: unknown flag --versoin; did you mean --version?
[2]
$ vram --frobnicate
! vram: unknown flag --frobnicate before the verb; `vram --help` shows the order
[2]
$ VRAM_CONF=backends=sim vram tour --device 7
! vram: there is no device 7; `vram info` lists 1 device
[2]
$ VRAM_CONF=backends=sim vram tour -d 0x0
! vram: --device=0x0: not a whole number from 0 to 4294967295
[2]
$ VRAM_CONF=backends=sim vram tour --device=-1
! vram: --device=-1: not a whole number from 0 to 4294967295
[2]
$ VRAM_CONF=backends=sim vram tour --device=first
! vram: --device=first: not a whole number from 0 to 4294967295
[2]
$ VRAM_CONF=backends=sim vram tour -d 18446744073709551616
! vram: --device=18446744073709551616: not a whole number from 0 to 4294967295
[2]
$ VRAM_CONF=backends=sim vram tour --device=
! vram: --device=: not a whole number from 0 to 4294967295
[2]
$ vram tour --backend
! vram: --backend needs an argument: --backend=NAME
[2]
$ vram tour -d
! vram: --device needs an argument: --device=N
[2]
$ vram info --json=yes
! vram: --json takes no argument
[2]
$ vram info --color
! vram: --color needs an argument: --color=WHEN
[2]
$ vram info --color=sometimes
! vram: --color=sometimes: not one of auto, always, never
[2]
$ vram info -q
! vram: unknown flag -q; `vram info --help` lists them
[2]
$ vram info --bakend=sim
! vram: unknown flag --bakend; did you mean --backend?
[2]
$ vram info --back sim
! vram: unknown flag --back; did you mean --backend?
[2]
$ vram info --frobnicate
! vram: unknown flag --frobnicate; `vram info --help` lists them
[2]
$ vram
! vram: a verb is missing; `vram --help` lists them, `vram info` is a good first one
[2]
$ vram info -- --json
! vram: `vram info` takes no argument "--json"
[2]
$ vram info everything
! vram: `vram info` takes no argument "everything"
[2]

# What comes from outside is cleaned.
$ vram "$(printf 'a\033[31mb\nc')"
! vram: unknown verb "a?[31mb?c"; `vram --help` lists them
[2]
$ vram ''
! vram: unknown verb ""; `vram --help` lists them
[2]
$ vram "$(printf %4000d 1)"
! vram: unknown verb "<*>
[2]
$ vram ifno
! vram: unknown verb "ifno"; did you mean "info"?
[2]
$ vram devices; vram benchmark; vram version
! vram: unknown verb "devices"; did you mean "info"?
! vram: unknown verb "benchmark"; did you mean "bench"?
! vram: unknown verb "version"; did you mean "--version"?
[2]
$ vram comp
! vram: unknown verb "comp"; did you mean "completion"?
[2]
$ vram frobnicate
! vram: unknown verb "frobnicate"; `vram --help` lists them
[2]
$ vram --version
  vram <version>
$ vram -V
  vram <version>
