/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_storm.c: pools in a storm. Threads allocate, free, use, pin, trim and look at each
 * other's blocks while others destroy and make anew the queues, pools and devices these stand on.
 * Every answer must be one of those that the headers name, no two live blocks of a pool may meet,
 * and nothing may be left at the end. Sanitizers see the rest.
 *
 * Blocks outlive their pools here, and another pool may have memory at such an address by then. So
 * frees name the pool (vr_free), as objects of the library do; a program frees no block of a pool
 * that has ended.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "byte_units.h"
#include "core/pool/pool_calls.h"
#include "trims.h"
#include "vram/vram.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 4, QUEUES = 6, POOLS = 3, BLOCKS = 192, LIVE = 1024 };

#define SECOND UINT64_C(1000000000)
/* How long a storm lasts: longer where each step takes longer, and in make test-long. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STORM_NS (getenv("VRAM_TEST_LONG") ? 6 * SECOND : SECOND * 3 / 4)
#else
#define STORM_NS (getenv("VRAM_TEST_LONG") ? 3 * SECOND : SECOND / 2)
#endif

/* A block on its way from one thread to another; who exchanges it for an empty one owns it. */
struct block {
    vram_pool *pool;
    vram_queue *queue; /* it was allocated on */
    vram_addr addr;    /* 0: none */
    uint64_t bytes;
    bool worked; /* work on its queue has touched it */
};

static struct {
    const char *backends, *sim;
    bool hungry; /* host memory fails now and then */
    bool lossy;  /* devices are lost */
    bool wild;   /* blocks are freed twice, on dead queues, through other pools */
    uint64_t deadline;
    _Atomic(vram_context *) context;
    _Atomic(vram_device *) device;
    _Atomic(vram_queue *) queues[QUEUES];
    _Atomic(vram_pool *) pools[POOLS];
    pthread_rwlock_t life; /* taken by who submits work on blocks, and by who ends their pool */
    pthread_mutex_t lock;  /* guards the rest */
    struct block blocks[BLOCKS];
    struct block live[LIVE]; /* of all pools, to find two that meet */
    atomic_int failures;
    atomic_uint_fast64_t calls, successes;
} storm;

struct sailor {
    pthread_t thread;
    uint64_t random;
    unsigned ops; /* until the thread ends and another one goes on for it */
};

/* ------------------------------------------------------------------ verdicts */

static uint64_t draw(struct sailor *self, uint64_t below) {
    self->random = self->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (self->random >> 33) % below;
}

static void complain(const char *what, const char *call) {
    if (atomic_fetch_add(&storm.failures, 1) < 10) {
        print_error("%s: %s: %s\n", call, what, vram_error_get()->text);
    }
}

/* What may happen to anybody whose things others destroy. */
static bool is_allowed(vram_status status) {
    switch (status) {
    case VRAM_OK:
    case VRAM_ERR_STALE:
    case VRAM_ERR_SHUTDOWN:
    case VRAM_ERR_INVALID: /* NULL, where something was being made anew; a block that is gone */
    case VRAM_ERR_NOT_READY:
    case VRAM_ERR_TIMEOUT:
        return true;
    case VRAM_ERR_HOST_MEMORY:
        return storm.hungry;
    case VRAM_ERR_DEVICE_LOST:
        return storm.lossy;
    default:
        return vram_status_is_exhausted(status);
    }
}

static vram_status judge(vram_status status, const char *call) {
    atomic_fetch_add(&storm.calls, 1);
    atomic_fetch_add(&storm.successes, status == VRAM_OK);
    if (!is_allowed(status)) {
        complain(vram_status_name(status), call);
    }
    return status;
}

#define TRY(call)        judge(call, #call)
#define ANY(self, table) atomic_load(&(table)[draw(self, sizeof(table) / sizeof(table)[0])])

/* -------------------------------------------------------------------- blocks */

/* Notes a block that was just handed out, and looks whether it meets another one. */
static void note(struct block block) {
    struct block *room = NULL;
    pthread_mutex_lock(&storm.lock);
    for (int i = 0; i < LIVE; i++) {
        struct block *other = &storm.live[i];
        if (!other->addr) {
            room = room ? room : other;
        } else if (other->pool == block.pool && other->addr < block.addr + block.bytes &&
                   block.addr < other->addr + other->bytes) {
            complain("two live blocks meet", "vram_alloc");
        }
    }
    if (room) {
        *room = block;
    }
    pthread_mutex_unlock(&storm.lock);
}

/* Forgets it: from here on it may be handed out again. */
static void forget(vram_pool *pool, vram_addr addr) {
    pthread_mutex_lock(&storm.lock);
    for (int i = 0; i < LIVE; i++) {
        struct block *other = &storm.live[i];
        if (other->pool == pool && (!addr || other->addr == addr)) {
            *other = (struct block){NULL, NULL, 0, 0, false};
        }
    }
    pthread_mutex_unlock(&storm.lock);
}

