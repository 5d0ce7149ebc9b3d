$ vram exporter --help
  Usage: vram exporter [OPTION]...
  Export the metrics of every process that uses libvram, for Prometheus.

  Options
    -l, --listen=ADDRESS:PORT
                            answer at this address, 127.0.0.1:9865 if not given;
                            port 0: any that is free
        --host=NAME         answer requests for this host name too, or with "*"
                            for any; may be repeated
    -f, --textfile=PATH     serve nothing; write this file for node_exporter, and
                            replace it at each interval
        --pages=DIR         read live pages in this folder alone, such as one of a
                            container's host
    -i, --interval=SECONDS  how often the file is written, 15 if not given
    -1, --once              write the metrics once, to the file or to standard
                            output, and end
    -j, --json              print one JSON document, sizes in bytes
        --color=WHEN        use colors: auto (the default), always or never
    -h, --help              print this help and exit

  Examples
    vram exporter                         # http://127.0.0.1:9865/metrics
    vram exporter --once | grep vram_pool_held_bytes
    vram exporter --listen 0.0.0.0:9865 --host gpu1.example.org
    vram exporter --textfile /var/lib/prometheus/node-exporter/vram.prom

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
