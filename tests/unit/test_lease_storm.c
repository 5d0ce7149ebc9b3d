/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random leases, revocations and kill -9 of holders and of the broker, on simulated devices and on
 * files in memory. Several processes allocate, free, sleep and wake under leases that together want
 * more than twice what there is, and their parent kills one now and then. Nothing may be lost
 * (contents), nothing may hang past its deadline, and at the end nobody holds anything.
 * LEASE_ROUNDS is how many leases, revocations and kills there are; `ctest -C Long` has 10,000.
 */
#include "lease_world.h"
#include "unit/fault_step.h"

#include "lease/broker.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { CHILDREN = 3, BLOCKS = 24, TIMEOUT_MS = 40 };

#define CAPACITY  (256 * UNIT)
#define LATE_NS   (6 * SECOND) /* a call must be over by then: a broker may take 3 s to start */
#define STEP_MOST (8 * UNIT)

/* What the processes tell each other; in memory that all of them share. */
static struct shared {
    atomic_bool stop;
    atomic_uint_fast64_t leases, revocations, refusals, kills, brokers;
    atomic_uint_fast64_t lost;  /* blocks whose contents differ */
    atomic_uint_fast64_t wrong; /* calls with a status that they must not have, */
    atomic_int wrong_line, wrong_status;
    struct {
        atomic_uint_fast64_t since; /* inside a call that may wait, since; 0: not */
        atomic_uint_fast64_t longest;
    } child[CHILDREN];
} * shared;

/* -------------------------------------------------------------------- a child */

struct block {
    vram_addr addr; /* 0: none */
    uint64_t bytes;
    uint32_t pattern;
    bool known; /* its contents are */
};

struct actor {
    struct holder holder;
    int number;
    uint64_t random;
    struct block blocks[BLOCKS];
    bool keeps; /* sleeping memory keeps its contents */
    uint64_t sleeps;
    uint64_t revocations; /* of the lease, that were counted */
};

static uint64_t pick(struct actor *actor, uint64_t most) {
    actor->random ^= actor->random << 13;
    actor->random ^= actor->random >> 7;
    actor->random ^= actor->random << 17;
    return actor->random % most;
}

static void call_begin(struct actor *actor) {
    atomic_store(&shared->child[actor->number].since, lease_now());
}

static void call_end(struct actor *actor) {
    uint64_t took = lease_now() - atomic_load(&shared->child[actor->number].since);
    if (took > atomic_load(&shared->child[actor->number].longest)) {
        atomic_store(&shared->child[actor->number].longest, took);
    }
    atomic_store(&shared->child[actor->number].since, 0);
}

static void expect_at(int line, vram_status status, bool good) {
    if (!good) {
        atomic_store(&shared->wrong_line, line);
        atomic_store(&shared->wrong_status, status);
        atomic_fetch_add(&shared->wrong, 1);
    }
}
#define expect(status, good) expect_at(__LINE__, status, good)

/* A pool that sleeps at that moment refuses, which is no failure. */
static bool is_asleep(vram_status status) {
    return status == VRAM_ERR_BUSY || status == VRAM_ERR_INVALID;
}

static void lease_begin(struct actor *actor) {
    vram_lease_options options = lease_options(NULL, pick(actor, 16) * UNIT, 200 * UNIT);
    vram_sleep_options sleep = {.size = sizeof sleep,
                                .contents = actor->keeps ? VRAM_SLEEP_HOST : VRAM_SLEEP_DROP};
    options.priority = (int32_t)pick(actor, 3) - 1;
    options.flags = pick(actor, 2) ? VRAM_LEASE_AT_ONCE : 0;
    options.timeout_ns = TIMEOUT_MS * UINT64_C(1000000);
    options.capacity_bytes = CAPACITY;
    call_begin(actor);
    vram_status status = vram_lease_open(actor->holder.device, &options, &actor->holder.lease);
    call_end(actor);
    if (status != VRAM_OK) { /* others keep what it needs, or a broker is being killed */
        actor->holder.lease = NULL;
        expect(status, status == VRAM_ERR_LIMIT || status == VRAM_ERR_TIMEOUT ||
                           status == VRAM_ERR_STALE || status == VRAM_ERR_IO);
        return;
    }
    atomic_fetch_add(&shared->leases, 1);
    actor->revocations = 0;
    expect(VRAM_OK,
           vram_lease_pool_add(actor->holder.lease, actor->holder.pool, &sleep) == VRAM_OK);
}

