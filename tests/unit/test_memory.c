/* SPDX-License-Identifier: Apache-2.0 */
/* The one door to host memory: counting, planned failures, users' allocators, threads. */
#include "base/memory.h"

#include "base/atomic.h"
#include "rig/rig.h"
#include "vram/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* What vr_mem adds to each block, measured and not assumed. */
static size_t header_bytes(void) {
    void *empty = vr_mem_alloc(0, 1, "test");
    size_t bytes = (size_t)vr_mem_live_bytes();
    vr_mem_free(empty);
    return bytes;
}

static int clean(void) {
    vr_mem_fail_at(0, false);
    vram_error_clear();
    return 0;
}

/* Every test must give back all it took. */
static int nothing_left(void) {
    vr_mem_fail_at(0, false);
    bool balanced = vr_mem_live_bytes() == 0 && vr_mem_live_blocks() == 0;
    return balanced && vram_host_allocator_set(NULL) == VRAM_OK ? 0 : -1;
}

TEST(gives_zeroed_aligned_counted_memory) {
    size_t header = header_bytes();
    assert_true(header >= sizeof(size_t) && header <= 64);
    for (size_t bytes = 1; bytes <= 4096; bytes = bytes * 2 + 1) {
        unsigned char *memory = vr_mem_alloc(1, bytes, "test");
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(memory[i], 0);
        }
        memset(memory, 0xAB, bytes);
        assert_int_equal(vr_mem_live_bytes(), header + bytes);
        assert_int_equal(vram_host_bytes(), header + bytes);
        assert_int_equal(vr_mem_live_blocks(), 1);
        vr_mem_free(memory);
        assert_int_equal(vr_mem_live_bytes(), 0);
    }
    assert_int_equal(vram_error_get()->status, VRAM_OK);
}

TEST(counts_objects_and_nothing) {
    size_t header = header_bytes();
    void *objects = vr_mem_alloc(7, 24, "test");
    void *none = vr_mem_alloc(5, 0, "test");
    assert_non_null(objects);
    assert_non_null(none);
    assert_int_equal(vr_mem_live_bytes(), 2 * header + 7 * 24);
    assert_int_equal(vr_mem_live_blocks(), 2);
    vr_mem_free(none);
    vr_mem_free(objects);
    vr_mem_free(NULL);
}

TEST(resizes_and_keeps_contents) {
    size_t header = header_bytes();
    unsigned char *memory = vr_mem_resize(NULL, 10, 1, "test");
    assert_non_null(memory);
    for (unsigned char i = 0; i < 10; i++) {
        memory[i] = i;
    }
    const size_t sizes[] = {1000, 100000, 10, 0, 10};
    for (size_t s = 0; s < 5; s++) {
        memory = vr_mem_resize(memory, sizes[s], 1, "test");
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
        assert_int_equal(vr_mem_live_bytes(), header + sizes[s]);
        assert_int_equal(vr_mem_live_blocks(), 1);
        for (unsigned char i = 0; i < 10 && s < 3; i++) {
            assert_int_equal(memory[i], i);
        }
    }
    vr_mem_free(memory);
}

TEST(copies_text) {
    char *copy = vr_mem_text("caf\xC3\xA9", "test");
    char *empty = vr_mem_text("", "test");
    assert_string_equal(copy, "caf\xC3\xA9");
    assert_string_equal(empty, "");
    vr_mem_free(copy);
    vr_mem_free(empty);
    vr_mem_fail_at(1, false);
    assert_null(vr_mem_text("x", "test_text"));
    assert_string_equal(vram_error_get()->operation, "test_text");
}

/* ---------------------------------------------------------------- fail plans */

TEST(fails_the_nth_call_once) {
    for (uint64_t nth = 1; nth <= 5; nth++) {
        vr_mem_fail_at(nth, false);
        for (uint64_t call = 1; call <= 6; call++) {
            void *memory = vr_mem_alloc(1, 8, "planned");
            assert_int_equal(memory == NULL, call == nth);
            assert_int_equal(vr_mem_calls(), call);
            vr_mem_free(memory);
        }
        assert_int_equal(vr_mem_failed(), 1);
        assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
        assert_string_equal(vram_error_get()->operation, "planned");
    }
}

