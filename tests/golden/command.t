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
$ vram info --json=yes
! vram: --json takes no argument
[2]
$ vram
! vram: a verb is missing; `vram --help` lists them, `vram info` is a good first one
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
$ vram devices; vram benchmark; vram version
! vram: unknown verb "devices"; did you mean "info"?
! vram: unknown verb "benchmark"; did you mean "bench"?
! vram: unknown verb "version"; did you mean "--version"?
[2]
$ vram --version
  vram <version>
$ vram -V
  vram <version>
