/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_sim.c: failures on demand, on simulated devices. Each case makes a context of its own,
 * since a fault plan is the whole context's.
 */
#include "case.h"

#include <string.h>

static bool begin(struct check *check, const char *text, vram_context **context,
                  struct check_device **device) {
    if (strcmp(check->info.backend, "sim") != 0) {
        return check_skip(check, "the device is not simulated");
    }
    CHECK_CONTEXT(check, "sim", text, context);
    CHECK_OPEN_OF(check, *context, 0, device);
    return true;
}

/* Every code of the driver becomes a status of ours, with the code in the record. */
static bool codes(struct check *check) {
    static const struct {
        int32_t code;
        vram_status status;
    } rows[] = {{VRAM_SIM_OUT_OF_MEMORY, VRAM_ERR_DEVICE_MEMORY},
                {VRAM_SIM_HOST_MEMORY, VRAM_ERR_HOST_MEMORY},
                {VRAM_SIM_NOT_SUPPORTED, VRAM_ERR_UNSUPPORTED},
                {9999, VRAM_ERR_BACKEND},
                {-1, VRAM_ERR_BACKEND}};
    vram_context *context;
    struct check_device *device;
    vram_addr addr = CHECK_CANARY, fine;

    CHECK_TRY(begin(check, "devices=1", &context, &device));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_sim_fault fault = {.size = sizeof fault, .call = VRAM_SIM_ALLOC, .nth = 1};
        fault.code = rows[i].code;
        check_note(check, "code %d", (int)rows[i].code);
        CHECK_OK(check, vram_sim_fault_set(context, &fault));
        CHECK_STATUS(check, vram_device_alloc(device->device, 1, VRAM_MEMORY_DEVICE, &addr),
                     rows[i].status);
        CHECK_EQUAL(check, (uint64_t)vram_error_get()->native_code, (uint64_t)rows[i].code);
        CHECK_THAT(check, strcmp(vram_error_get()->backend, "sim") == 0);
        CHECK_EQUAL(check, addr, CHECK_CANARY);
        CHECK_LEDGER(check, device);
        CHECK_ALLOC(check, device, 1, &fine); /* the fault strikes once */
    }
    return true;
}

/* A driver that says success and lies is found out. */
static bool lies(struct check *check) {
    static const vram_sim_lie list[] = {VRAM_SIM_LIE_NULL, VRAM_SIM_LIE_MISALIGNED,
                                        VRAM_SIM_LIE_OVERLAP};
    vram_context *context;
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_addr addr = CHECK_CANARY;

    CHECK_TRY(begin(check, "devices=1", &context, &device));
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 5000, &buffer);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        vram_sim_fault fault = {
            .size = sizeof fault, .call = VRAM_SIM_ALLOC, .nth = 1, .lie = list[i]};
        check_note(check, "lie %d", (int)list[i]);
        CHECK_OK(check, vram_sim_fault_set(context, &fault));
        CHECK_STATUS(check, vram_device_alloc(device->device, 1, VRAM_MEMORY_DEVICE, &addr),
                     VRAM_ERR_CORRUPT);
        CHECK_EQUAL(check, addr, CHECK_CANARY);
        CHECK_LEDGER(check, device);
    }
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* What a program can still do: learn of it, give everything back, close. */
static bool lost(struct check *check) {
    vram_context *context;
    struct check_device *device;
    vram_queue *queue;
    vram_addr addr, other = CHECK_CANARY;
    vram_point point;
    vram_memory_info info = {.size = sizeof info};
    vram_sim_fault fault = {
        .size = sizeof fault, .call = VRAM_SIM_COPY, .nth = 1, .code = VRAM_SIM_DEVICE_LOST};

    CHECK_TRY(begin(check, "devices=1", &context, &device));
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, 100, &addr);
    CHECK_OK(check, vram_queue_mark(queue, &point));
    CHECK_OK(check, vram_sim_fault_set(context, &fault));
    CHECK_STATUS(check, vram_queue_copy(queue, addr, addr + 50, 50), VRAM_ERR_DEVICE_LOST);
    CHECK_STATUS(check, vram_device_alloc(device->device, 1, VRAM_MEMORY_DEVICE, &other),
                 VRAM_ERR_DEVICE_LOST);
    CHECK_STATUS(check, vram_queue_fill(queue, addr, 0, 1, 10), VRAM_ERR_DEVICE_LOST);
    CHECK_STATUS(check, vram_queue_wait(queue, CHECK_DEADLINE_NS), VRAM_ERR_DEVICE_LOST);
    CHECK_OK(check, vram_memory_info_get(device->device, &info));
    CHECK_THAT(check, info.lost && info.held_count == 1 && other == CHECK_CANARY);
    CHECK_FREE(check, device, addr); /* bookkeeping goes on */
    CHECK_LEDGER(check, device);
    return true;
}

