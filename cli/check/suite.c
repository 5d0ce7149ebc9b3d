/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite.c: the list of cases, and the runner that sets one up and takes it down.
 *
 * Taking down has one order, whatever happened before: gates open, so that no queue is stuck;
 * devices close, which waits for their work; contexts end; then host memory goes, because copies
 * may have used it until then. What a passing case leaves in the ledger, and on a simulated device
 * what it leaves with the driver, is compared on the way.
 */
#include "case.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the list */

#define CHECK_GROUP_MAP(X)                                                                         \
    X(base)                                                                                        \
    X(log)                                                                                         \
    X(context)                                                                                     \
    X(device)                                                                                      \
    X(memory)                                                                                      \
    X(native)                                                                                      \
    X(queue)                                                                                       \
    X(point)                                                                                       \
    X(after)                                                                                       \
    X(stream)                                                                                      \
    X(readback)                                                                                    \
    X(transfer)                                                                                    \
    X(fill)                                                                                        \
    X(pinned)                                                                                      \
    X(staging)                                                                                     \
    X(managed)                                                                                     \
    X(async)                                                                                       \
    X(strategy)                                                                                    \
    X(device_code)                                                                                 \
    X(vmm)                                                                                         \
    X(mapping)                                                                                     \
    X(peer)                                                                                        \
    X(kernel)                                                                                      \
    X(pool)                                                                                        \
    X(pressure)                                                                                    \
    X(reuse)                                                                                       \
    X(shortage)                                                                                    \
    X(provider)                                                                                    \
    X(resize)                                                                                      \
    X(sleep)                                                                                       \
    X(lease)                                                                                       \
    X(share)                                                                                       \
    X(safety)                                                                                      \
    X(compose)                                                                                     \
    X(together)                                                                                    \
    X(buffer)                                                                                      \
    X(ring)                                                                                        \
    X(compute)                                                                                     \
    X(sim)                                                                                         \
    X(error)                                                                                       \
    X(handle)                                                                                      \
    X(thread)                                                                                      \
    X(lifetime)

/* One array in each cases_NAME.c, ended by a row without a name. */
#define GROUP_DECLARE(name) extern const struct check_case check_cases_##name[];
CHECK_GROUP_MAP(GROUP_DECLARE)
#undef GROUP_DECLARE

static const struct check_case *const groups[] = {
#define GROUP_ROW(name) check_cases_##name,
    CHECK_GROUP_MAP(GROUP_ROW)
#undef GROUP_ROW
};

enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };

const struct check_case *check_case_at(size_t index) {
    for (size_t g = 0; g < GROUP_COUNT; g++) {
        for (const struct check_case *row = groups[g]; row->name != NULL; row++) {
            if (index-- == 0) {
                return row;
            }
        }
    }
    return NULL;
}

/* ------------------------------------------------------ contexts and devices */

/* Contexts are remembered until they end, by the case or by the runner. */
bool check_context_at(struct check *check, const char *backends, const char *sim,
                      vram_context **context, struct check_place place) {
    const vram_context_options *defaults = check->target->options;
    vram_context_options options = {.size = sizeof options};
    uint32_t slot = 0;

    while (slot < CHECK_CONTEXTS_MAX && check->contexts[slot] != NULL) {
        slot++;
    }
    CHECK_TRY(check_that(check, slot < CHECK_CONTEXTS_MAX, place));
    options.backends = backends != NULL || defaults == NULL ? backends : defaults->backends;
    options.sim = sim != NULL || defaults == NULL ? sim : defaults->sim;
    vram_context *made = NULL;
    CHECK_TRY(check_ok(check, vram_context_create(&options, &made), place));
    check->contexts[slot] = *context = made;
    return true;
}

void check_context_end(struct check *check, vram_context *context) {
    for (uint32_t i = 0; i < CHECK_CONTEXTS_MAX; i++) {
        if (check->contexts[i] == context) {
            check->contexts[i] = NULL;
        }
    }
    vram_context_destroy(context);
}

/* Devices are remembered in the order of opening and closed in reverse. */
bool check_open_at(struct check *check, vram_context *context, uint32_t index,
                   struct check_device **device, struct check_place place) {
    CHECK_TRY(check_that(check, check->device_count < CHECK_DEVICES_MAX, place));
    struct check_device *slot = &check->devices[check->device_count];
    vram_device *opened = NULL;

    memset(slot, 0, sizeof *slot);
    slot->info.size = sizeof slot->info;
    CHECK_TRY(check_ok(check, vram_device_info_get(context, index, &slot->info), place));
    CHECK_TRY(check_ok(check, vram_device_open(context, index, &opened), place));
    slot->device = opened;
    check->device_count++;
    *device = slot;
    return true;
}

void check_close(struct check_device *device) {
    vram_device *open = device->device;
    device->device = NULL;
    vram_device_close(open);
}

