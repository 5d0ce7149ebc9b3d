/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sim.c: what a simulation is made out to be, by its text, and what its calls cost. Its rules
 * are in test_sim_rules.c.
 */
#include "byte_units.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <string.h>

static vram_context *context;
static vram_device *device;

static vram_status sim_create(const char *text) {
    const vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = text};
    return vram_context_create(&options, &context);
}

static vram_device_info sim_open(const char *text) {
    vram_device_info info = {.size = sizeof info};
    assert_ok(sim_create(text));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_device_describe(device, &info));
    return info;
}

static int sim_end(void) {
    assert_ok(vram_context_destroy(context));
    context = NULL;
    return vram_option_set("sim", NULL);
}

static vram_sim_state state_now(void) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(context, &state));
    return state;
}

static vram_memory_info memory_now(void) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(device, &info));
    return info;
}

static vram_status take(uint64_t bytes) {
    vram_addr addr;
    return vram_device_alloc(device, bytes, VRAM_MEMORY_DEVICE, &addr);
}

/* ---------------------------------------------------------------------- its text */

/* A simulated H200 has the memory of an H200; a device of another size is not called one. */
TEST(texts_make_devices) {
    static const struct {
        const char *text, *name;
        uint64_t bytes, granule; /* the latter of mapping; 0: it does not map */
        uint32_t devices;
        bool info, real;
    } rows[] = {
        {"", "Simulated GPU", 8 * GIB, 2 * MIB, 1, true, false},
        {" , ,", "Simulated GPU", 8 * GIB, 2 * MIB, 1, true, false},
        {"profile=none", "Simulated GPU", 8 * GIB, 2 * MIB, 1, true, false},
        {"profile=h200", "Simulated H200", UINT64_C(150109880320), 2 * MIB, 1, true, false},
        {"memory=150109880320,profile=h200", "Simulated H200", UINT64_C(150109880320), 2 * MIB, 1,
         true, false},
        {"profile=h200,memory=8G", "Simulated GPU", 8 * GIB, 2 * MIB, 1, true, false},
        {"devices=64, memory=80G,granule=64K", "Simulated GPU", 80 * GIB, 64 * KIB, 64, true,
         false},
        {"vmm=off,real=yes,info=0,memory=64M", "Simulated GPU", 64 * MIB, 0, 1, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_device_info info = sim_open(rows[i].text);
        assert_string_equal(info.name, rows[i].name);
        assert_int_equal(info.memory_bytes.value, rows[i].bytes);
        assert_int_equal(info.vmm_granule.value, rows[i].granule);
        assert_int_equal(vram_device_count(context), rows[i].devices);
        assert_int_equal(!!(info.caps & VRAM_CAP_MEMORY_INFO), rows[i].info);
        assert_int_equal(!!(info.caps & VRAM_CAP_HOST_ACCESS), rows[i].real);
        assert_ok(sim_end());
    }
}

TEST(the_option_is_its_text) {
    assert_ok(vram_option_set("sim", "devices=5"));
    assert_ok(sim_create(NULL));
    assert_int_equal(vram_device_count(context), 5);
    assert_ok(vram_context_destroy(context));
    assert_ok(vram_option_set("sim", NULL));
    assert_ok(sim_create(NULL));
    assert_int_equal(vram_device_count(context), 1);
}

/* A fault by text strikes as told. */
TEST(texts_plan_faults) {
    static const struct {
        const char *text;
        vram_status first, second; /* of two allocations */
        int32_t code;
    } rows[] = {
        {"fault=any:2", VRAM_ERR_DEVICE_MEMORY, VRAM_OK, VRAM_SIM_OUT_OF_MEMORY},
        {"fault=alloc:1:2", VRAM_ERR_DEVICE_MEMORY, VRAM_OK, VRAM_SIM_OUT_OF_MEMORY},
        {"fault=alloc:2:77", VRAM_OK, VRAM_ERR_BACKEND, 77},
        {"fault=alloc:1:device_lost", VRAM_ERR_DEVICE_LOST, VRAM_ERR_DEVICE_LOST,
         VRAM_SIM_DEVICE_LOST},
        {"fault=alloc:1:-2147483648:forever", VRAM_ERR_BACKEND, VRAM_ERR_BACKEND, INT32_MIN},
        {"fault=alloc:1:2147483647", VRAM_ERR_BACKEND, VRAM_OK, INT32_MAX},
        {"fault=alloc:1:null", VRAM_ERR_CORRUPT, VRAM_OK, 0},
        {"fault=alloc:1:misaligned:forever", VRAM_ERR_CORRUPT, VRAM_ERR_CORRUPT, 0},
        {"fault=map:1", VRAM_OK, VRAM_OK, 0},
        {"lose=2", VRAM_ERR_DEVICE_LOST, VRAM_ERR_DEVICE_LOST, VRAM_SIM_DEVICE_LOST},
        {"devices=2,lose=2:1", VRAM_OK, VRAM_OK, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)sim_open(rows[i].text);
        vram_status first = take(4096);
        int64_t code = first ? vram_error_get()->native_code : 0;
        vram_status second = take(4096);
        code = second && !first ? vram_error_get()->native_code : code;
        assert_int_equal(first, rows[i].first);
        assert_int_equal(second, rows[i].second);
        assert_int_equal(code, rows[i].code);
        assert_ok(sim_end());
    }
}

/* Refused with a sentence that names what is wrong. */
TEST(texts_are_refused) {
    static const char *const rows[][2] = {
        {"devices=65", "0 to 64"},
        {"devices=-1", "0 to 64"},
        {"devices=0x2", "0 to 64"},
        {"devices=", "0 to 64"},
        {"devices", "devices has no value"},
        {"devices=1,devices=1", "given twice"},
        {"memory=1025T", "64K to 1024T"},
        {"memory=65535", "64K to 1024T"},
        {"memory=99999999999999999999", "64K to 1024T"},
        {"memory=lots", "memory=lots"},
        {"others=-1", "others=-1; accepted is a size from 0 to the memory"},
        {"others=2G,memory=1G", "others is more than the memory"},
        {"others=9G", "others is more than the memory"},
        {"granule=3M", "power of two"},
        {"granule=1K", "power of two"},
        {"granule=2G", "power of two"},
        {"profile=h100", "none or h200"},
        {"vmm=maybe", "on or off"},
        {"real=", "on or off"},
        {"info=2", "on or off"},
        {"seed=18446744073709551616", "a whole number"},
        {"seed=1 2", "a whole number"},
        {"seed=11111111111111111111111111111111111111111111111111111", "a whole number"},
        {"lag=10001", "0 to 10000"},
        {"lose=0", "CALL"},
        {"lose=1:64", "CALL"},
        {"lose=1:2:3", "CALL"},
        {"lose=:2", "CALL"},
        {"journal=1048577", "1048576"},
        {"fault=map", "CALL:N"},
        {"fault=unknown:1", "CALL:N"},
        {"fault=maps:1", "CALL:N"},
        {"fault=map:0", "CALL:N"},
        {"fault=map:1:0", "CALL:N"},
        {"fault=map:1:-", "CALL:N"},
        {"fault=map:1:2147483648", "CALL:N"},
        {"fault=map:1:2:ever", "CALL:N"},
        {"fault=map:1:2:forever:", "CALL:N"},
        {"fault=map:1:null", "CALL:N"},
        {"fault=create:1:misaligned", "CALL:N"},
        {"memry=1G", "no key \"memry\"; accepted are devices"},
        {"=1", "no key \"\""},
        {"memory=\"1G", "never closed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(sim_create(rows[i][0]), VRAM_ERR_INVALID);
        assert_null(context);
        assert_string_equal(vram_error_get()->backend, "sim");
        if (!strstr(vram_error_get()->text, rows[i][1])) {
            fail_msg("%s: \"%s\" does not say %s", rows[i][0], vram_error_get()->text, rows[i][1]);
        }
    }
}

TEST(faults_that_cannot_be) {
    static const vram_sim_fault rows[] = {
        {.call = VRAM_SIM_CALL_COUNT, .nth = 1, .code = 1},
        {.call = (vram_sim_call)-1, .nth = 1, .code = 1},
        {.call = VRAM_SIM_MAP, .nth = 1},
        {.call = VRAM_SIM_ALLOC, .nth = 1, .code = 1, .lie = VRAM_SIM_LIE_NULL},
        {.call = VRAM_SIM_ALLOC, .nth = 1, .lie = (vram_sim_lie)4},
        {.call = VRAM_SIM_MAP, .nth = 1, .lie = VRAM_SIM_LIE_NULL},
        {.call = VRAM_SIM_CREATE, .nth = 1, .lie = VRAM_SIM_LIE_MISALIGNED},
    };
    (void)sim_open("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_sim_fault row = rows[i];
        row.size = sizeof row;
        assert_int_equal(vram_sim_fault_set(context, &row), VRAM_ERR_INVALID);
    }
}

/* ------------------------------------------------------------------------- others */

/* What another process holds is missing: the driver says so, and refuses what does not fit. */
TEST(memory_of_others) {
    (void)sim_open("memory=1G,others=768M");
    assert_int_equal(memory_now().total_bytes.value, GIB);
    assert_int_equal(memory_now().free_bytes.value, 256 * MIB);
    assert_int_equal(take(257 * MIB), VRAM_ERR_DEVICE_MEMORY);
    assert_ok(take(256 * MIB));
    assert_ok(vram_sim_others_set(context, 0, GIB)); /* more than is left: ours stays */
    assert_int_equal(memory_now().free_bytes.value, 0);
    assert_ok(vram_sim_others_set(context, 0, 0));
    assert_int_equal(memory_now().free_bytes.value, 768 * MIB);
    assert_int_equal(vram_sim_others_set(context, 1, 0), VRAM_ERR_NO_DEVICE);
    assert_int_equal(vram_sim_others_set(context, 0, GIB + 1), VRAM_ERR_INVALID);
}

/* --------------------------------------------------------------------------- costs */

static uint64_t cost_since(uint64_t *clock_ns) {
    uint64_t before = *clock_ns;
    *clock_ns = state_now().clock_ns;
    return *clock_ns - before;
}

/* As was measured on an H200. Access is charged per handle. */
TEST(calls_cost_what_they_do) {
    vram_physical *small[4], *large;
    vram_addr base, addr;
    vram_queue *queue;
    (void)sim_open("profile=h200");
    uint64_t clock = state_now().clock_ns;
    (void)memory_now();
    assert_int_equal(cost_since(&clock), 4200);
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_physical_create(device, 2 * MIB, &small[i]));
    }
    assert_int_equal(cost_since(&clock), 4 * 15000);
    assert_ok(vram_range_create(device, 8 * MIB, &base));
    assert_int_equal(cost_since(&clock), 21000);
    assert_ok(vram_range_map(device, base, small, 4));
    assert_int_equal(cost_since(&clock), 4 * 1000 + 4 * 60000);
    assert_ok(vram_range_unmap(device, base, 8 * MIB));
    assert_int_equal(cost_since(&clock), 4 * 40000);
    assert_ok(vram_physical_create(device, GIB, &large));
    assert_in_range(cost_since(&clock), 60000, 66000);
    assert_ok(vram_physical_destroy(large));
    assert_in_range(cost_since(&clock), 460000, 480000);
    assert_ok(vram_queue_create(device, NULL, &queue));
    assert_ok(vram_device_alloc(device, GIB, VRAM_MEMORY_DEVICE, &addr));
    (void)cost_since(&clock);
    for (int i = 0; i < 1000; i++) {
        assert_ok(vram_queue_fill(queue, addr, 0, 4, GIB));
    }
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    assert_in_range(cost_since(&clock), 536000000, 545000000); /* 1000 GiB at 2 TB/s */
}

EACH_TEST(NULL, sim_end)
