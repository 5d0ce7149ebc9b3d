/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_lease.c: memory that processes lend each other. Both holders are in this process, in two
 * contexts, of which the first is the suite's, and a thread of it is the broker: the library does
 * not tell one process from two. The leases share out a small part of the device, whatever else is
 * on it.
 */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATTERN = 0x61626364,
    SHARES = 64,  /* units that are shared out */
    UNITS = 4,    /* of a granule, */
    LEAST = 65536 /* but not less, in bytes */
};

/* One holder. */
struct holder {
    struct check_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_lease *lease;
    vram_addr addr;
};

/* Two holders of leases that together want more than there is. */
struct pair {
    struct holder first, second;
    uint64_t unit;       /* bytes; SHARES of them are shared out */
    uint64_t timeout_ns; /* for others to give: a guard, and where calls fail, what ends a wait */
    char dir[32];
};

static bool holder_make(struct check *check, vram_context *context, struct holder *holder) {
    CHECK_OPEN_OF(check, context, check->target->device, &holder->device);
    CHECK_QUEUE(check, holder->device, &holder->queue);
    holder->device->unledgered = true;
    CHECK_OK(check, vram_pool_create(holder->device->device, NULL, &holder->pool));
    return true;
}

static vram_lease_options options_of(const struct pair *pair, uint64_t min, uint64_t want) {
    return (vram_lease_options){.size = sizeof(vram_lease_options),
                                .min_bytes = min * pair->unit,
                                .want_bytes = want * pair->unit,
                                .capacity_bytes = SHARES * pair->unit,
                                .timeout_ns = pair->timeout_ns,
                                .dir = pair->dir};
}

static bool lease_open(struct check *check, const vram_lease_options *options,
                       struct holder *holder) {
    vram_status status = vram_lease_open(holder->device->device, options, &holder->lease);
    if (status == VRAM_ERR_IO && !check_driver_failed(check)) {
        return check_skip(check, "%s", vram_error_get()->text);
    }
    CHECK_OK(check, status);
    return true;
}

static bool pair_make(struct check *check, struct pair *pair) {
    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_TRY(check_needs_pools(check)); /* what is lent sleeps */
    *pair = (struct pair){.dir = "/tmp/vram-check-XXXXXX",
                          .timeout_ns = (check->target->faulty ? 1 : 30) * UINT64_C(1000000000)};
    if (mkdtemp(pair->dir) == NULL) {
        return check_skip(check, "no folder can be made in /tmp");
    }
    CHECK_OK(check, vram_option_set("broker", "thread"));
    vram_context *other;
    CHECK_CONTEXT(check, NULL, NULL, &other);
    CHECK_TRY(holder_make(check, check->context, &pair->first));
    CHECK_TRY(holder_make(check, other, &pair->second));
    uint64_t granule = pair->first.device->info.vmm_granule.value;
    pair->unit = granule / UNITS > LEAST ? granule / UNITS : LEAST;
    return true;
}

/* Whatever a case came to, its leases and its folder go. */
static void pair_drop(struct pair *pair) {
    static const char *const names[] = {"%s/vram-%u.lock", "%s/vram-b-%u"};
    char path[80];
    (void)vram_lease_close(pair->first.lease);
    (void)vram_lease_close(pair->second.lease);
    for (int i = 0; i < 2 && pair->dir[0] != 0; i++) {
        snprintf(path, sizeof path, names[i], pair->dir, (unsigned)geteuid());
        (void)unlink(path);
    }
    (void)rmdir(pair->dir);
}
#define PAIR(name) __attribute__((cleanup(pair_drop))) struct pair name = {.unit = 0}

/* An orderly end leaves nothing but the lock. */
static bool pair_end(struct check *check, struct pair *pair) {
    vram_lease *first = pair->first.lease, *second = pair->second.lease;
    pair->first.lease = pair->second.lease = NULL;
    CHECK_OK(check, vram_lease_close(first));
    CHECK_OK(check, vram_lease_close(second));
    uint32_t none = 0;
    CHECK_STATUS(check, vram_lease_list(pair->dir, NULL, &none, NULL, NULL), VRAM_ERR_STALE);
    return true;
}

static bool block_make(struct check *check, struct holder *holder, uint64_t bytes,
                       uint32_t pattern) {
    CHECK_OK(check, vram_alloc(holder->pool, bytes, holder->queue, &holder->addr));
    uint64_t filled = check->target->faulty ? LEAST : bytes / 4 * 4; /* there it is made often */
    CHECK_OK(check, vram_queue_fill(holder->queue, holder->addr, pattern, 4, filled));
    CHECK_WAIT(check, holder->queue);
    return true;
}

static bool granted(struct check *check, const struct holder *holder, uint64_t *bytes) {
    vram_lease_info info = {.size = sizeof info};
    CHECK_OK(check, vram_lease_info_get(holder->lease, &info));
    *bytes = info.granted_bytes;
    return true;
}