TEST(fails_for_ever_until_the_plan_ends) {
    vr_mem_fail_at(3, true);
    for (int call = 1; call <= 10; call++) {
        void *memory = vr_mem_alloc(1, 8, "planned");
        assert_int_equal(memory == NULL, call >= 3);
        vr_mem_free(memory);
    }
    assert_int_equal(vr_mem_failed(), 8);
    vr_mem_fail_at(0, true);
    void *memory = vr_mem_alloc(1, 8, "planned");
    assert_non_null(memory);
    assert_int_equal(vr_mem_failed(), 0);
    assert_int_equal(vr_mem_calls(), 1);
    vr_mem_free(memory);
}

TEST(failed_resize_leaves_the_block) {
    char *memory = vr_mem_text("still here", "test");
    uint64_t bytes = vr_mem_live_bytes();
    vr_mem_fail_at(1, false);
    assert_null(vr_mem_resize(memory, 4096, 1, "planned"));
    assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
    assert_string_equal(memory, "still here");
    assert_int_equal(vr_mem_live_bytes(), bytes);
    vr_mem_free(memory);
}

/* --------------------------------------------------------- users' allocators */

struct user_heap {
    vr_atomic_u64 allocs, resizes, frees, live;
    vr_atomic_bool refuse;
    vr_atomic_bool foreign; /* was given a block of another heap */
};

struct user_block {
    _Alignas(max_align_t) struct user_heap *owner;
};

static void *user_alloc(void *user, size_t bytes) {
    struct user_heap *heap = user;
    vr_fetch_add(&heap->allocs, 1, VR_RELAXED);
    struct user_block *block =
        vr_load(&heap->refuse, VR_RELAXED) ? NULL : malloc(sizeof *block + bytes);
    if (!block) {
        return NULL;
    }
    block->owner = heap;
    vr_fetch_add(&heap->live, 1, VR_RELAXED);
    return memset(block + 1, 0xEE, bytes); /* so that zeroing is seen to be ours */
}

static void *user_resize(void *user, void *memory, size_t bytes) {
    struct user_heap *heap = user;
    struct user_block *block = (struct user_block *)memory - 1;
    vr_fetch_add(&heap->resizes, 1, VR_RELAXED);
    if (block->owner != heap) {
        vr_store(&heap->foreign, true, VR_RELAXED);
    }
    block = vr_load(&heap->refuse, VR_RELAXED) ? NULL : realloc(block, sizeof *block + bytes);
    return block ? block + 1 : NULL;
}

static void user_free(void *user, void *memory) {
    struct user_heap *heap = user;
    struct user_block *block = (struct user_block *)memory - 1;
    vr_fetch_add(&heap->frees, 1, VR_RELAXED);
    vr_fetch_sub(&heap->live, 1, VR_RELAXED);
    if (block->owner != heap) {
        vr_store(&heap->foreign, true, VR_RELAXED);
    }
    free(block);
}

static vram_host_allocator allocator_of(struct user_heap *heap) {
    return (vram_host_allocator){heap, user_alloc, user_resize, user_free};
}

TEST(half_filled_tables_are_refused) {
    struct user_heap heap = {0};
    for (unsigned missing = 1; missing < 8; missing++) {
        vram_host_allocator table = allocator_of(&heap);
        table.alloc = missing & 1 ? NULL : table.alloc;
        table.resize = missing & 2 ? NULL : table.resize;
        table.free = missing & 4 ? NULL : table.free;
        assert_int_equal(vram_host_allocator_set(&table), VRAM_ERR_INVALID);
    }
}

