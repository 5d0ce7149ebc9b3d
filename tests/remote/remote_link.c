/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_link: two processes that copy to and from each other over a bad network. link_test.py runs
 * both, one in each network namespace, and spoils the network between them.
 *
 *   remote_link own INTERFACE       writes where it is to standard output, serves until its
 *                                   standard input ends
 *   remote_link ask INTERFACE PLACE SECONDS SEED
 *
 * The owner has a region of PARTS blocks. Each holds a version: words that follow from the part's
 * number and a version number alone. The asker puts new versions, gets parts back, and reconnects
 * after a failure. It checks that
 *
 *   - every handle is settled by its deadline, with some slack for a busy machine
 *   - a part whose last put succeeded has exactly that version: nothing torn, nothing older written
 *     over it, nothing twice
 *   - a get that fails writes nothing after its handle is in error
 *
 * The last line says how many transfers succeeded and how many failed. Exit code 1: a check failed.
 */
#include <vram/remote.h>
#include <vram/vram.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 6, BYTES = 768 << 10, WORDS = BYTES / 4 };

#define MILLISECOND UINT64_C(1000000)
#define DEADLINE    (400 * MILLISECOND)
#define SLACK       (1500 * MILLISECOND)

static vram_context *context;
static vram_queue *queue;
static vram_pool *pool;
static vram_remote *remote;

static void check(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fprintf(stderr, "remote_link: %s: %s: %s\n", what, vram_status_name(status),
                vram_error_get()->text);
        exit(1);
    }
}

static void fail(const char *what, uint64_t a, uint64_t b) {
    fprintf(stderr, "remote_link: %s (%llu, %llu)\n", what, (unsigned long long)a,
            (unsigned long long)b);
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint32_t word_of(uint32_t part, uint32_t version, uint32_t at) {
    return (version * 2654435761u + part * 40503u) ^ (at * 2246822519u);
}

static void version_write(uint32_t *words, uint32_t part, uint32_t version) {
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = word_of(part, version, i);
    }
}

/* Index of the first word that is not the version's; WORDS: none. */
static uint32_t version_differs(const uint32_t *words, uint32_t part, uint32_t version) {
    uint32_t i = 0;
    while (i < WORDS && words[i] == word_of(part, version, i)) {
        i++;
    }
    return i;
}

static uint32_t *block_of(vram_addr *addr) {
    check(vram_alloc(pool, BYTES, queue, addr), "vram_alloc");
    return (uint32_t *)(uintptr_t)*addr;
}

static void open_all(const char *interface) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_remote_options network = {.size = sizeof network,
                                   .transports = "tcp",
                                   .interfaces = interface,
                                   .timeout_ns = 2000 * MILLISECOND,
                                   .chunk_bytes = 128 << 10};
    vram_device *device;
    check(vram_context_create(&options, &context), "vram_context_create");
    check(vram_device_open(context, 0, &device), "vram_device_open");
    check(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    check(vram_pool_create(device, NULL, &pool), "vram_pool_create");
    check(vram_remote_open(device, &network, &remote), "vram_remote_open");
}

/* ----------------------------------------------------------------- the owner */

static void hex_print(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        printf("%02x", ((const uint8_t *)bytes)[i]);
    }
}