/* -------------------------------------------------------------------- cases */

/* A grant bounds what is held, and what the other does not use is had at once. Where calls fail,
   here and below: a holder whose connection failed keeps its memory, but has no grant until it is
   back, which the broker notes. */
static bool grants(struct check *check) {
    PAIR(pair);
    uint64_t first, second;
    CHECK_TRY(pair_make(check, &pair));
    vram_lease_options options = options_of(&pair, 4, 40);
    CHECK_TRY(lease_open(check, &options, &pair.first));
    CHECK_TRY(lease_open(check, &options, &pair.second));
    CHECK_TRY(granted(check, &pair.first, &first));
    CHECK_TRY(granted(check, &pair.second, &second));
    CHECK_EQUAL(check, first, 40 * pair.unit);
    CHECK_EQUAL(check, second, 24 * pair.unit);
    CHECK_TRY(block_make(check, &pair.second, 30 * pair.unit, PATTERN));
    CHECK_TRY(granted(check, &pair.first, &first));
    CHECK_TRY(granted(check, &pair.second, &second));
    CHECK_EQUAL(check, first + second <= SHARES * pair.unit || check->target->faulty, true);
    CHECK_EQUAL(check, second >= 30 * pair.unit, true);
    return pair_end(check, &pair);
}

/* The holder sleeps from its lease's thread, and its contents are back when it wakes. */
static bool at_once(struct check *check) {
    PAIR(pair);
    vram_pool_stats stats = {.size = sizeof stats};
    CHECK_TRY(pair_make(check, &pair));
    bool integrated = pair.first.device->info.caps & VRAM_CAP_INTEGRATED;
    vram_sleep_options keep = {.size = sizeof keep,
                               .contents = integrated ? VRAM_SLEEP_DROP : VRAM_SLEEP_HOST};
    vram_lease_options options = options_of(&pair, 0, SHARES);
    options.flags = VRAM_LEASE_AT_ONCE;
    CHECK_TRY(lease_open(check, &options, &pair.first));
    CHECK_OK(check, vram_lease_pool_add(pair.first.lease, pair.first.pool, &keep));
    CHECK_TRY(block_make(check, &pair.first, 48 * pair.unit, PATTERN));
    CHECK_TRY(lease_open(check, &options, &pair.second));
    CHECK_TRY(block_make(check, &pair.second, 40 * pair.unit, ~(uint32_t)PATTERN));
    CHECK_OK(check, vram_pool_stats_get(pair.first.pool, &stats));
    bool asleep = stats.asleep_bytes >= 48 * pair.unit;
    CHECK_OK(check, vram_free(pair.second.addr, pair.second.queue));
    if (!asleep && check->target->faulty) {
        return pair_end(check, &pair); /* it may be about to sleep */
    }
    CHECK_EQUAL(check, asleep, true);
    CHECK_OK(check, vram_pool_wake(pair.first.pool, NULL));
    void *memory;
    CHECK_TRY(check_host(check, pair.unit, &memory));
    CHECK_OK(check, vram_queue_download(pair.first.queue, memory, pair.first.addr, pair.unit));
    CHECK_WAIT(check, pair.first.queue);
    for (uint64_t i = 0; i < LEAST / 4 && !integrated; i++) {
        CHECK_EQUAL(check, ((const uint32_t *)memory)[i], PATTERN);
    }
    return pair_end(check, &pair);
}

/* Who does not give is named in the report, with the reason, and loses nothing. */
static bool refusal(struct check *check) {
    PAIR(pair);
    vram_oom_report report = {.size = sizeof report};
    vram_addr addr;
    uint64_t given = 1;
    CHECK_TRY(pair_make(check, &pair));
    vram_lease_options options = options_of(&pair, 48, 48);
    options.name = "holder";
    CHECK_TRY(lease_open(check, &options, &pair.first));
    CHECK_OK(check, vram_lease_pool_add(pair.first.lease, pair.first.pool, NULL));
    CHECK_TRY(block_make(check, &pair.first, 32 * pair.unit, PATTERN));
    options = options_of(&pair, 0, SHARES);
    CHECK_TRY(lease_open(check, &options, &pair.second));
    CHECK_STATUS(check, vram_alloc(pair.second.pool, 30 * pair.unit, pair.second.queue, &addr),
                 VRAM_ERR_LIMIT);
    CHECK_OK(check, vram_oom_report_get(pair.second.pool, &report));
    if (check->target->faulty && report.lender_count == 0) {
        return pair_end(check, &pair); /* there was no broker to name them */
    }
    CHECK_EQUAL(check, report.cause, VRAM_OOM_LEASE);
    CHECK_EQUAL(check, report.lender_count, 1);
    CHECK_EQUAL(check, strcmp(report.lenders[0].name, "holder") == 0, true);
    CHECK_EQUAL(check, report.lenders[0].why, VRAM_LEASE_MINIMUM);
    CHECK_OK(check, vram_lease_point(pair.first.lease, &given));
    CHECK_EQUAL(check, given, 0);
    return pair_end(check, &pair);
}