static struct block exchange(struct sailor *self, struct block block) {
    pthread_mutex_lock(&storm.lock);
    struct block *at = &storm.blocks[draw(self, BLOCKS)], found = *at;
    *at = block;
    pthread_mutex_unlock(&storm.lock);
    return found;
}

static struct block look(struct sailor *self) {
    pthread_mutex_lock(&storm.lock);
    struct block found = storm.blocks[draw(self, BLOCKS)];
    pthread_mutex_unlock(&storm.lock);
    return found;
}

static void give(struct sailor *self, struct block block) {
    if (!block.addr) {
        return;
    }
    vram_queue *queue = block.worked || draw(self, 4) ? block.queue : ANY(self, storm.queues);
    forget(block.pool, block.addr);
    vram_status status = TRY(vr_free(block.pool, block.addr, queue));
    /* Of the queue, perhaps: then the block is still there, and its pool's if there was work on
       it. */
    if (status == VRAM_ERR_STALE && !block.worked) {
        TRY(vr_free(block.pool, block.addr, NULL));
    }
}

/* ---------------------------------------------------------------- operations */

static void allocate(struct sailor *self) {
    static const uint64_t sizes[] = {1,    512,     513,     4000,     32 * KIB,  33 * KIB,
                                     100,  MIB + 1, 3 * MIB, 70 * KIB, 64 * KIB,  9 * MIB,
                                     2048, 2048,    2048,    700,      700 * KIB, 0};
    struct block block = {.pool = ANY(self, storm.pools), .queue = ANY(self, storm.queues)};
    uint64_t size = sizes[draw(self, sizeof sizes / sizeof sizes[0])];
    vram_alloc_options options = {.size = sizeof options, .tag = "storm"};
    options.alignment = draw(self, 2) ? 4096 : 0;
    vram_status status =
        draw(self, 8) ? TRY(vram_alloc(block.pool, size, block.queue, &block.addr))
                      : TRY(vram_alloc_with(block.pool, size, block.queue, &options, &block.addr));
    if (status == VRAM_OK) {
        block.bytes = size ? size : 1;
        if (!storm.wild) {
            note(block);
        }
        give(self, exchange(self, block));
    }
}

static void hit(struct sailor *self) {
    vram_pool *pool = ANY(self, storm.pools);
    vram_queue *queue = ANY(self, storm.queues);
    uint64_t size = 512 * (1 + draw(self, 4)) << 7 * draw(self, 2);
    for (int i = 0; i < 50; i++) {
        vram_addr addr;
        if (TRY(vram_alloc(pool, size, queue, &addr)) != VRAM_OK) {
            return;
        }
        if (TRY(vr_free(pool, addr, queue)) != VRAM_OK) {
            TRY(vr_free(pool, addr, NULL));
        }
    }
}

static void release(struct sailor *self) {
    give(self, exchange(self, (struct block){NULL, NULL, 0, 0, false}));
}

/* Whether the block is there still: its pool may have ended, and another one have its addresses
   now. No pool ends under the lock. */
static bool is_there(struct block block) {
    vram_block_info info = {.size = sizeof info};
    return TRY(vram_block_info_get(block.addr, &info)) == VRAM_OK && info.pool == block.pool;
}

/* Not where others may free the block under it: that is the program's own mistake. */
static void fill(struct sailor *self) {
    if (storm.wild) {
        return;
    }
    struct block block = exchange(self, (struct block){NULL, NULL, 0, 0, false});
    if (block.addr) {
        pthread_rwlock_rdlock(&storm.life);
        if (is_there(block)) {
            block.worked = true;
            vram_status status =
                TRY(vram_queue_fill(block.queue, block.addr, 0x5a, 1, block.bytes));
            if (status == VRAM_ERR_INVALID && block.queue) { /* nobody else may end it here */
                complain("a live block is refused", "vram_queue_fill");
            }
        }
        pthread_rwlock_unlock(&storm.life);
    }
    give(self, exchange(self, block));
}

static void inspect(struct sailor *self) {
    struct block block = look(self);
    vram_block_info info = {.size = sizeof info};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_native_info native = {.size = sizeof native};
    switch (draw(self, 6)) {
    case 0:
        if (block.addr && TRY(vram_pin(block.addr)) == VRAM_OK) {
            TRY(vram_unpin(block.addr));
        }
        break;
    case 1:
        TRY(vram_use(block.addr, ANY(self, storm.queues)));
        break;
    case 2:
        TRY(vram_block_info_get(block.addr, &info));
        break;
    case 3:
        TRY(vram_native(block.addr, &native));
        break;
    case 4:
        TRY(vram_pool_warm(ANY(self, storm.pools), 1500, 40, ANY(self, storm.queues)));
        break;
    default:
        if (TRY(vram_pool_stats_get(ANY(self, storm.pools), &stats)) == VRAM_OK &&
            (stats.reserved_bytes >> 40 || stats.cached_bytes > stats.reserved_bytes + 64 * MIB)) {
            complain("books that do not balance", "vram_pool_stats_get");
        }
    }
}