TEST(users_allocator_gets_every_call) {
    struct user_heap heap = {0};
    vram_host_allocator table = allocator_of(&heap);
    assert_int_equal(vram_host_allocator_set(&table), VRAM_OK);
    memset(&table, 0, sizeof table); /* the library keeps its own copy */
    unsigned char *memory = vr_mem_alloc(1, 100, "test");
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(memory[i], 0);
    }
    memory = vr_mem_resize(memory, 200, 1, "test");
    assert_non_null(memory);
    vr_mem_free(memory);
    assert_int_equal(vr_load(&heap.allocs, VR_RELAXED), 1);
    assert_int_equal(vr_load(&heap.resizes, VR_RELAXED), 1);
    assert_int_equal(vr_load(&heap.frees, VR_RELAXED), 1);

    assert_int_equal(vram_host_allocator_set(NULL), VRAM_OK);
    vr_mem_free(vr_mem_alloc(1, 1, "test"));
    assert_int_equal(vr_load(&heap.allocs, VR_RELAXED), 1);
    assert_false(vr_load(&heap.foreign, VR_RELAXED));
}

TEST(refusing_allocator_is_host_memory) {
    struct user_heap heap = {0};
    vram_host_allocator table = allocator_of(&heap);
    assert_int_equal(vram_host_allocator_set(&table), VRAM_OK);
    char *memory = vr_mem_text("kept", "test");
    uint64_t bytes = vr_mem_live_bytes();
    vr_store(&heap.refuse, true, VR_RELAXED);
    assert_null(vr_mem_alloc(1, 64, "refused"));
    assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
    assert_string_equal(vram_error_get()->operation, "refused");
    assert_null(vr_mem_resize(memory, 64, 1, "refused_too"));
    assert_string_equal(vram_error_get()->operation, "refused_too");
    assert_string_equal(memory, "kept");
    assert_int_equal(vr_mem_live_bytes(), bytes);
    assert_int_equal(vr_mem_live_blocks(), 1);
    assert_int_equal(vr_mem_failed(), 0); /* no plan had a hand in it */
    vr_mem_free(memory);
}

TEST(overflow_is_host_memory) {
    const size_t pairs[][2] = {{SIZE_MAX, 1},
                               {1, SIZE_MAX},
                               {SIZE_MAX, SIZE_MAX},
                               {SIZE_MAX / 2 + 1, 2},
                               {SIZE_MAX - 8, 1},
                               {(size_t)PTRDIFF_MAX, 1},
                               {(size_t)1 << 32, (size_t)1 << 32}};
    struct user_heap heap = {0};
    vram_host_allocator table = allocator_of(&heap);
    assert_int_equal(vram_host_allocator_set(&table), VRAM_OK);
    void *kept = vr_mem_alloc(16, 1, "test");
    uint64_t before = vr_mem_live_bytes();
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        vram_error_clear();
        assert_null(vr_mem_alloc(pairs[i][0], pairs[i][1], "huge"));
        assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
        assert_string_equal(vram_error_get()->operation, "huge");
        vram_error_clear();
        assert_null(vr_mem_resize(kept, pairs[i][0], pairs[i][1], "huger"));
        assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
        assert_int_equal(vr_mem_live_bytes(), before);
        assert_int_equal(vr_mem_live_blocks(), 1);
    }
    /* None of it reached the allocator. */
    assert_int_equal(vr_load(&heap.allocs, VR_RELAXED), 1);
    assert_int_equal(vr_load(&heap.resizes, VR_RELAXED), 0);
    vr_mem_free(kept);
}

/* --------------------------------------------------------------------- threads */

enum { THREADS = 4, ROUNDS = 2000 };