/* One of two devices is lost; the other does not notice. */
static bool other_lives(struct check *check) {
    vram_context *context;
    struct check_device *gone, *alive;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_addr addr = CHECK_CANARY;
    vram_sim_fault fault = {
        .size = sizeof fault, .call = VRAM_SIM_ALLOC, .nth = 1, .code = VRAM_SIM_DEVICE_LOST};

    CHECK_TRY(begin(check, "devices=2", &context, &gone));
    CHECK_OPEN_OF(check, context, 1, &alive);
    CHECK_QUEUE(check, alive, &queue);
    CHECK_BUFFER(check, alive, queue, 5000, &buffer);
    CHECK_OK(check, vram_sim_fault_set(context, &fault));
    CHECK_STATUS(check, vram_device_alloc(gone->device, 1, VRAM_MEMORY_DEVICE, &addr),
                 VRAM_ERR_DEVICE_LOST);
    CHECK_VERIFY(check, &buffer);
    CHECK_FILL(check, &buffer, 0, 3, 1, 5000);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* One call of ours is one call of the driver here: no hidden traffic. */
static bool journal(struct check *check) {
    vram_context *context;
    struct check_device *device;
    vram_sim_state before = {.size = sizeof before}, after = {.size = sizeof after};
    vram_sim_entry entry;
    vram_addr addr;
    char text[100];

    CHECK_TRY(begin(check, "devices=1,journal=16", &context, &device));
    CHECK_OK(check, vram_sim_state_get(context, &before));
    CHECK_ALLOC(check, device, 100, &addr);
    CHECK_OK(check, vram_sim_journal_get(context, 0, &entry));
    CHECK_THAT(check, entry.call == VRAM_SIM_ALLOC && entry.code == VRAM_SIM_SUCCESS);
    CHECK_EQUAL(check, entry.addr, addr);
    CHECK_OK(check, vram_sim_state_get(context, &after));
    CHECK_EQUAL(check, after.calls, before.calls + 1);
    CHECK_EQUAL(check, entry.number, after.calls);
    CHECK_EQUAL(check, after.live_bytes, before.live_bytes + check_granule(device));
    CHECK_EQUAL(check, after.violations, 0);
    CHECK_STATUS(check, vram_sim_journal_get(context, 16, &entry), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_sim_violation(context, 0, text, sizeof text), VRAM_ERR_INVALID);
    CHECK_THAT(check, strcmp(vram_sim_call_name(VRAM_SIM_ALLOC), "alloc") == 0);
    CHECK_THAT(check, strcmp(vram_sim_call_name((vram_sim_call)999), "unknown") == 0);
    return true;
}

/* The controls of a simulation, where there is none and with nonsense. */
static bool controls(struct check *check) {
    bool sim = strcmp(check->info.backend, "sim") == 0;
    vram_context *context;
    vram_sim_state state = {.size = sizeof state}, unsized = {.size = 0};
    vram_sim_fault never = {.size = sizeof never, .call = VRAM_SIM_ANY, .nth = 0, .code = 1};

    CHECK_CONTEXT(check, check->info.backend, NULL, &context);
    if (!sim) {
        CHECK_STATUS(check, vram_sim_state_get(context, &state), VRAM_ERR_UNSUPPORTED);
        CHECK_STATUS(check, vram_sim_fault_set(context, NULL), VRAM_ERR_UNSUPPORTED);
        return true;
    }
    CHECK_STATUS(check, vram_sim_fault_set(context, &never), VRAM_ERR_INVALID);
    never.nth = 1;
    never.call = VRAM_SIM_CALL_COUNT;
    CHECK_STATUS(check, vram_sim_fault_set(context, &never), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_sim_state_get(context, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_sim_state_get(context, &unsized), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_sim_fault_set(context, NULL));
    CHECK_OK(check, vram_sim_state_get(context, &state));
    CHECK_EQUAL(check, state.faults, 0);
    return true;
}

const struct check_case check_cases_sim[] = {
    {"sim.codes", "each code of a driver becomes the right status, and unknown ones never success",
     codes},
    {"sim.lies", "a driver that reports success with a bad address is detected", lies},
    {"sim.lost", "on a lost device everything but freeing fails, and waits end", lost},
    {"sim.other_lives", "losing one device does not affect the other", other_lives},
    {"sim.journal", "the simulated driver remembers what it was asked", journal},
    {"sim.controls", "the simulation's controls refuse nonsense and real devices", controls},
    {NULL, NULL, NULL},
};