/* What a careless program does: none of it may touch what is not its own. */
static void misuse(struct sailor *self) {
    struct block block = look(self);
    if (!storm.wild || !block.addr) {
        return;
    }
    switch (draw(self, 4)) {
    case 0:
        TRY(vr_free(ANY(self, storm.pools), block.addr, ANY(self, storm.queues)));
        break;
    case 1:
        TRY(vr_free(block.pool, block.addr, block.queue));
        break;
    case 2:
        TRY(vr_free(block.pool, block.addr + 512, block.queue));
        break;
    default:
        TRY(vram_unpin(block.addr));
    }
}

static void trim(struct sailor *self) {
    TRY(vram_pool_trim(ANY(self, storm.pools), TRIM(.keep_bytes = draw(self, 2) * MIB), NULL));
}

static void renew_queue(struct sailor *self) {
    vram_queue *queue = NULL;
    if (TRY(vram_queue_create(atomic_load(&storm.device), NULL, &queue)) == VRAM_OK) {
        queue = atomic_exchange(&storm.queues[draw(self, QUEUES)], queue);
        vram_queue_destroy(queue);
    }
}

static void renew_pool(struct sailor *self) {
    /* Who tells of its blocks goes other ways than who does not, and a debug build would always
       tell. */
    vram_limits limits = {.size = sizeof limits,
                          .tracking = draw(self, 2) ? VRAM_SWITCH_ON : VRAM_SWITCH_OFF};
    vram_pool_options options = {
        .size = sizeof options, .range_bytes = 256 * MIB, .name = "storm", .limits = &limits};
    vram_pool *pool = NULL;
    options.flags = draw(self, 3) ? 0 : VRAM_POOL_SEGMENTS;
    options.flags |= draw(self, 6) ? 0 : VRAM_POOL_DETERMINISTIC;
    if (TRY(vram_pool_create(atomic_load(&storm.device), &options, &pool)) == VRAM_OK) {
        pool = atomic_exchange(&storm.pools[draw(self, POOLS)], pool);
        forget(pool, 0);
        pthread_rwlock_wrlock(&storm.life);
        TRY(vram_pool_destroy(pool));
        pthread_rwlock_unlock(&storm.life);
    }
}

static void renew_device(struct sailor *self) {
    vram_device *device = NULL;
    if (draw(self, 20) == 0 &&
        TRY(vram_device_open(atomic_load(&storm.context), 0, &device)) == VRAM_OK) {
        pthread_rwlock_wrlock(&storm.life);
        vram_device_close(atomic_exchange(&storm.device, device));
        pthread_rwlock_unlock(&storm.life);
    }
}

static void renew_context(struct sailor *self) {
    vram_context_options options = {
        .size = sizeof options, .backends = storm.backends, .sim = storm.sim};
    vram_context *context = NULL;
    if (draw(self, 60) == 0 && TRY(vram_context_create(&options, &context)) == VRAM_OK) {
        pthread_rwlock_wrlock(&storm.life);
        vram_context_destroy(atomic_exchange(&storm.context, context));
        pthread_rwlock_unlock(&storm.life);
    }
}

static void be_hungry(struct sailor *self) {
    if (storm.hungry) {
        vr_mem_fail_at(1 + draw(self, 40), false);
    }
}

/* ----------------------------------------------------------------------- the storm */

static const struct {
    void (*op)(struct sailor *self);
    unsigned weight;
} ops[] = {
    {allocate, 40}, {release, 36},   {hit, 10},         {fill, 4},
    {inspect, 16},  {misuse, 10},    {trim, 1},         {renew_queue, 6},
    {be_hungry, 2}, {renew_pool, 2}, {renew_device, 1}, {renew_context, 1},
};

static void *sail(void *argument) {
    struct sailor *self = argument;
    unsigned total = 0;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        total += ops[i].weight;
    }
    for (self->ops = 200 + (unsigned)draw(self, 400);
         self->ops > 0 && vr_os_now() < storm.deadline && atomic_load(&storm.failures) < 10;
         self->ops--) {
        uint64_t drawn = draw(self, total);
        size_t at = 0;
        for (; drawn >= ops[at].weight; at++) {
            drawn -= ops[at].weight;
        }
        ops[at].op(self);
    }
    return NULL;
}

