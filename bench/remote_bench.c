/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_bench: the bandwidth of vram_remote_put and vram_remote_get between two processes.
 *
 *   remote_bench serve FILE TRANSPORT BYTES           writes where it is to FILE, serves until its
 *                                                     standard input ends
 *   remote_bench put FILE TRANSPORT BYTES COUNT       COUNT puts of BYTES; prints MB/s (10^6)
 *   remote_bench get FILE TRANSPORT BYTES COUNT
 *   remote_bench staged FILE TRANSPORT BYTES COUNT    as put, through slots on the sending side
 *
 * TRANSPORT is tcp, or tcp,sm for shared memory. bench/remote.py runs it beside ucx_perftest.
 */
#include <vram/remote.h>
#include <vram/vram.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OUTSTANDING = 8, WARM_UP = 8 };

static void check(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "remote_bench: %s: %s\n", vram_status_name(status), vram_error_get()->text);
        exit(1);
    }
}

/* Where a server is. */
struct place {
    vram_remote_token token;
    size_t bytes;
    uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
};

static vram_device *device;
static vram_queue *queue;
static vram_remote *remote;

static void open_all(const char *transport, uint32_t flags) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_remote_options network = {
        .size = sizeof network, .flags = flags, .transports = transport, .interfaces = "lo"};
    vram_context *context;
    check(vram_context_create(&options, &context));
    check(vram_device_open(context, 0, &device));
    check(vram_queue_create(device, NULL, &queue));
    check(vram_remote_open(device, &network, &remote));
}

/* A block of the remote's shared memory, if it has any. */
static vram_addr block_of(uint64_t bytes, bool shared) {
    vram_provider provider = {.size = sizeof provider};
    vram_pool_options options = {.size = sizeof options};
    vram_pool *pool;
    vram_addr addr;
    if (shared) {
        check(vram_remote_provider_get(remote, &provider));
        options.provider = &provider;
    }
    check(vram_pool_create(device, &options, &pool));
    check(vram_alloc(pool, bytes, queue, &addr));
    memset((void *)(uintptr_t)addr, 1, bytes);
    return addr;
}

static void serve(const char *file, const char *transport, uint64_t bytes) {
    struct place place = {.bytes = sizeof place.address};
    vram_remote_region *region;
    char name[4096];
    open_all(transport, 0);
    vram_addr block = block_of(bytes, strcmp(transport, "tcp") != 0);
    check(vram_remote_region_open(remote, &block, 1, NULL, &region));
    check(vram_remote_token_get(region, &place.token));
    check(vram_remote_address_get(remote, place.address, &place.bytes));
    snprintf(name, sizeof name, "%s.new", file);
    FILE *out = fopen(name, "wb");
    if (!out || fwrite(&place, sizeof place, 1, out) != 1 || fclose(out) || rename(name, file)) {
        perror(file);
        exit(1);
    }
    while (getchar() != EOF) {
    }
    check(vram_remote_close(remote));
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* `count` transfers, some of them under way at once. */
static void transfers(vram_remote_peer *peer, const struct place *place, vram_addr block,
                      uint64_t bytes, uint64_t count, bool put) {
    vram_async asyncs[OUTSTANDING] = {0};
    vram_remote_copy copy = {.addr = block, .bytes = bytes};
    for (uint64_t i = 0; i < count + OUTSTANDING; i++) {
        vram_async *async = &asyncs[i % OUTSTANDING];
        check(vram_async_wait(async, VRAM_TIMEOUT_DEFAULT));
        check(vram_async_end(async));
        if (i < count) {
            check(put ? vram_remote_put(peer, &place->token, &copy, 1, NULL, async)
                      : vram_remote_get(peer, &place->token, &copy, 1, NULL, async));
        }
    }
}

static void measure(const char *mode, const char *file, const char *transport, uint64_t bytes,
                    uint64_t count) {
    struct place place;
    vram_remote_peer *peer;
    bool put = strcmp(mode, "get") != 0;
    FILE *in = fopen(file, "rb");
    if (!in || fread(&place, sizeof place, 1, in) != 1) {
        perror(file);
        exit(1);
    }
    fclose(in);
    open_all(transport, strcmp(mode, "staged") == 0 ? VRAM_REMOTE_STAGED : 0);
    vram_addr block = block_of(bytes, false);
    check(vram_remote_peer_open(remote, place.address, place.bytes, 0, &peer));
    transfers(peer, &place, block, bytes, WARM_UP, put);
    double start = seconds();
    transfers(peer, &place, block, bytes, count, put);
    double time = seconds() - start;
    printf("%.2f\n", (double)bytes * (double)count / time / 1e6);
    check(vram_remote_close(remote));
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "serve") == 0) {
        serve(argv[2], argv[3], strtoull(argv[4], NULL, 10));
    } else if (argc == 6) {
        measure(argv[1], argv[2], argv[3], strtoull(argv[4], NULL, 10),
                strtoull(argv[5], NULL, 10));
    } else {
        fprintf(stderr, "usage: remote_bench serve|put|get|staged FILE TRANSPORT BYTES [COUNT]\n");
        return 2;
    }
    return 0;
}
