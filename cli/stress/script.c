/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.c: a pool is led through every level of pressure, up and down, through everything it does
 * by itself and through every step of the ladder, and what it counts is held against what was
 * planned.
 *
 * The pool may hold 100 units and blocks are whole units, so that pressure is what the script says
 * in hundredths. That needs a device that maps memory: in segments memory comes as it comes.
 */
#include "stress.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 8, HOUR_S = 3600 };

/* What is told about pressure, by edge. */
struct told {
    uint64_t warn_up, warn_down, emergency_up, emergency_down, level_up, level_down;
};

struct script {
    struct script_result *result;
    const struct target *target;
    bool simulated;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool, *other;
    vram_watch *watch;
    uint64_t unit;
    struct told told;
    vram_addr spare; /* what the callback lets go of */
    sem_t taken;     /* the other thread has what was spare */
    const char *doing;
};

/* A call that the plan has succeed: the script ends when it does not. */
#define DO(call)                                                                                   \
    do {                                                                                           \
        vram_status status_ = (call);                                                              \
        if (status_ != VRAM_OK) {                                                                  \
            say_failure(script->doing, status_);                                                   \
            return false;                                                                          \
        }                                                                                          \
    } while (0)
#define TRY(part)                                                                                  \
    do {                                                                                           \
        if (!(part)) {                                                                             \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static void expect(struct script *script, const char *name, uint64_t planned, uint64_t found) {
    struct script_result *result = script->result;
    if (result->count == SCRIPT_LINES_MAX) {
        result->wrong++; /* it would not be shown: the plan is too long */
        return;
    }
    struct script_line *line = &result->lines[result->count++];
    snprintf(line->name, sizeof line->name, "%s: %s", script->doing, name);
    line->planned = planned;
    line->found = found;
    result->wrong += planned != found;
}

static bool stats_of(struct script *script, vram_pool_stats *stats) {
    *stats = (vram_pool_stats){.size = sizeof *stats};
    DO(vram_pool_stats_get(script->pool, stats));
    return true;
}

/* Pressure in hundredths, and its level. */
static bool expect_pressure(struct script *script, uint64_t hundredths, vram_pressure_level level) {
    vram_pressure pressure = {.size = sizeof pressure};
    char name[32];
    DO(vram_pool_pressure_get(script->pool, &pressure));
    snprintf(name, sizeof name, "held at %llu %%", (unsigned long long)hundredths);
    expect(script, name, hundredths * script->unit, pressure.reserved_bytes);
    snprintf(name, sizeof name, "level at %llu %%", (unsigned long long)hundredths);
    expect(script, name, (uint64_t)level, (uint64_t)pressure.level);
    return true;
}

/* Lets time pass for the device. */
static bool pass_time(struct script *script, uint64_t ns) {
    if (script->simulated) {
        DO(vram_sim_clock_advance(script->target->context, ns));
    } else {
        struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
        nanosleep(&pause, NULL);
    }
    return true;
}

/* -------------------------------------------------------------------- levels */

static void note(void *user, const vram_pressure_event *event) {
    struct told *told = user;
    told->warn_up += event->edge == VRAM_PRESSURE_WARN && event->up;
    told->warn_down += event->edge == VRAM_PRESSURE_WARN && !event->up;
    told->emergency_up += event->edge == VRAM_PRESSURE_EMERGENCY && event->up;
    told->emergency_down += event->edge == VRAM_PRESSURE_EMERGENCY && !event->up;
    told->level_up += event->edge == VRAM_PRESSURE_LEVEL && event->up;
    told->level_down += event->edge == VRAM_PRESSURE_LEVEL && !event->up;
}

static bool expect_responses(struct script *script, uint64_t high, uint64_t emergency) {
    vram_pool_stats stats;
    TRY(stats_of(script, &stats));
    expect(script, "caches halved", high, stats.response_steps[VRAM_RESPONSE_HALVE]);
    expect(script, "rare sizes dropped", high, stats.response_steps[VRAM_RESPONSE_DROP]);
    expect(script, "emergency cleanups", emergency, stats.response_steps[VRAM_RESPONSE_EMERGENCY]);
    return true;
}

/* Up in five blocks, each above another threshold, and down again. */
static bool climb_levels(struct script *script) {
    static const struct {
        uint64_t units, sum;
        vram_pressure_level level;
        uint64_t high, emergency; /* responses by then */
    } up[] = {{59, 59, VRAM_PRESSURE_LOW, 0, 0},
              {1, 60, VRAM_PRESSURE_MEDIUM, 0, 0},
              {20, 80, VRAM_PRESSURE_HIGH, 1, 0},
              {11, 91, VRAM_PRESSURE_HIGH, 1, 1},
              {5, 96, VRAM_PRESSURE_CRITICAL, 1, 1}};
    vram_addr addrs[5];
    uint64_t released;
    script->doing = "levels";
    for (int i = 0; i < 5; i++) {
        DO(vram_alloc(script->pool, up[i].units * script->unit, script->queue, &addrs[i]));
        TRY(expect_pressure(script, up[i].sum, up[i].level));
        TRY(expect_responses(script, up[i].high, up[i].emergency));
    }
    for (int i = 5; i-- > 0;) {
        DO(vram_free(addrs[i], script->queue));
        DO(vram_queue_wait(script->queue, VRAM_TIMEOUT_DEFAULT));
        DO(vram_pool_trim(script->pool, NULL, &released));
        expect(script, "bytes given back", up[i].units * script->unit, released);
        TRY(expect_pressure(script, i ? up[i - 1].sum : 0,
                            i ? up[i - 1].level : VRAM_PRESSURE_LOW));
    }
    vram_pool_stats stats;
    TRY(stats_of(script, &stats));
    for (uint32_t i = VRAM_PRESSURE_LOW; i <= VRAM_PRESSURE_CRITICAL; i++) {
        char name[48];
        snprintf(name, sizeof name, "rises into %s",
                 vram_pressure_level_name((vram_pressure_level)i));
        expect(script, name, i != VRAM_PRESSURE_LOW, stats.rises[i]);
        snprintf(name, sizeof name, "falls into %s",
                 vram_pressure_level_name((vram_pressure_level)i));
        expect(script, name, i != VRAM_PRESSURE_CRITICAL, stats.falls[i]);
    }
    expect(script, "reported a higher level", 3, script->told.level_up);
    expect(script, "reported a lower level", 3, script->told.level_down);
    expect(script, "warned", 1, script->told.warn_up);
    expect(script, "reported the end of the warning", 1, script->told.warn_down);
    expect(script, "reported an emergency", 1, script->told.emergency_up);
    expect(script, "reported the end of the emergency", 1, script->told.emergency_down);
    return true;
}

/* ------------------------------------------------------------- by the clock */

/* `decay_ns` between ticks of the decay; every response as often as its threshold is crossed. */
static bool set_rules(struct script *script, uint64_t decay_ns) {
    vram_response_options rules = {.size = sizeof rules, .interval_ns = 1, .decay_ns = decay_ns};
    DO(vram_pool_response_set(script->pool, &rules));
    return true;
}

static bool let_time_pass(struct script *script) {
    vram_addr addrs[BLOCKS];
    vram_pressure pressure = {.size = sizeof pressure};
    vram_pool_stats stats;
    uint64_t released;
    script->doing = "time";
    for (int i = 0; i < BLOCKS; i++) {
        DO(vram_alloc(script->pool, 4096, script->queue, &addrs[i]));
    }
    for (int i = 0; i < BLOCKS; i++) {
        DO(vram_free(addrs[i], script->queue));
    }
    TRY(set_rules(script, 1000000));
    for (int i = 0; i < 3; i++) {
        TRY(pass_time(script, 2000000));
        DO(vram_pool_pressure_get(script->pool, &pressure));
    }
    TRY(set_rules(script, HOUR_S * UINT64_C(1000000000)));
    TRY(stats_of(script, &stats));
    expect(script, "ticks of the decay", 3, stats.response_steps[VRAM_RESPONSE_DECAY]);
    vram_trim_options rare = {.size = sizeof rare, .flags = VRAM_TRIM_RARE};
    DO(vram_pool_trim(script->pool, &rare, &released));
    rare.interval_ns = HOUR_S * UINT64_C(1000000000);
    DO(vram_pool_trim(script->pool, &rare, &released));
    TRY(stats_of(script, &stats));
    expect(script, "maintenances", 1, stats.response_steps[VRAM_RESPONSE_MAINTAIN]);
    DO(vram_queue_wait(script->queue, VRAM_TIMEOUT_DEFAULT));
    DO(vram_pool_trim(script->pool, NULL, &released));
    TRY(expect_pressure(script, 0, VRAM_PRESSURE_LOW));
    return true;
}

/* -------------------------------------------------------------------- ladder */

static uint64_t let_go(void *user, const vram_oom_event *event) {
    struct script *script = user;
    uint64_t bytes = script->spare ? 2 * script->unit : 0;
    (void)event;
    if (script->spare && vram_free(script->spare, script->queue) != VRAM_OK) {
        bytes = 0;
    }
    script->spare = 0;
    return bytes;
}

/* Asks for two units that are not there, with only these steps; *addr is 0 when it was refused. */
static bool ask(struct script *script, const char *steps, uint32_t fallback, uint64_t wait_ns,
                vram_addr *addr) {
    vram_ladder_options options = {
        .size = sizeof options, .steps = steps, .fallback = fallback, .wait_ns = wait_ns};
    DO(vram_pool_ladder_set(script->pool, &options));
    vram_status status = vram_alloc(script->pool, 2 * script->unit, script->queue, addr);
    if (status != VRAM_OK) {
        *addr = 0;
        if (!vram_status_is_exhausted(status)) {
            say_failure(script->doing, status);
            return false;
        }
    }
    return true;
}

/* One step by itself, which is taken and does not help. */
static bool climb_in_vain(struct script *script, vram_ladder_step step) {
    const char *name = vram_ladder_step_name(step);
    vram_pool_stats before, after;
    vram_oom_report report = {.size = sizeof report};
    vram_addr addr;
    char text[48];
    TRY(stats_of(script, &before));
    TRY(ask(script, name, 0, 0, &addr));
    TRY(stats_of(script, &after));
    snprintf(text, sizeof text, "%s is taken", name);
    expect(script, text, 1, after.ladder_steps[step] - before.ladder_steps[step]);
    snprintf(text, sizeof text, "%s in vain", name);
    expect(script, text, 1, after.refusals - before.refusals);
    DO(vram_oom_report_get(script->pool, &report));
    snprintf(text, sizeof text, "%s in the report", name);
    expect(script, text, 1,
           report.step_count == 1 && report.steps[0].step == step && report.steps[0].taken == 1);
    return true;
}

/* What the last report says of the request and of the pool. */
static bool expect_report(struct script *script) {
    vram_oom_report report = {.size = sizeof report};
    DO(vram_oom_report_get(script->pool, &report));
    expect(script, "report: the cause is the limit", VRAM_OOM_LIMIT, report.cause);
    expect(script, "report: bytes asked for", 2 * script->unit, report.asked_bytes);
    expect(script, "report: bytes live", 100 * script->unit, report.live_bytes);
    expect(script, "report: bytes reserved", 100 * script->unit, report.reserved_bytes);
    expect(script, "report: the limit", 100 * script->unit, report.limit_bytes.value);
    expect(script, "report: steps", VRAM_LADDER_REBUILD, report.step_count); /* all before it */
    return true;
}

/* Another thread, which takes what is spare and frees it when it is missed. */
static void *free_later(void *user) {
    struct script *script = user;
    struct timespec pause = {0, 1000000};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_addr addr = 0;
    (void)vram_alloc(script->pool, 2 * script->unit, script->queue, &addr);
    bool known = vram_pool_stats_get(script->pool, &stats) == VRAM_OK;
    uint64_t runs = stats.ladder_runs;
    sem_post(&script->taken);
    for (int i = 0; i < 10000 && known && stats.ladder_runs == runs; i++) {
        nanosleep(&pause, NULL);
        known = vram_pool_stats_get(script->pool, &stats) == VRAM_OK;
    }
    (void)vram_free(addr, script->queue);
    return NULL;
}

/* The pool is full but for what is spare; steps that help. */
static bool climb_with_help(struct script *script) {
    vram_pool_stats before, after;
    vram_addr addr;
    uint64_t id;
    pthread_t thread;
    DO(vram_oom_callback_add(script->device, let_go, script, &id));
    TRY(stats_of(script, &before));
    TRY(ask(script, "callbacks", 0, 0, &addr));
    TRY(stats_of(script, &after));
    expect(script, "callbacks are called", 1,
           after.ladder_steps[VRAM_LADDER_CALLBACKS] - before.ladder_steps[VRAM_LADDER_CALLBACKS]);
    expect(script, "callbacks help", 1,
           after.ladder_rescues[VRAM_LADDER_CALLBACKS] -
               before.ladder_rescues[VRAM_LADDER_CALLBACKS]);
    DO(vram_oom_callback_remove(script->device, id));
    DO(vram_free(addr, script->queue));
    if (pthread_create(&thread, NULL, free_later, script) != 0) {
        say_error("cannot start a thread");
        return false;
    }
    while (sem_wait(&script->taken) != 0) { /* a signal. */
    }
    bool asked = ask(script, "wait", 0, UINT64_C(10000000000), &addr);
    pthread_join(thread, NULL);
    TRY(asked);
    TRY(stats_of(script, &after));
    expect(script, "waiting is tried", 1,
           after.ladder_steps[VRAM_LADDER_WAIT] - before.ladder_steps[VRAM_LADDER_WAIT]);
    expect(script, "waiting helps", 1,
           after.ladder_rescues[VRAM_LADDER_WAIT] - before.ladder_rescues[VRAM_LADDER_WAIT]);
    return true;
}

/* Whether there is such memory for `ask`: none, either, where the user may not lock as much. */
static bool find_kind(struct script *script, uint32_t kind, uint32_t cap, bool *there) {
    vram_addr addr = 0;
    *there =
        !(cap & ~script->target->info.caps) && !(script->target->info.caps & VRAM_CAP_INTEGRATED);
    if (!*there || kind != VRAM_FALLBACK_PINNED) {
        return true;
    }
    vram_status status =
        vram_device_alloc(script->device, 2 * script->unit, VRAM_MEMORY_PINNED, &addr);
    *there = status != VRAM_ERR_LIMIT;
    if (!vram_status_is_exhausted(status)) {
        DO(status);
    }
    DO(vram_device_free(script->device, addr));
    return true;
}

/* Every other kind of memory that the device has; none if it is the host's anyway. */
static bool fall_back(struct script *script) {
    static const struct {
        uint32_t kind, cap;
        const char *name;
    } kinds[] = {{VRAM_FALLBACK_MANAGED, VRAM_CAP_MANAGED, "managed"},
                 {VRAM_FALLBACK_PINNED, VRAM_CAP_PINNED, "pinned"},
                 {VRAM_FALLBACK_HOST, 0, "host"}};
    vram_pool_stats before, after;
    vram_addr addr;
    char text[48];
    for (int i = 0; i < 3; i++) {
        bool there;
        TRY(find_kind(script, kinds[i].kind, kinds[i].cap, &there));
        if (!there) {
            script->result->skipped++;
            continue;
        }
        TRY(stats_of(script, &before));
        TRY(ask(script, "fallback", kinds[i].kind, 0, &addr));
        TRY(stats_of(script, &after));
        snprintf(text, sizeof text, "falls back to %s memory", kinds[i].name);
        expect(script, text, 1, after.fallbacks - before.fallbacks);
        snprintf(text, sizeof text, "%s memory in use", kinds[i].name);
        expect(script, text, 2 * script->unit, after.fallback_bytes - before.fallback_bytes);
        DO(vram_free(addr, script->queue));
    }
    TRY(stats_of(script, &after));
    expect(script, "no other memory is left in use", 0, after.fallback_bytes);
    return true;
}

static bool climb_ladder(struct script *script) {
    static const vram_ladder_step steps[] = {
        VRAM_LADDER_DRAIN,  VRAM_LADDER_FINISHED, VRAM_LADDER_MOVE, VRAM_LADDER_TRIM,
        VRAM_LADDER_OTHERS, VRAM_LADDER_CLEANUP,  VRAM_LADDER_RETRY};
    vram_addr first, second, addr;
    vram_pool_stats stats;
    uint64_t runs;
    script->doing = "ladder";
    DO(vram_alloc(script->pool, 98 * script->unit, script->queue, &first));
    DO(vram_alloc(script->pool, 2 * script->unit, script->queue, &second));
    TRY(expect_pressure(script, 100, VRAM_PRESSURE_CRITICAL));
    TRY(expect_responses(script, 2, 2));
    TRY(stats_of(script, &stats));
    runs = stats.ladder_runs;
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        TRY(climb_in_vain(script, steps[i]));
    }
    TRY(ask(script, "", 0, 1, &addr)); /* all of them, in order */
    TRY(expect_report(script));
    script->spare = second;
    TRY(climb_with_help(script));
    TRY(fall_back(script));
    TRY(stats_of(script, &stats));
    expect(script, "times that memory was short", 13 - script->result->skipped,
           stats.ladder_runs - runs);
    return true;
}

/* ----------------------------------------------------------------------- run */

static bool set_up(struct script *script) {
    const vram_device_info *info = &script->target->info;
    vram_pressure pressure = {.size = sizeof pressure};
    script->doing = "setting up the script";
    script->unit = 2 * info->vmm_granule.value;
    script->result->unit_bytes = script->unit;
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 100 * script->unit};
    vram_pool_options options = {.size = sizeof options, .limits = &limits, .name = "script"};
    vram_watch_options watch = {.size = sizeof watch,
                                .call = note,
                                .user = &script->told,
                                .edges = VRAM_PRESSURE_WARN | VRAM_PRESSURE_EMERGENCY |
                                         VRAM_PRESSURE_LEVEL};
    DO(vram_device_open(script->target->context, script->target->index, &script->device));
    DO(vram_device_pressure_get(script->device, &pressure));
    if (pressure.known && pressure.value > 0.4) {
        say_error("%.0f %% of the device's memory is in use already, but the script needs most of "
                  "it; --backend sim always has it free",
                  100 * pressure.value);
        return false;
    }
    DO(vram_queue_create(script->device, NULL, &script->queue));
    DO(vram_pool_create(script->device, &options, &script->pool));
    DO(vram_pool_create(script->device, NULL, &script->other));
    TRY(set_rules(script, HOUR_S * UINT64_C(1000000000)));
    DO(vram_pool_watch_begin(script->pool, &watch, &script->watch));
    return true;
}

bool script_run(const struct target *target, bool simulated, const struct terminal *terminal,
                struct script_result *result) {
    static bool (*const parts[])(struct script *) = {set_up, climb_levels, let_time_pass,
                                                     climb_ladder};
    struct script script = {.result = result, .target = target, .simulated = simulated};
    bool good = true;
    *result = (struct script_result){.count = 0};
    sem_init(&script.taken, 0, 0);
    for (uint32_t i = 0; i < 4 && good; i++) {
        terminal_progress(terminal, i, 4, "parts");
        good = parts[i](&script);
    }
    terminal_progress_end(terminal);
    vram_device_close(script.device);
    sem_destroy(&script.taken);
    return good;
}
