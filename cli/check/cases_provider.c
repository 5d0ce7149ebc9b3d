/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_provider.c: pools on memory of the program's own. The provider here makes up addresses that
 * no device has, or passes the device's own memory on, and remembers everything it gave.
 */
#include "case.h"

#include <string.h>

#define NO_PLACE UINT64_C(0x7A00000000000000) /* made-up addresses begin here */
#define MIB      (UINT64_C(1) << 20)
#define GRANULE  UINT64_C(65536) /* of made-up memory */

enum { GIVEN_MAX = 64 };

/* What the provider has given, and how it is to behave. */
struct source {
    vram_device *device; /* NULL: made-up addresses */
    vram_addr next;
    uint64_t granule;
    uint64_t left_bytes; /* it gives no more than this */
    vram_addr lie;       /* answered in the place of an address, unless 0 */
    int nonsense;        /* answered in the place of a status, unless 0 */
    bool stubborn;       /* takes nothing back */
    uint32_t count;
    struct {
        vram_addr addr;
        uint64_t bytes;
    } given[GIVEN_MAX];
    bool confused; /* it was handed what it never gave, or a size that is no multiple */
};

static vram_status give(void *user, uint64_t bytes, vram_addr *addr) {
    struct source *source = user;
    if (bytes == 0 || bytes % source->granule != 0 || source->count == GIVEN_MAX) {
        source->confused = true;
        return VRAM_ERR_INVALID;
    }
    if (bytes > source->left_bytes) {
        return VRAM_ERR_LIMIT;
    }
    if (source->nonsense != 0) {
        return (vram_status)source->nonsense;
    }
    if (source->lie != 0) {
        *addr = source->lie;
        return VRAM_OK;
    }
    vram_addr given = source->next;
    if (source->device != NULL) {
        vram_status status = vram_device_alloc(source->device, bytes, VRAM_MEMORY_DEVICE, &given);
        if (status != VRAM_OK) {
            return status;
        }
    }
    source->next += bytes + source->granule;
    source->left_bytes -= bytes;
    source->given[source->count].addr = given;
    source->given[source->count++].bytes = bytes;
    *addr = given;
    return VRAM_OK;
}

static vram_status take(void *user, vram_addr addr, uint64_t bytes) {
    struct source *source = user;
    if (source->stubborn) {
        return VRAM_ERR_BUSY;
    }
    for (uint32_t i = 0; i < source->count; i++) {
        if (source->given[i].addr == addr && source->given[i].bytes == bytes) {
            if (source->device != NULL && vram_device_free(source->device, addr) != VRAM_OK) {
                return VRAM_ERR_BACKEND;
            }
            source->left_bytes += bytes;
            source->given[i] = source->given[--source->count];
            return VRAM_OK;
        }
    }
    source->confused = true;
    return VRAM_ERR_INVALID;
}

static bool begin(struct check *check, struct source *source, struct check_device **device,
                  vram_queue **queue, struct check_stock *stock) {
    vram_provider provider = {.size = sizeof provider,
                              .user = source,
                              .alloc = give,
                              .free = take,
                              .granule = source->granule};
    vram_pool_options options = {.size = sizeof options, .provider = &provider};
    source->next = source->next != 0 ? source->next : NO_PLACE;
    CHECK_STOCK(check, *device, &options, stock);
    stock->foreign = source->device == NULL;
    CHECK_QUEUE(check, *device, queue);
    return true;
}

/* The source must outlive the device, which ends the pool: it is memory of the case. */
static bool make_source(struct check *check, struct source **source) {
    void *memory;
    CHECK_TRY(check_host(check, sizeof **source, &memory));
    *source = memory;
    (*source)->granule = GRANULE;
    (*source)->left_bytes = 64 * GRANULE;
    return true;
}

/* --------------------------------------------------------------------- cases */

/* Everything a pool does, on addresses that are nobody's. */
static bool serves(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    struct source *source;
    vram_queue *queue, *other;
    vram_addr addrs[5], pinned;
    vram_block_info info = {.size = sizeof info};
    vram_pool_stats stats;

    CHECK_TRY(make_source(check, &source));
    CHECK_OPEN(check, &device);
    CHECK_TRY(begin(check, source, &device, &queue, &stock));
    CHECK_QUEUE(check, device, &other);
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_TAKE(check, &stock, 1000 + i * 40000, queue, &addrs[i]);
        CHECK_THAT(check, addrs[i] >= NO_PLACE && addrs[i] < source->next);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_OK(check, vram_block_info_get(addrs[2], &info));
    CHECK_THAT(check, info.pool == stock.pool);
    CHECK_STOCK_OK(check, &stock, vram_use(addrs[0], other));
    pinned = addrs[1];
    CHECK_STOCK_OK(check, &stock, vram_pin(pinned));
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_GIVE(check, &stock, addrs[i], queue);
    }
    CHECK_STOCK_OK(check, &stock, vram_unpin(pinned));
    CHECK_WAIT(check, other);
    CHECK_WAIT(check, queue);
    CHECK_TRY(check_trim(check, &stock, &stats));
    CHECK_TAKE(check, &stock, 1000, queue, &addrs[0]);
    CHECK_OK(check, vram_pool_destroy(stock.pool)); /* with a live block */
    CHECK_EQUAL(check, source->count, 0);
    CHECK_THAT(check, !source->confused);
    return true;
}

