/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial_world.h: one call on one object, over and over, while one call after the other fails: of
 * the host's memory, of the driver, and of a driver that reports success with an impossible result.
 *
 * After every failure the caller's memory is overwritten and the queues are drained; then
 * everything that can be seen of the object is what it was before, nothing has been read from or
 * written to the caller's memory since, and the same call succeeds and does all that it does
 * without a fault. A call that succeeds in spite of a fault has done the same.
 */
#ifndef TEST_TRIAL_WORLD_H
#define TEST_TRIAL_WORLD_H

#include "byte_units.h"
#include "unit/fault_step.h"
#include "unit/object_state.h"
#include "unit/pool_flags.h"

enum { SCENE_BYTES = 320 * 1024, AFTER = 0xEE };

struct trial_fault {
    const char *name;
    int32_t code; /* of the driver; 0: a lie, or the host's memory */
    vram_sim_lie lie;
    bool for_ever;
};

/* What a trial works with. */
struct scene {
    struct rig rig;
    vram_queue *side; /* a second queue of the device */
    vram_pool *pool;
    uint64_t bytes; /* of area, target and host, as the trial says */
    vram_addr area, target;
    unsigned char *host;
    void *object;
    vram_buffer *buffer;
    vram_addr addr;
    const struct trial_fault *fault; /* NULL: none */
    bool struck;                     /* it, so far */
};

enum trial_mark {
    TRIAL_PARTIAL =
        1 << 0, /* a driver that fails in the middle leaves a part of the work: errors.md */
    TRIAL_WRITES_HOST = 1 << 1, /* of it, in the caller's memory */
    TRIAL_UNDERWAY = 1 << 2, /* work that a driver accepted and then failed may run on: errors.md */
    TRIAL_NEVER_FAILS = 1 << 3,
    TRIAL_LOSES = 1 << 4, /* addresses that a driver never unmaps are lost, and missing later */
    TRIAL_LOGS = 1 << 5   /* an error, where the driver does not let a part be undone */
};

struct trial {
    const char *name;
    void (*make)(struct scene *scene);
    vram_status (*call)(struct scene *scene);
    void (*look)(struct scene *scene, struct object_state *state);
    void (*end)(struct scene *scene);
    uint32_t marks;
    uint64_t bytes;  /* 0: 24 KiB */
    const char *sim; /* NULL: "memory=64M,granule=64K,lag=5" */
};

#define MARKED(name_, make_, call_, look_, end_, marks_)                                           \
    { .name = name_, .make = make_, .call = call_, .look = look_, .end = end_, .marks = marks_ }
#define TRIAL(name_, make_, call_, look_, end_) MARKED(name_, make_, call_, look_, end_, 0)
#define TRIALS(rows)                            trials_run(rows, sizeof(rows) / sizeof(rows)[0])

enum { TRIAL_MEMORY_ONCE = 0, TRIAL_DRIVER_MEMORY_ONCE = 2 }; /* of these */

static const struct trial_fault trial_faults[] = {
    {"no memory, once", 0, 0, false},
    {"no memory, for ever", 0, 0, true},
    {"driver out of memory, once", VRAM_SIM_OUT_OF_MEMORY, 0, false},
    {"driver out of memory, for ever", VRAM_SIM_OUT_OF_MEMORY, 0, true},
    {"driver's unknown code, once", 9999, 0, false},
    {"driver's unknown code, for ever", 9999, 0, true},
    {"device lost", VRAM_SIM_DEVICE_LOST, 0, false},
    {"lie: null", 0, VRAM_SIM_LIE_NULL, false},
    {"lie: misaligned", 0, VRAM_SIM_LIE_MISALIGNED, false},
    {"lie: overlap", 0, VRAM_SIM_LIE_OVERLAP, false},
    {"lie: null, for ever", 0, VRAM_SIM_LIE_NULL, true},
};

static inline void host_fill(struct scene *scene) {
    static unsigned char pattern[SCENE_BYTES];
    for (uint64_t i = 0; !pattern[1] && i < SCENE_BYTES; i++) {
        pattern[i] = (unsigned char)((i * 131 + i / 251 + 7) % 199); /* never AFTER */
    }
    memcpy(scene->host, pattern, scene->bytes);
}

