/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_conf.c: whatever text VRAM_CONF, VRAM_SIM, an option's value or a list of backends is, it is
 * read or refused, entries lie inside the text, and a simulation that is accepted can be made.
 */
#include "fuzz.h"

#include "backend/sim/sim_config.h"
#include "base/conf.h"
#include "base/memory.h"
#include "base/option.h"
#include "vram/sim.h"
#include "vram/vram.h"

#include <string.h>

static const char fuzz_words[] =
    " devices= memory= granule= profile= h200 vmm=off info=off real=on seed= lag= lose= journal="
    " fault= :forever create:1 \" , = G K ms backends= sim= log= warn move_share= pool_slack="
    " wait_timeout= 1s any:3:2 host cuda device_limit=";

enum { LOADED = 64 };

/* Every entry lies in the text, and the cursor gets on. */
static void read_entries(const char *text) {
    const char *end = text + strlen(text), *cursor = text, *before = cursor;
    struct vr_conf_entry entry;
    while (vr_conf_next(&cursor, &entry)) {
        FUZZ_EXPECT(cursor > before && cursor <= end);
        FUZZ_EXPECT(entry.key >= text && entry.key + entry.key_bytes <= end);
        FUZZ_EXPECT(entry.problem ||
                    (entry.value >= text && entry.value + entry.value_bytes <= end));
        before = cursor;
        char name[64], value[300];
        if (!entry.problem && entry.key_bytes < sizeof name && entry.value_bytes < sizeof value) {
            memcpy(name, entry.key, entry.key_bytes);
            memcpy(value, entry.value, entry.value_bytes);
            name[entry.key_bytes] = value[entry.value_bytes] = 0;
            if (vram_option_set(name, value) == VRAM_OK) {
                char back[VR_OPTION_TEXT_MAX];
                FUZZ_EXPECT(vram_option_get(name, back, sizeof back, NULL) == VRAM_OK);
            }
        }
    }
    vr_option_reset();
}

static void read_environment(const char *text) {
    char problem[512];
    setenv("VRAM_CONF", text, 1);
    vr_option_reset();
    for (size_t i = 0; i < 100 && vram_option_problem(i, problem, sizeof problem); i++) {
        FUZZ_EXPECT(problem[0] && strlen(problem) < sizeof problem);
    }
    for (size_t i = 0; i < vram_option_count(); i++) { /* what was accepted is accepted again */
        char value[VR_OPTION_TEXT_MAX];
        const char *name = vram_option_at(i)->name;
        FUZZ_EXPECT(vram_option_get(name, value, sizeof value, NULL) == VRAM_OK &&
                    vram_option_set(name, value) == VRAM_OK);
    }
    unsetenv("VRAM_CONF");
    vr_option_reset();
}

static void make_simulation(const char *text) {
    struct vr_sim_config config;
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = text};
    vram_context *context;
    vram_device *device;
    if (vr_sim_config_read(text, &config) != VRAM_OK) {
        FUZZ_EXPECT(vram_error_get()->text[0]);
        return;
    }
    vram_status status = vram_context_create(&options, &context);
    FUZZ_EXPECT(status == VRAM_OK || config.fault.nth || config.lose);
    if (status == VRAM_OK) {
        FUZZ_EXPECT(vram_device_count(context) == config.devices || config.fault.nth ||
                    config.lose);
        if (vram_device_open(context, 0, &device) == VRAM_OK) {
            vram_pool *pool;
            vram_addr addr;
            if (vram_pool_create(device, NULL, &pool) == VRAM_OK &&
                vram_alloc(pool, 1, NULL, &addr) == VRAM_OK) {
                FUZZ_EXPECT(addr != 0);
            }
        }
        vram_context_destroy(context);
    }
}

/* Drivers are loaded and unloaded for an empty list and these names, which takes longer than all
   else: one input in LOADED of those that ask for it gets it. */
static bool loads_drivers(const char *list) {
    static const char *const names[] = {"cuda", "hip", "metal", "vulkan", "opencl"};
    bool loads = list[0] == 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        loads = loads || strstr(list, names[i]) != NULL;
    }
    return loads;
}

static void make_listed(const char *list, uint64_t choice) {
    vram_context_options options = {.size = sizeof options, .backends = list, .sim = ""};
    vram_context *context;
    bool loads = loads_drivers(list);
    if (strlen(list) >= 40 || (choice != 0 && loads)) {
        return;
    }
    if (loads) {
        fuzz_foreign_begin();
    }
    if (vram_context_create(&options, &context) == VRAM_OK) {
        vram_context_destroy(context);
    } else {
        FUZZ_EXPECT(vram_error_get()->text[0]);
    }
    if (loads) {
        fuzz_foreign_end();
    }
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    if (bytes > 1000) {
        return 0;
    }
    char text[1001];
    memcpy(text, data, bytes);
    text[bytes] = 0;
    read_entries(text);
    read_environment(text);
    make_simulation(text);
    make_listed(text, fuzz_choice(data, bytes, LOADED));
    FUZZ_EXPECT(vr_mem_live_bytes() == 0);
    return 0;
}

/* Nearly all of the memory is the journal of a simulation, as long as the input says. A context and
   64 devices take less than 1 MiB. */
FUZZ_TARGET(conf, .memory_more = VR_SIM_JOURNAL_MAX * sizeof(vram_sim_entry) + (1 << 20),
            .most = 1000)