/* The broker tells about both, and about what happened. */
static bool lists(struct check *check) {
    PAIR(pair);
    vram_lease_entry entries[4];
    vram_lease_record records[16];
    uint32_t entry_count = 4, record_count = 16;
    CHECK_TRY(pair_make(check, &pair));
    CHECK_STATUS(check, vram_lease_list(pair.dir, entries, &entry_count, NULL, NULL),
                 VRAM_ERR_STALE);
    vram_lease_options options = options_of(&pair, 1, 32);
    CHECK_TRY(lease_open(check, &options, &pair.first));
    CHECK_TRY(lease_open(check, &options, &pair.second));
    CHECK_OK(check, vram_lease_list(pair.dir, entries, &entry_count, records, &record_count));
    CHECK_EQUAL(check, entry_count, 2);
    CHECK_EQUAL(check, entries[0].capacity_bytes, SHARES * pair.unit);
    if (record_count == 2 || !check->target->faulty) {
        CHECK_EQUAL(check, record_count, 2);
        CHECK_EQUAL(check, records[1].happening, VRAM_LEASE_LOG_OPENED);
    }
    return pair_end(check, &pair);
}

static bool inputs(struct check *check) {
    PAIR(pair);
    vram_lease *lease = NULL;
    CHECK_TRY(pair_make(check, &pair));
    vram_device *device = pair.first.device->device;
    vram_lease_options options = options_of(&pair, 0, 0);
    CHECK_STATUS(check, vram_lease_open(device, &options, &lease), VRAM_ERR_INVALID);
    options = options_of(&pair, 2, 1);
    CHECK_STATUS(check, vram_lease_open(device, &options, &lease), VRAM_ERR_INVALID);
    if (pair.first.device->info.memory_bytes.known) {
        options.min_bytes = 0;
        options.want_bytes = pair.first.device->info.memory_bytes.value + 1;
        CHECK_STATUS(check, vram_lease_open(device, &options, &lease), VRAM_ERR_LIMIT);
    }
    options = options_of(&pair, SHARES + 1, SHARES + 1);
    CHECK_STATUS(check, vram_lease_open(device, &options, &lease), VRAM_ERR_LIMIT);
    options = options_of(&pair, 0, SHARES);
    CHECK_TRY(lease_open(check, &options, &pair.first));
    CHECK_STATUS(check, vram_lease_open(device, &options, &lease), VRAM_ERR_BUSY);
    CHECK_STATUS(check, vram_lease_pool_add(pair.first.lease, pair.second.pool, NULL),
                 VRAM_ERR_INVALID);
    return pair_end(check, &pair);
}

/* --------------------------------------------------------- handles that are none */

static bool refuses(struct check *check, void *bad) {
    vram_lease *lease = bad;
    vram_lease_info info = {.size = sizeof info};
    vram_lease_options options = {.size = sizeof options, .want_bytes = 1};
    uint64_t given = 77;
    CHECK_REFUSED(check, vram_lease_point(lease, &given));
    CHECK_REFUSED(check, vram_lease_info_get(lease, &info));
    CHECK_REFUSED(check, vram_lease_pool_add(lease, NULL, NULL));
    CHECK_REFUSED(check, vram_lease_open(bad, &options, &lease));
    CHECK_EQUAL(check, vram_lease_close(bad) == VRAM_OK, bad == NULL);
    CHECK_EQUAL(check, given, 77);
    return true;
}

static bool handles(struct check *check) {
    PAIR(pair);
    CHECK_TRY(refuses(check, NULL));
    CHECK_TRY(refuses(check, (void *)(uintptr_t)CHECK_CANARY));
    CHECK_TRY(refuses(check, check));
    CHECK_TRY(pair_make(check, &pair));
    CHECK_TRY(refuses(check, pair.first.queue));
    vram_lease_options options = options_of(&pair, 0, 8);
    CHECK_TRY(lease_open(check, &options, &pair.first));
    CHECK_TRY(lease_open(check, &options, &pair.second));
    CHECK_REFUSED(check, vram_lease_pool_add(pair.first.lease, NULL, NULL));
    vram_lease *lease = pair.second.lease;
    pair.second.lease = NULL;
    CHECK_OK(check, vram_lease_close(lease));
    CHECK_TRY(refuses(check, lease));
    return pair_end(check, &pair);
}

const struct check_case check_cases_lease[] = {
    {"lease.grants", "a grant bounds what is held; what nobody uses is had at once", grants},
    {"lease.at_once", "a holder sleeps when another needs memory, and wakes with its contents",
     at_once},
    {"lease.refusal", "who does not give is named, with the reason", refusal},
    {"lease.lists", "the broker tells who has what, and what happened", lists},
    {"lease.inputs", "leases of nothing, of too much and twice are refused", inputs},
    {"lease.handles", "handles that are none are refused", handles},
    {NULL, NULL, NULL},
};