static inline struct scene scene_make(const struct trial *trial) {
    struct scene scene = {.bytes = trial->bytes ? trial->bytes : 24 * KIB};
    assert_ok(vram_option_set("staging_slot", "64K"));
    assert_ok(vram_option_set("staging_threads", "1"));
    scene.rig = rig_make("sim", trial->sim ? trial->sim : "memory=64M,granule=64K,lag=5");
    assert_ok(vram_queue_create(scene.rig.device, NULL, &scene.side));
    assert_ok(test_pool_create(scene.rig.device, NULL, &scene.pool));
    scene.host = malloc(scene.bytes);
    assert_non_null(scene.host);
    assert_ok(vram_alloc(scene.pool, scene.bytes, scene.rig.queue, &scene.area));
    assert_ok(vram_alloc(scene.pool, scene.bytes, scene.rig.queue, &scene.target));
    assert_ok(vram_queue_fill(scene.rig.queue, scene.area, 0x77, 1, scene.bytes));
    assert_ok(vram_queue_fill(scene.rig.queue, scene.target, 0x11, 1, scene.bytes));
    assert_ok(vram_queue_wait(scene.rig.queue, VRAM_TIMEOUT_DEFAULT));
    host_fill(&scene);
    if (trial->make) {
        trial->make(&scene);
    }
    return scene;
}

static inline void scene_drain(struct scene *scene) {
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_wait(scene->side, VRAM_TIMEOUT_DEFAULT));
}

static inline struct object_state scene_look(const struct trial *trial, struct scene *scene,
                                             bool contents) {
    struct object_state state = {.contents = contents};
    state_pool(&state, scene->pool);
    state_memory(&state, "area", scene->rig.queue, scene->area, scene->bytes);
    state_memory(&state, "~target", scene->rig.queue, scene->target, scene->bytes);
    if (trial->look) {
        trial->look(scene, &state);
    }
    return state;
}

static inline void scene_end(const struct trial *trial, struct scene *scene, bool clean) {
    if (trial->end) {
        trial->end(scene);
    }
    assert_ok(vram_free(scene->area, scene->rig.queue));
    assert_ok(vram_free(scene->target, scene->rig.queue));
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(scene->pool, &stats));
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    if (clean) {
        rig_end_clean(&scene->rig);
    } else {
        vram_context_destroy(scene->rig.context);
    }
    free(scene->host);
}

static inline void trial_arm(struct scene *scene, const struct trial_fault *fault, uint64_t nth) {
    vram_sim_fault plan = {.size = sizeof plan,
                           .nth = nth,
                           .for_ever = fault->for_ever,
                           .code = fault->code,
                           .lie = fault->lie};
    if (fault->code || fault->lie) {
        assert_ok(vram_sim_fault_set(scene->rig.context, &plan));
    } else {
        vr_mem_fail_at(nth, fault->for_ever);
    }
}

/* Whether the driver refuses from some call on everything, also to undo what was done before. */
static inline bool driver_refuses(const struct scene *scene) {
    return scene->fault && scene->fault->code && scene->fault->for_ever;
}

/* Whether the fault struck, also in a call that was disarmed before it was over. */
static inline bool trial_disarm(struct scene *scene) {
    scene->struck |= sim_state(&scene->rig).faults + vr_mem_failed() > 0;
    vr_mem_fail_at(0, false);
    assert_ok(vram_sim_fault_set(scene->rig.context, NULL));
    return scene->struck;
}

/* For calls that make scene->object. What the device has given out tells whether it was given back,
   unless the driver refuses that; how much it is the call may choose. */
static inline void look_made(struct scene *scene, struct object_state *state) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(scene->rig.device, &info));
    state_number(state, "made", scene->object != NULL);
    if (!driver_refuses(scene)) {
        state_number(state, "@device.held", info.held_bytes);
        state_number(state, "@device.held_count", info.held_count);
    }
}

/* After a failed call nothing accesses the caller's memory. */
static inline void expect_host_left_alone(struct scene *scene, bool lost) {
    memset(scene->host, AFTER, scene->bytes);
    if (!lost) {
        scene_drain(scene);
    }
    assert_int_equal(scene->host[0], AFTER);
    assert_memory_equal(scene->host, scene->host + 1, scene->bytes - 1); /* all of them */
}