/* Memory that the device knows already may be passed on, and used by its queues. */
static bool passes_on(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    struct source *source;
    vram_queue *queue;
    vram_addr addrs[3];
    vram_block_info info = {.size = sizeof info};

    CHECK_TRY(make_source(check, &source));
    CHECK_OPEN(check, &device);
    source->device = device->device;
    source->granule = check_granule(device);
    source->left_bytes = 32 * source->granule + 4 * MIB;
    CHECK_TRY(begin(check, source, &device, &queue, &stock));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_TAKE(check, &stock, 1000 + i * 70000, queue, &addrs[i]);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_OK(check, vram_block_info_get(addrs[1], &info));
    CHECK_THAT(check, info.pool == stock.pool);
    CHECK_GIVE(check, &stock, addrs[1], queue);
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_OK(check, vram_pool_destroy(stock.pool));
    CHECK_THAT(check, source->count == 0 || check_driver_failed(check));
    CHECK_THAT(check, !source->confused);
    return true;
}

/* A provider's own words reach the program, and its lies do not become blocks. */
static bool refuses(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    struct source *source;
    vram_queue *queue;
    vram_addr addr, none = CHECK_CANARY;

    CHECK_NEEDS_POOLS(check);
    CHECK_TRY(make_source(check, &source));
    CHECK_OPEN(check, &device);
    source->left_bytes = 4 * GRANULE;
    CHECK_TRY(begin(check, source, &device, &queue, &stock));
    CHECK_TAKE(check, &stock, 2 * GRANULE, queue, &addr);
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, 4 * GRANULE, queue, &none),
                        VRAM_ERR_LIMIT);
    source->lie = NO_PLACE + 5;
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, GRANULE, queue, &none),
                        VRAM_ERR_CORRUPT);
    source->lie = addr; /* in use already */
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, GRANULE, queue, &none),
                        VRAM_ERR_CORRUPT);
    source->lie = 0;
    for (int i = 0; i < 3; i++) {
        static const int numbers[] = {1, 12345, -12345};
        source->nonsense = numbers[i];
        CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, GRANULE, queue, &none),
                            VRAM_ERR_CORRUPT);
    }
    source->nonsense = 0;
    CHECK_EQUAL(check, none, CHECK_CANARY);
    CHECK_GIVE(check, &stock, addr, queue);
    CHECK_WAIT(check, queue);
    source->stubborn = true;
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_trim(stock.pool, NULL, NULL), VRAM_ERR_BUSY);
    source->stubborn = false;
    CHECK_TAKE(check, &stock, 2 * GRANULE, queue, &addr); /* what it would not take back is used */
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_OK(check, vram_pool_destroy(stock.pool));
    CHECK_EQUAL(check, source->count, 0);
    CHECK_THAT(check, !source->confused);
    return true;
}

/* The library's own providers: allocators by themselves, and under a pool. */
static bool ready_made(struct check *check) {
    static const struct {
        vram_memory_kind kind;
        uint32_t cap;
        bool host; /* its addresses are host pointers */
    } kinds[] = {{VRAM_MEMORY_DEVICE, 0, false},
                 {VRAM_MEMORY_PINNED, VRAM_CAP_PINNED, true},
                 {VRAM_MEMORY_MANAGED, VRAM_CAP_MANAGED, true}};
    struct check_device *device;
    vram_queue *queue;
    struct check_stock stock;
    vram_addr addr, block;
    vram_block_info info = {.size = sizeof info};
    vram_memory_info before = {.size = sizeof before}, after = {.size = sizeof after};

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    device->unledgered = true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        vram_provider provider = {.size = sizeof provider};
        check_note(check, "kind %d", (int)kinds[i].kind);
        if (kinds[i].cap != 0 && !check_has(check, kinds[i].cap)) {
            CHECK_STATUS(check, vram_provider_get(device->device, kinds[i].kind, &provider),
                         VRAM_ERR_UNSUPPORTED);
            CHECK_THAT(check, provider.alloc == NULL);
            continue;
        }
        CHECK_OK(check, vram_provider_get(device->device, kinds[i].kind, &provider));
        CHECK_OK(check, vram_memory_info_get(device->device, &before));
        CHECK_OK(check, provider.alloc(provider.user, 2 * provider.granule, &addr));
        CHECK_THAT(check, addr % provider.granule == 0);
        if (kinds[i].host) {
            memset((void *)(uintptr_t)addr, 1, 2 * provider.granule);
        }
        CHECK_OK(check, provider.free(provider.user, addr, 2 * provider.granule));
        vram_pool_options options = {.size = sizeof options, .provider = &provider};
        CHECK_STOCK(check, device, &options, &stock);
        stock.foreign = true; /* marks are not written: queues do not fill page-locked memory */
        CHECK_TAKE(check, &stock, 5000, queue, &block);
        CHECK_OK(check, vram_block_info_get(block, &info));
        CHECK_THAT(check, info.kind == kinds[i].kind && info.pool == stock.pool);
        if (kinds[i].host) {
            memset((void *)(uintptr_t)block, 2, 5000);
        }
        CHECK_GIVE(check, &stock, block, queue);
        CHECK_WAIT(check, queue);
        CHECK_OK(check, vram_pool_destroy(stock.pool));
        CHECK_OK(check, vram_memory_info_get(device->device, &after));
        CHECK_THAT(check, after.held_bytes == before.held_bytes || check_driver_failed(check));
    }
    vram_provider provider = {.size = sizeof provider};
    CHECK_STATUS(check, vram_provider_get(device->device, VRAM_MEMORY_HOST, &provider),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_provider_get(device->device, VRAM_MEMORY_DEVICE, NULL),
                 VRAM_ERR_INVALID);
    return true;
}

const struct check_case check_cases_provider[] = {
    {"provider.serves", "a pool works on a provider's memory as on a device's", serves},
    {"provider.passes_on", "a provider may pass on memory of the device", passes_on},
    {"provider.ready_made", "the library's providers serve each kind that the device has",
     ready_made},
    {"provider.refuses", "a provider's failures are passed on, and its wrong results detected",
     refuses},
    {NULL, NULL, NULL},
};
