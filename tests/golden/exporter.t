# What is not a plain file is never replaced.
$ export VRAM_LIVE=off
> mkfifo pipe.prom; ln -s /dev/null link.prom; for to in pipe.prom link.prom .; do vram exporter --once --textfile $to; echo $?; done; vram bench alloc -b host --seconds 0.05 --save pipe.prom > /dev/null; echo $?; ls -F
  2
  2
  2
  2
  link.prom@
  pipe.prom|
! vram: cannot write pipe.prom: it is not a plain file; name one that may be replaced
! vram: cannot write link.prom: it is not a plain file; name one that may be replaced
! vram: warning: node_exporter reads only files whose names end in .prom
! vram: cannot write .: it is not a plain file; name one that may be replaced
! vram: cannot write pipe.prom: it is not a plain file; name one that may be replaced