/* Of a part of the work nothing is from the caller's memory as it was after the call. */
static inline void expect_no_late_bytes(struct scene *scene) {
    unsigned char *found = malloc(scene->bytes);
    assert_non_null(found);
    assert_ok(vram_queue_download(scene->rig.queue, found, scene->target, scene->bytes));
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_null(memchr(found, AFTER, scene->bytes));
    free(found);
}

/* The call has failed: everything is as it was. True: it was not, which was printed. */
static inline bool failure_left_changes(const struct trial *trial, struct scene *scene,
                                        const struct object_state *before,
                                        const struct trial_fault *fault) {
    bool lost = fault->code == VRAM_SIM_DEVICE_LOST;
    bool underway = trial->marks & TRIAL_UNDERWAY && fault->code;
    bool partial = trial->marks & TRIAL_PARTIAL || underway;
    if (underway && !lost) {
        scene_drain(scene);
    }
    uint32_t host = vr_crc32(0, scene->host, scene->bytes);
    expect_host_left_alone(scene, lost);
    struct object_state after = scene_look(trial, scene, !lost);
    bool differs = state_differs(before, &after, partial ? "~" : "");
    if (partial && !lost) {
        expect_no_late_bytes(scene);
    }
    host_fill(scene);
    return differs || (!(partial && trial->marks & TRIAL_WRITES_HOST) &&
                       host != vr_crc32(0, scene->host, scene->bytes));
}

static unsigned trials_wrong;

/* One run; whether the fault struck. `whole` is what the call does without one. */
static inline bool trial_run(const struct trial *trial, const struct trial_fault *fault,
                             uint64_t nth, const struct object_state *whole) {
    bool lost = fault->code == VRAM_SIM_DEVICE_LOST, wrong;
    /* False successes are logged as errors, too. */
    bool logs = fault->lie || (trial->marks & TRIAL_LOGS && fault->code);
    vram_log_set(logs ? NULL : on_log, NULL, VRAM_LOG_ERROR);
    struct scene scene = scene_make(trial);
    scene.fault = fault;
    struct object_state before = scene_look(trial, &scene, !lost);
    vram_error_clear();
    trial_arm(&scene, fault, nth);
    vram_status status = trial->call(&scene), again = VRAM_OK;
    bool struck = trial_disarm(&scene), repeat = !(lost && struck);
    vram_error error = *vram_error_get();
    if (status != VRAM_OK) {
        wrong = !struck || error.status != status || trial->marks & TRIAL_NEVER_FAILS ||
                failure_left_changes(trial, &scene, &before, fault);
        repeat = repeat && !(trial->marks & TRIAL_LOSES && fault->code && fault->for_ever);
        if (!wrong && repeat) {
            again = trial->call(&scene);
            wrong = again != VRAM_OK;
        }
    } else {
        wrong = error.status != VRAM_OK;
    }
    if (!wrong && repeat) {
        scene_drain(&scene);
        struct object_state after = scene_look(trial, &scene, true);
        wrong = state_differs(whole, &after, "@");
    }
    if (wrong) {
        print_error("%s: %s, number %llu: answered %s (%s)%s%s\n", trial->name, fault->name,
                    (unsigned long long)nth, vram_status_name(status), error.text,
                    again == VRAM_OK ? "" : ", and then ",
                    again == VRAM_OK ? "" : vram_error_get()->text);
        trials_wrong++;
    }
    if (wrong || (lost && struck)) {
        vram_context_destroy(scene.rig.context);
        free(scene.host);
    } else {
        scene_end(trial, &scene, !fault->lie);
    }
    return struck;
}

/* One call of the object, with every call below it failing in turn. */
static inline void trial_all(const struct trial *trial) {
    struct scene scene = scene_make(trial);
    vram_error_clear();
    assert_ok(trial->call(&scene));
    expect_no_record();
    scene_drain(&scene);
    struct object_state whole = scene_look(trial, &scene, true);
    scene_end(trial, &scene, true);
    for (size_t i = 0; i < sizeof trial_faults / sizeof trial_faults[0]; i++) {
        uint64_t nth = 1 + i % FAULT_STEP;
        while (trial_run(trial, &trial_faults[i], nth, &whole)) {
            nth += FAULT_STEP;
            assert_true(nth < 500);
        }
    }
}

static inline void trials_run(const struct trial *trials, size_t count) {
    trials_wrong = 0;
    for (size_t i = 0; i < count; i++) {
        trial_all(&trials[i]);
    }
    assert_int_equal(trials_wrong, 0);
}

#endif