static void own(void) {
    static uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
    size_t bytes = sizeof address;
    vram_addr blocks[PARTS];
    vram_remote_region *regions[2];
    for (uint32_t i = 0; i < PARTS; i++) {
        version_write(block_of(&blocks[i]), i, 0);
    }
    check(vram_remote_address_get(remote, address, &bytes), "vram_remote_address_get");
    for (uint32_t i = 0; i < 2; i++) { /* half of the parts by direct access, half served */
        vram_remote_region_options options = {.size = sizeof options,
                                              .flags = i ? VRAM_REMOTE_CHECKED : 0};
        vram_remote_token token;
        check(vram_remote_region_open(remote, blocks + i * PARTS / 2, PARTS / 2, &options,
                                      &regions[i]),
              "vram_remote_region_open");
        check(vram_remote_token_get(regions[i], &token), "vram_remote_token_get");
        hex_print(&token, sizeof token);
    }
    hex_print(address, bytes);
    printf("\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    check(vram_remote_close(remote), "vram_remote_close");
}

/* ----------------------------------------------------------------- the asker */

struct asker {
    vram_remote_token tokens[2];
    uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
    size_t bytes;
    vram_remote_peer *peer; /* NULL: not connected */
    vram_addr addr;
    uint32_t *words;
    uint32_t version[PARTS], next;
    bool known[PARTS]; /* the last put of the part succeeded */
    uint64_t good, failed, connections, slowest;
};

static void place_read(struct asker *asker, const char *hex) {
    uint8_t bytes[sizeof asker->tokens + VRAM_REMOTE_ADDRESS_MAX];
    size_t count = 0;
    unsigned byte;
    for (; count < sizeof bytes && sscanf(hex + 2 * count, "%2x", &byte) == 1; count++) {
        bytes[count] = (uint8_t)byte;
    }
    memcpy(asker->tokens, bytes, sizeof asker->tokens);
    asker->bytes = count - sizeof asker->tokens;
    memcpy(asker->address, bytes + sizeof asker->tokens, asker->bytes);
}

static bool asker_connect(struct asker *asker) {
    uint64_t start = now();
    if (!asker->peer && vram_remote_peer_open(remote, asker->address, asker->bytes, DEADLINE,
                                              &asker->peer) == VRAM_OK) {
        asker->connections++;
    }
    if (now() - start > DEADLINE + SLACK) {
        fail("a connection came after its deadline", now() - start, DEADLINE);
    }
    return asker->peer;
}

/* One put or get; false: it failed, and the connection may have. */
static bool asker_copy(struct asker *asker, uint32_t part, bool put) {
    vram_remote_copy copy = {.part = part % (PARTS / 2), .addr = asker->addr, .bytes = BYTES};
    vram_remote_transfer options = {.size = sizeof options, .timeout_ns = DEADLINE};
    const vram_remote_token *token = &asker->tokens[part / (PARTS / 2)];
    vram_async async;
    uint64_t start = now();
    vram_status status = put ? vram_remote_put(asker->peer, token, &copy, 1, &options, &async)
                             : vram_remote_get(asker->peer, token, &copy, 1, &options, &async);
    check(status, "a transfer was not accepted");
    status = vram_async_wait(&async, VRAM_TIMEOUT_INFINITE);
    uint64_t took = now() - start;
    check(vram_async_end(&async), "vram_async_end");
    asker->slowest = took > asker->slowest ? took : asker->slowest;
    if (took > DEADLINE + SLACK) {
        fail("a transfer ended after its deadline", took, DEADLINE);
    }
    if (status != VRAM_OK && status != VRAM_ERR_TIMEOUT && status != VRAM_ERR_IO) {
        fail("a transfer failed with an unexpected status", (uint64_t)-status, part);
    }
    *(status == VRAM_OK ? &asker->good : &asker->failed) += 1;
    return status == VRAM_OK;
}

static void asker_put(struct asker *asker, uint32_t part) {
    uint32_t version = ++asker->next;
    version_write(asker->words, part, version);
    asker->known[part] = asker_copy(asker, part, true);
    asker->version[part] = version;
}

static void asker_get(struct asker *asker, uint32_t part) {
    memset(asker->words, 0, BYTES);
    if (asker_copy(asker, part, false)) {
        uint32_t at = version_differs(asker->words, part, asker->version[part]);
        if (asker->known[part] && at < WORDS) {
            fail("a part is torn, or an old version", part, at);
        }
    } else { /* nothing is written any more */
        memset(asker->words, 0x5a, BYTES);
        usleep(20000);
        for (uint32_t i = 0; i < WORDS; i++) {
            if (asker->words[i] != 0x5a5a5a5au) {
                fail("memory was written after the handle was in error", part, i);
            }
        }
    }
}

static void ask(const char *place, double seconds, unsigned seed) {
    struct asker asker = {0};
    place_read(&asker, place);
    asker.words = block_of(&asker.addr);
    for (uint32_t i = 0; i < PARTS; i++) {
        asker.known[i] = true; /* version 0 */
    }
    uint64_t end = now() + (uint64_t)(seconds * 1e9);
    while (now() < end) {
        uint64_t failed = asker.failed;
        if (!asker_connect(&asker)) {
            usleep(10000);
            continue;
        }
        uint32_t part = (uint32_t)rand_r(&seed) % PARTS;
        if (rand_r(&seed) % 2) {
            asker_put(&asker, part);
        } else {
            asker_get(&asker, part);
        }
        if (asker.failed != failed) {
            check(vram_remote_peer_close(asker.peer), "vram_remote_peer_close");
            asker.peer = NULL;
        }
    }
    printf("good %llu failed %llu connections %llu slowest_ms %llu\n",
           (unsigned long long)asker.good, (unsigned long long)asker.failed,
           (unsigned long long)asker.connections,
           (unsigned long long)(asker.slowest / MILLISECOND));
    check(vram_remote_close(remote), "vram_remote_close");
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "own") == 0) {
        open_all(argv[2]);
        own();
    } else if (argc == 6 && strcmp(argv[1], "ask") == 0) {
        open_all(argv[2]);
        ask(argv[3], atof(argv[4]), (unsigned)atoi(argv[5]));
    } else {
        fprintf(stderr, "usage: remote_link own INTERFACE | ask INTERFACE PLACE SECONDS SEED\n");
        return 2;
    }
    check(vram_context_destroy(context), "vram_context_destroy");
    return 0;
}