static uint32_t next_random(uint32_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

struct worker {
    uint32_t seed;
    uint64_t failed;
    bool damaged;
    vr_atomic_bool *stop; /* NULL: ROUNDS rounds */
};

/* Allocates, resizes and frees eight blocks in random order; each carries its own mark. */
static void *work(void *argument) {
    struct worker *worker = argument;
    unsigned char *blocks[8] = {NULL};
    for (int round = 0; round < ROUNDS; round++) {
        unsigned i = next_random(&worker->seed) % 8;
        size_t bytes = 1 + next_random(&worker->seed) % 500;
        if (blocks[i]) {
            worker->damaged |= blocks[i][0] != (unsigned char)(i + 1);
        }
        if (blocks[i] && next_random(&worker->seed) % 2) {
            vr_mem_free(blocks[i]);
            blocks[i] = NULL;
            continue;
        }
        unsigned char *larger = vr_mem_resize(blocks[i], bytes, 1, "worker");
        if (larger) {
            larger[0] = (unsigned char)(i + 1);
            blocks[i] = larger;
        } else {
            worker->failed++;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        vr_mem_free(blocks[i]);
    }
    return NULL;
}

static void run_workers(struct worker workers[THREADS], void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, body, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST(counts_are_exact_over_threads) {
    struct worker workers[THREADS] = {{.seed = 11}, {.seed = 22}, {.seed = 33}, {.seed = 44}};
    run_workers(workers, work);
    for (int i = 0; i < THREADS; i++) {
        assert_false(workers[i].damaged);
        assert_int_equal(workers[i].failed, 0);
    }
    assert_int_equal(vr_mem_live_bytes(), 0);
    assert_int_equal(vr_mem_live_blocks(), 0);
}

static void *short_lived_work(void *argument) {
    struct worker *worker = argument;
    for (int i = 0; !vr_load(worker->stop, VR_RELAXED); i++) {
        char *memory = vr_mem_alloc(1, 32, "worker");
        if (memory) {
            memory[0] = 'x';
            if (i % 2 == 0) {
                sched_yield(); /* on a core that others use, too, it is seen alive here or never */
            }
            memory = vr_mem_resize(memory, 64, 1, "worker");
            worker->damaged |= !memory || memory[0] != 'x';
            vr_mem_free(memory);
        }
        sched_yield(); /* leaves moments in which nothing lives */
    }
    return NULL;
}

/* A replacement in the midst of it all: no block ever meets an allocator it did not come from. */
TEST(replacing_races_with_allocating) {
    struct user_heap heaps[2] = {{0}, {0}};
    vr_atomic_bool stop = false;
    struct worker workers[2] = {{.stop = &stop}, {.stop = &stop}};
    pthread_t threads[2];
    int replaced = 0, refused = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, short_lived_work, &workers[i]), 0);
    }
    for (int i = 0; i < 1000000 && (replaced < 300 || refused < 300); i++) {
        vram_host_allocator table = allocator_of(&heaps[i % 2]);
        vram_status status = vram_host_allocator_set(&table);
        replaced += status == VRAM_OK;
        refused += status == VRAM_ERR_BUSY;
        sched_yield();
    }
    vr_store(&stop, true, VR_RELAXED);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_false(workers[i].damaged);
    }
    assert_true(replaced > 0 && refused > 0); /* both sides had their turn */
    for (int i = 0; i < 2; i++) {
        assert_false(vr_load(&heaps[i].foreign, VR_RELAXED));
        assert_int_equal(vr_load(&heaps[i].live, VR_RELAXED), 0);
    }
}

/* The same door for libraries on top of this one. */
TEST(others_allocate_here) {
    uint64_t before = vram_host_bytes();
    unsigned char *memory = vram_host_alloc(3, 100);
    assert_non_null(memory);
    assert_int_equal(memory[0] | memory[299], 0);
    assert_true(vram_host_bytes() >= before + 300);
    vram_host_free(memory);
    vram_host_free(NULL);
    assert_int_equal(vram_host_bytes(), before);
    assert_null(vram_host_alloc(SIZE_MAX, 2));
    assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
    assert_string_equal(vram_error_get()->operation, "vram_host_alloc");
    vr_mem_fail_at(1, false);
    assert_null(vram_host_alloc(1, 1));
    vr_mem_fail_at(0, false);
}

EACH_TEST(clean, nothing_left)
