#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""remote.py BENCH [ROUNDS [TRANSPORT]]: put bandwidth of libvram-ucx beside that of ucx_perftest, on tcp and sm.

BENCH is remote_bench (cmake --build build --target bench_remote). Rounds alternate between the two, so that both see
the same machine. Prints the medians, the spread (lowest and highest) and the ratio of the medians. ucx_perftest comes
with Debian's ucx-utils. It spins on both sides; with fewer than two free processors its figures suffer more than ours.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [1 << 20, 4 << 20, 16 << 20]
BYTES = {"tcp": 128 << 20, "sm": 1 << 30}  # of each measurement


def theirs(transport, size, port, count):
    """MB/s (10^6) of ucx_perftest."""
    environment = dict(os.environ, UCX_TLS=transport, UCX_NET_DEVICES="lo" if transport == "tcp" else "all",
                       UCX_LOG_LEVEL="error")
    server = subprocess.Popen(["ucx_perftest", "-p", str(port)], env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(50):
            time.sleep(0.1)
            result = subprocess.run(
                ["ucx_perftest", "127.0.0.1", "-p", str(port), "-t", "ucp_put_bw", "-s", str(size), "-n", str(count),
                 "-w", "8", "-f"], env=environment, capture_output=True, text=True, timeout=300, check=False)
            if result.returncode == 0:
                break
        line = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == [str(count)]][-1]
        return float(line[5]) * (1 << 20) / 1e6  # overall bandwidth, in MiB/s
    finally:
        server.kill()
        server.wait()


def ours(bench, transport, size, count, mode="put"):
    """MB/s (10^6) of remote_bench."""
    transport = {"tcp": "tcp", "sm": "tcp,sm"}[transport]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "place")
        server = subprocess.Popen([bench, "serve", file, transport, str(size)], stdin=subprocess.PIPE)
        try:
            while not os.path.exists(file):
                if server.poll() is not None:
                    sys.exit("remote.py: the server ended")
                time.sleep(0.01)
            result = subprocess.run([bench, mode, file, transport, str(size), str(count)], stdout=subprocess.PIPE,
                                    text=True, timeout=300, check=True)
            return float(result.stdout)
        finally:
            server.stdin.close()
            server.wait()


def spread(values):
    return f"{statistics.median(values):9.0f} ({min(values):.0f} to {max(values):.0f})"


def main():
    bench = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    port = 20000 + os.getpid() % 20000
    print(f"put, MB/s, median (lowest to highest) of {rounds} rounds")
    for transport in sys.argv[3:4] or ("tcp", "sm"):
        for size in SIZES:
            count = BYTES[transport] // size
            figures = {"ucx_perftest": [], "libvram-ucx": []}
            for _ in range(rounds):
                port += 1
                figures["ucx_perftest"].append(theirs(transport, size, port, count))
                figures["libvram-ucx"].append(ours(bench, transport, size, count))
            ratio = statistics.median(figures["libvram-ucx"]) / statistics.median(figures["ucx_perftest"])
            print(f"{transport:4} {size >> 20:3} MiB  " +
                  "  ".join(f"{name} {spread(values)}" for name, values in figures.items()) + f"  ratio {ratio:.2f}",
                  flush=True)


if __name__ == "__main__":
    main()