/* One thread after the other, so that many end in the middle of the storm. */
static void *watch(void *argument) {
    struct sailor *self = argument;
    pthread_t thread;
    while (vr_os_now() < storm.deadline && atomic_load(&storm.failures) < 10) {
        if (pthread_create(&thread, NULL, sail, self) == 0) {
            pthread_join(thread, NULL);
        }
    }
    return NULL;
}

static void on_log(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    if (!strstr(text, "was lost")) {
        atomic_fetch_add(&storm.failures, 1);
        print_error("logged: %s\n", text);
    }
}

static void begin(void) {
    vram_context_options options = {
        .size = sizeof options, .backends = storm.backends, .sim = storm.sim};
    vram_context *context;
    vram_device *device;
    struct sailor self = {.random = 1};
    pthread_mutex_init(&storm.lock, NULL);
    pthread_rwlock_init(&storm.life, NULL);
    storm.deadline = vr_os_now() + STORM_NS;
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_OK);
    atomic_store(&storm.context, context);
    atomic_store(&storm.device, device);
    for (int i = 0; i < 50; i++) {
        renew_queue(&self);
        renew_pool(&self);
    }
}

static void end(void) {
    vram_context *context = atomic_load(&storm.context);
    vram_sim_state state = {.size = sizeof state};
    for (int i = 0; i < POOLS; i++) {
        TRY(vram_pool_destroy(atomic_load(&storm.pools[i])));
    }
    vram_device_close(atomic_load(&storm.device));
    if (vram_sim_state_get(context, &state) == VRAM_OK) {
        char text[200] = "";
        vram_sim_violation(context, 0, text, sizeof text);
        assert_string_equal(text, "");
        assert_int_equal(state.live_bytes, 0);
        assert_int_equal(state.live_handles, 0);
    }
    vram_context_destroy(context);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(vr_handle_live(0), 0);
    assert_int_equal(vr_mem_live_bytes(), 0);
    assert_int_equal(atomic_load(&storm.failures), 0);
    assert_true(atomic_load(&storm.successes) > 100); /* it was not all refusals */
}

static uint64_t seed_from_user;

static void play(const char *backends, const char *sim, uint64_t seed) {
    struct sailor crew[THREADS];
    storm.backends = backends;
    storm.sim = sim;
    storm.lossy = sim && strstr(sim, "lose=");
    begin();
    for (uint64_t i = 0; i < THREADS; i++) {
        crew[i].random = (seed_from_user ? seed_from_user : seed) * 1000 + i;
        assert_int_equal(pthread_create(&crew[i].thread, NULL, watch, &crew[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(crew[i].thread, NULL);
    }
    vr_mem_fail_at(0, false);
    print_message("%llu calls, %llu of them successes\n",
                  (unsigned long long)atomic_load(&storm.calls),
                  (unsigned long long)atomic_load(&storm.successes));
    end();
}

static int calm(void **state) {
    (void)state;
    memset(&storm, 0, sizeof storm);
    return 0;
}

static void on_the_host(void **state) {
    (void)state;
    play("host", NULL, 21);
}

static void on_slow_devices(void **state) {
    (void)state;
    play("sim", "memory=1G,granule=64K,lag=50,journal=0,seed=5", 22);
}

static void on_small_devices(void **state) {
    (void)state;
    play("sim", "memory=8M,granule=64K,lag=10,journal=0,seed=6", 23);
}

static void on_devices_that_are_lost(void **state) {
    (void)state;
    play("sim", "memory=1G,granule=64K,lag=20,journal=0,lose=900", 24);
}

static void with_little_host_memory(void **state) {
    (void)state;
    storm.hungry = true;
    play("sim", "memory=1G,granule=64K,lag=10", 25);
}

#ifdef FAKE_CUDA_PATH
static void on_a_driver_with_threads(void **state) {
    (void)state;
    assert_int_equal(vram_option_set("cuda_library", FAKE_CUDA_PATH), VRAM_OK);
    play("cuda", NULL, 27);
    vr_option_reset();
}
#endif

static void with_careless_programs(void **state) {
    (void)state;
    storm.wild = true;
    play("sim", "memory=1G,granule=64K,lag=10,journal=0", 26);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(on_the_host, calm),
        cmocka_unit_test_setup(on_slow_devices, calm),
        cmocka_unit_test_setup(on_small_devices, calm),
        cmocka_unit_test_setup(on_devices_that_are_lost, calm),
        cmocka_unit_test_setup(with_little_host_memory, calm),
        cmocka_unit_test_setup(with_careless_programs, calm),
#ifdef FAKE_CUDA_PATH
        cmocka_unit_test_setup(on_a_driver_with_threads, calm),
#endif
    };
    seed_from_user = count > 1 ? strtoull(words[1], NULL, 10) : 0;
    cmocka_set_test_filter(count > 2 ? words[2] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