static void revocations_count(struct actor *actor) {
    vram_lease_info info = {.size = sizeof info};
    if (actor->holder.lease && vram_lease_info_get(actor->holder.lease, &info) == VRAM_OK) {
        atomic_fetch_add(&shared->revocations, info.revocations - actor->revocations);
        actor->revocations = info.revocations;
    }
}

static void lease_end(struct actor *actor) {
    revocations_count(actor);
    call_begin(actor);
    expect(VRAM_ERR_IO, vram_lease_close(actor->holder.lease) == VRAM_OK);
    call_end(actor);
    actor->holder.lease = NULL;
}

static void block_make(struct actor *actor, struct block *block) {
    struct holder *holder = &actor->holder;
    uint64_t bytes = (1 + pick(actor, STEP_MOST / UNIT)) * UNIT;
    call_begin(actor);
    vram_status status = vram_alloc(holder->pool, bytes, holder->queue, &block->addr);
    call_end(actor);
    if (status != VRAM_OK) {
        block->addr = 0;
        atomic_fetch_add(&shared->refusals, 1);
        expect(status, vram_status_is_exhausted(status) || is_asleep(status));
        return;
    }
    *block = (struct block){block->addr, bytes, (uint32_t)actor->random, false};
    status = vram_queue_fill(holder->queue, block->addr, block->pattern, 4, bytes);
    block->known = status == VRAM_OK;
    expect(status, status == VRAM_OK || is_asleep(status));
}

static void block_check(struct actor *actor, struct block *block) {
    static uint32_t words[STEP_MOST / 4];
    struct holder *holder = &actor->holder;
    vram_pool_stats stats = {.size = sizeof stats};
    if (!block->known ||
        vram_queue_download(holder->queue, words, block->addr, block->bytes) != VRAM_OK ||
        vram_queue_wait(holder->queue, VRAM_TIMEOUT_DEFAULT) != VRAM_OK) {
        return; /* asleep */
    }
    (void)vram_pool_stats_get(holder->pool, &stats);
    if (!actor->keeps && stats.sleeps != actor->sleeps) {
        return; /* dropped meanwhile */
    }
    for (uint64_t i = 0; i < block->bytes / 4; i++) {
        if (words[i] != block->pattern) {
            atomic_fetch_add(&shared->lost, 1);
            return;
        }
    }
}

static void block_drop(struct actor *actor, struct block *block) {
    expect(VRAM_ERR_IO, vram_free(block->addr, actor->holder.queue) == VRAM_OK);
    block->addr = 0;
}

/* Wakes what sleeps, as far as others give memory for it; notes what was dropped. */
static void wake_try(struct actor *actor) {
    vram_pool_stats stats = {.size = sizeof stats};
    (void)vram_pool_stats_get(actor->holder.pool, &stats);
    for (int i = 0; i < BLOCKS && !actor->keeps && stats.sleeps != actor->sleeps; i++) {
        actor->blocks[i].known = false;
    }
    actor->sleeps = stats.sleeps;
    if (stats.asleep_bytes) {
        call_begin(actor);
        vram_status status = vram_pool_wake(actor->holder.pool, NULL);
        call_end(actor);
        expect(status, status == VRAM_OK || vram_status_is_exhausted(status) || is_asleep(status));
    }
}

static void actor_step(struct actor *actor) {
    struct block *block = &actor->blocks[pick(actor, BLOCKS)];
    uint64_t what = pick(actor, 100), given;
    if (!actor->holder.lease) {
        lease_begin(actor);
    } else if (what < 3) {
        lease_end(actor);
    } else if (what < 30) {
        call_begin(actor);
        expect(VRAM_ERR_IO, vram_lease_point(actor->holder.lease, &given) == VRAM_OK);
        call_end(actor);
        revocations_count(actor);
    } else if (what < 40) {
        wake_try(actor);
    } else if (!block->addr) {
        block_make(actor, block);
    } else if (what < 70) {
        block_check(actor, block);
    } else {
        block_drop(actor, block);
    }
}

/* Everything is given back, and every kept content is looked at once more. */
static void actor_end(struct actor *actor) {
    if (actor->holder.lease) {
        lease_end(actor);
    }
    wake_try(actor);
    for (int i = 0; i < BLOCKS; i++) {
        if (actor->blocks[i].addr) {
            block_check(actor, &actor->blocks[i]);
            block_drop(actor, &actor->blocks[i]);
        }
    }
    expect(VRAM_ERR_IO, vram_context_destroy(actor->holder.context) == VRAM_OK);
}