/* Peers are of one backend; that is all a case needs to know of it. */
bool check_other_device(struct check *check, uint32_t *index) {
    uint32_t count = vram_device_count(check->context);
    for (uint32_t i = 0; i < count; i++) {
        vram_device_info info = {.size = sizeof info};
        if (i != check->target->device &&
            vram_device_info_get(check->context, i, &info) == VRAM_OK &&
            strcmp(info.backend, check->info.backend) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* -------------------------------------------------------------- the runner */

/* What a simulated driver says of a case; zero elsewhere. */
static vram_sim_state sim_state(const struct check *check) {
    vram_sim_state state = {.size = sizeof state};
    vram_error before = *vram_error_get();

    if (strcmp(check->info.backend != NULL ? check->info.backend : "", "sim") != 0 ||
        vram_sim_state_get(check->context, &state) != VRAM_OK) {
        memset(&state, 0, sizeof state);
    }
    if (before.status == VRAM_OK) {
        vram_error_clear();
    }
    return state;
}

bool check_driver_failed(const struct check *check) {
    return sim_state(check).faults > 0;
}

/* A breach of protocol is the library's mistake, faults or not. Leaks are only judged without. */
static void judge_sim(struct check *check, const vram_sim_state *before) {
    vram_sim_state after = sim_state(check);
    struct check_place place = CHECK_AT("simulated driver");

    if (after.violations > before->violations) {
        char text[160] = "";
        vram_sim_violation(check->context, before->violations, text, sizeof text);
        check_fail(check, place, "protocol violated: %s", text);
    }
    if (after.faults == before->faults && check->result->outcome == CHECK_PASSED) {
        check_equal(check, after.live_handles, before->live_handles, CHECK_AT("native handles"));
        check_equal(check, after.live_bytes, before->live_bytes, CHECK_AT("device bytes"));
    }
}

/* The ledger must agree with the device until the very end of a case, whether it passed or any
   failing call ended it. */
static void close_devices(struct check *check) {
    for (uint32_t i = check->device_count; i-- > 0;) {
        struct check_device *device = &check->devices[i];
        if (device->device != NULL && !device->unledgered) {
            if (check->result->outcome == CHECK_PASSED) {
                check_ledger_at(check, device, CHECK_AT("ledger at the end"));
            } else if (check->result->outcome == CHECK_ERRORED) {
                check_unchanged_at(check, device, CHECK_AT("ledger after the failure"));
            }
        }
        check_close(device);
    }
}

static void take_down(struct check *check, const vram_sim_state *sim_before) {
    for (uint32_t i = 0; i < CHECK_GATES_MAX; i++) {
        if (check->gates[i] != NULL) {
            check_gate_open(&(struct check_gate){.word = check->gates[i]});
        }
    }
    close_devices(check);
    for (uint32_t i = 0; i < CHECK_CONTEXTS_MAX; i++) {
        /* The first is the case's own; a simulation is asked before it ends. */
        if (check->contexts[i] != check->context || check->context == NULL) {
            vram_context_destroy(check->contexts[i]);
        }
    }
    if (check->context != NULL) {
        judge_sim(check, sim_before);
    }
    if (check->context != check->target->context) {
        vram_context_destroy(check->context);
    }
    check_host_end(check);
}

/* A context that cannot be made ends the case before it begins, like any other call that fails. */
static bool set_up(struct check *check) {
    if (check->target->context != NULL) {
        check->context = check->target->context;
    } else {
        CHECK_CONTEXT(check, NULL, NULL, &check->context);
    }
    check->info.size = sizeof check->info;
    CHECK_OK(check, vram_device_info_get(check->context, check->target->device, &check->info));
    return true;
}

/* A device that hangs must not hold the suite for the default minute. A value that the program or
   the environment has set is kept; true if there was none. */
static bool bound_waits(void) {
    vram_option_source source = VRAM_OPTION_FROM_API;
    char text[64];
    return vram_option_get("wait_timeout", text, sizeof text, &source) == VRAM_OK &&
           source == VRAM_OPTION_FROM_DEFAULT && vram_option_set("wait_timeout", "30s") == VRAM_OK;
}

void check_run(const struct check_case *which, const struct check_target *target,
               struct check_result *result) {
    struct check check = {.target = target, .result = result, .random = 1 + target->seed};

    memset(result, 0, sizeof *result);
    pthread_mutex_init(&check.lock, NULL);
    for (const char *letter = which->name; *letter != 0; letter++) {
        check.random = check.random * 31 + (unsigned char)*letter;
    }
    bool bounded = bound_waits();
    vram_error_clear();
    if (set_up(&check)) {
        vram_sim_state before = sim_state(&check);
        if (!which->run(&check) && result->outcome == CHECK_PASSED) {
            check_fail(&check, CHECK_AT(which->name), "ended early without saying why");
        }
        take_down(&check, &before);
    } else {
        take_down(&check, &(vram_sim_state){0});
    }
    if (bounded) {
        vram_option_set("wait_timeout", NULL);
    }
    pthread_mutex_destroy(&check.lock);
}