static void child_run(int number, uint64_t seed) {
    static struct actor actor;
    vram_device_info info = {.size = sizeof info};
    actor = (struct actor){.number = number, .random = seed};
    holder_device(&actor.holder);
    assert_ok(vram_device_info_get(actor.holder.context, 0, &info));
    actor.keeps = !(info.caps & VRAM_CAP_INTEGRATED);
    while (!atomic_load(&shared->stop)) {
        actor_step(&actor);
    }
    actor_end(&actor);
    /* A child that is the broker goes on until the others have ended, too. */
    for (int i = 0; i < 4000 && vr_mem_live_blocks(); i++) {
        vr_broker_host_end(lease_dir);
        usleep(1000);
    }
    child_leave(vr_mem_live_blocks() == 0 ? 0 : 3);
}

/* ------------------------------------------------------------------ the parent */

static pid_t child_start(int number, uint64_t seed) {
    atomic_store(&shared->child[number].since, 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child_run(number, seed);
    }
    return pid;
}

static pid_t broker_start(void) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        vram_broker_options options = {.size = sizeof options, .idle_ns = SECOND};
        (void)vram_broker_run(&options); /* a child may be the broker already */
        child_leave(0);
    }
    atomic_fetch_add(&shared->brokers, 1);
    return pid;
}

static uint64_t events(void) {
    return atomic_load(&shared->leases) + atomic_load(&shared->revocations) +
           atomic_load(&shared->kills);
}

static void hangs_check(void) {
    for (int i = 0; i < CHILDREN; i++) {
        uint64_t since = atomic_load(&shared->child[i].since), now = lease_now();
        if (since && now > since && now - since > LATE_NS) {
            fail_msg("child %d hangs", i);
        }
    }
}

static void victim_kill(pid_t *pid) {
    assert_int_equal(kill(*pid, SIGKILL), 0);
    int code = child_end(*pid);
    assert_true(code == 1000 + SIGKILL || code == 0);
    atomic_fetch_add(&shared->kills, 1);
}

static void storm(const char *backend, uint64_t rounds) {
    pid_t children[CHILDREN], broker;
    uint64_t seed = 0x9e3779b97f4a7c15u, turn = 0;
    lease_backend = backend;
    memset(shared, 0, sizeof *shared);
    broker = broker_start();
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = child_start(i, seed += 0x9e3779b97f4a7c15u);
    }
    while (events() < rounds) {
        usleep(15000);
        hangs_check();
        turn++; /* a broker lives for more than half a second: it serves nobody at first */
        if (turn % 40 == 0) {
            victim_kill(&broker);
            broker = broker_start();
        } else if (turn % 8 == 0) {
            int i = (int)(turn / 8 % CHILDREN);
            victim_kill(&children[i]);
            children[i] = child_start(i, seed += 0x9e3779b97f4a7c15u);
        }
    }
    atomic_store(&shared->stop, true);
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(child_end(children[i]), 0);
    }
    (void)kill(broker, SIGTERM);
    (void)child_end(broker);
}

static void storm_check(void) {
    uint64_t longest = 0;
    for (int i = 0; i < CHILDREN; i++) {
        uint64_t one = atomic_load(&shared->child[i].longest);
        longest = one > longest ? one : longest;
    }
    print_message("%s: %d leases, %d revocations, %d kills, %d refusals, longest call %d ms\n",
                  lease_backend, (int)shared->leases, (int)shared->revocations, (int)shared->kills,
                  (int)shared->refusals, (int)(longest / 1000000));
    if (atomic_load(&shared->wrong)) {
        fail_msg("%d calls failed, the last at line %d with %d", (int)shared->wrong,
                 (int)shared->wrong_line, (int)shared->wrong_status);
    }
    assert_int_equal(atomic_load(&shared->lost), 0);
    assert_true(longest < LATE_NS);
}

static uint64_t rounds_wanted(void) {
    const char *text = getenv("LEASE_ROUNDS");
    return text ? strtoull(text, NULL, 10) : race_rounds(300);
}

TEST(on_sim) {
    storm("sim", rounds_wanted());
    storm_check();
}

TEST(on_host) {
    storm("host", rounds_wanted());
    storm_check();
}

static int begin_file(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(lease_folder_make, lease_folder_remove)
