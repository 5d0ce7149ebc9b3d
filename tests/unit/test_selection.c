/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_selection.c: which device is chosen for so many bytes, and what is said when none will do.
 */
#include "byte_units.h"
#include "rig/rig.h"
#include "vram/vram.h"

#include <string.h>

static vram_context *context_make(const char *sim) {
    vram_context_options options = {.size = sizeof options, .backends = "sim,host", .sim = sim};
    vram_context *context;
    assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
    return context;
}

static vram_status select_for(vram_context *context, uint64_t bytes, const char *order,
                              uint32_t *index) {
    vram_select_options options = {.size = sizeof options, .bytes = bytes, .order = order};
    return vram_device_select(context, &options, index);
}

/* features.md, item 9: fits a GPU, only the CPU, none; and the second GPU. */
TEST(test_the_first_with_room_is_chosen) {
    uint32_t index = 99;
    assert_int_equal(vram_option_set("host_memory", "16G"), VRAM_OK);
    vram_context *context = context_make("devices=2,memory=8G");
    assert_int_equal(select_for(context, 4 * GIB, NULL, &index), VRAM_OK);
    assert_int_equal(index, 0);
    assert_int_equal(vram_sim_others_set(context, 0, 6 * GIB), VRAM_OK);
    assert_int_equal(select_for(context, 4 * GIB, NULL, &index), VRAM_OK);
    assert_int_equal(index, 1);
    assert_int_equal(vram_sim_others_set(context, 1, 6 * GIB), VRAM_OK);
    index = 99;
    vram_status status = select_for(context, 4 * GIB, NULL, &index);
    if (status == VRAM_OK) { /* where the machine has that much free */
        assert_int_equal(index, 2);
    }
    assert_int_equal(select_for(context, 64 * GIB, NULL, &index), VRAM_ERR_DEVICE_MEMORY);
    vram_context_destroy(context);
}

/* The CPU is the last resort of a simulation too, with little that every machine has. */
TEST(test_the_host_is_chosen_last) {
    uint32_t index = 99;
    vram_context *context = context_make("devices=2,memory=32M");
    assert_int_equal(select_for(context, 16 * MIB, NULL, &index), VRAM_OK);
    assert_int_equal(index, 0);
    assert_int_equal(select_for(context, 64 * MIB, NULL, &index), VRAM_OK);
    assert_int_equal(index, 2);
    vram_context_destroy(context);
}

/* Without any device the error says what is missing, not only that nothing was found. */
TEST(test_no_device_says_why) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_context *context;
    vram_device *device;
    uint32_t index;
    assert_int_equal(vram_option_set("cuda_library", "/nonexistent/libcuda.so.1"), VRAM_OK);
    assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
    assert_int_equal(vram_device_best(context, &index), VRAM_ERR_NO_DEVICE);
    assert_non_null(strstr(vram_error_get()->text, "; cuda: /nonexistent/libcuda.so.1: "));
    assert_null(strstr(vram_error_get()->text, "host"));
    vram_error_clear();
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_ERR_NO_DEVICE);
    assert_non_null(strstr(vram_error_get()->text, "; cuda: /nonexistent/libcuda.so.1: "));
    vram_error_clear();
    vram_context_destroy(context);
}

TEST(test_the_refusal_says_what_each_had) {
    uint32_t index = 99;
    vram_context *context = context_make("devices=2,memory=8G,others=2G");
    assert_int_equal(select_for(context, 12 * GIB + GIB / 2, "sim", &index),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(index, 99);
    assert_string_equal(vram_error_get()->text,
                        "No backend has enough memory (12.50 GB required): sim:0 has 6.00 of 8.00 "
                        "GB; sim:1 has 6.00 of 8.00 GB");
    vram_context_destroy(context);
    context = context_make("devices=20,memory=1G");
    assert_int_equal(select_for(context, 2 * GIB, "sim", &index), VRAM_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(vram_error_get()->text, "sim:0 has 1.00 of 1.00 GB; sim:1 has"));
    assert_non_null(strstr(vram_error_get()->text, "; ..."));
    vram_context_destroy(context);
}

TEST(test_an_order_is_kept_to) {
    uint32_t index = 99;
    vram_context *context = context_make("devices=3,memory=8G");
    assert_int_equal(select_for(context, GIB, "sim:2", &index), VRAM_OK);
    assert_int_equal(index, 2);
    assert_int_equal(select_for(context, GIB, "sim:7,sim:1,host", &index), VRAM_OK);
    assert_int_equal(index, 1);
    assert_int_equal(select_for(context, 0, "host,sim", &index), VRAM_OK);
    assert_int_equal(index, 3);
    assert_int_equal(select_for(context, 0, "vulkan", &index), VRAM_ERR_NO_DEVICE);
    assert_int_equal(vram_option_set("backend_order", "sim:1"), VRAM_OK);
    assert_int_equal(vram_device_select(context, NULL, &index), VRAM_OK);
    assert_int_equal(index, 1);
    vram_context_destroy(context);
}

TEST(test_a_device_that_does_not_tell_is_trusted_with_most) {
    uint32_t index = 99;
    vram_context *context = context_make("memory=10G,info=off");
    assert_int_equal(select_for(context, 8 * GIB, "sim", &index), VRAM_OK);
    assert_int_equal(select_for(context, 8 * GIB + 1, "sim", &index), VRAM_ERR_DEVICE_MEMORY);
    vram_context_destroy(context);
}

TEST(test_the_limit_counts) {
    uint32_t index = 99;
    assert_int_equal(vram_option_set("device_limit", "3G"), VRAM_OK);
    vram_context *context = context_make("memory=8G");
    vram_device *device;
    vram_addr addr;
    assert_int_equal(select_for(context, 3 * GIB, "sim", &index), VRAM_OK);
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_OK);
    assert_int_equal(vram_device_alloc(device, GIB, VRAM_MEMORY_DEVICE, &addr), VRAM_OK);
    assert_int_equal(select_for(context, 3 * GIB, "sim", &index), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(select_for(context, 2 * GIB, "sim", &index), VRAM_OK);
    vram_context_destroy(context);
}

/* A device that cannot be asked is passed by, whatever it fails with, and nothing is left open. */
TEST(test_a_device_that_fails_is_passed_by) {
    static const vram_sim_call calls[] = {VRAM_SIM_DEVICE_OPEN, VRAM_SIM_MEMORY_INFO};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint32_t index = 99;
        vram_context *context = context_make("devices=2,memory=8G");
        vram_sim_fault fault = {
            .size = sizeof fault, .call = calls[i], .nth = 1, .code = VRAM_SIM_NOT_SUPPORTED};
        vram_error_clear();
        assert_int_equal(vram_sim_fault_set(context, &fault), VRAM_OK);
        assert_int_equal(select_for(context, GIB, "sim", &index), VRAM_OK);
        assert_int_equal(index, 1);
        assert_int_equal(vram_error_get()->status, VRAM_OK); /* the call succeeded */
        fault.for_ever = true;
        assert_int_equal(vram_sim_fault_set(context, &fault), VRAM_OK);
        assert_int_equal(select_for(context, GIB, "sim", &index), VRAM_ERR_DEVICE_MEMORY);
        assert_non_null(strstr(vram_error_get()->text, "sim:0 cannot be queried"));
        vram_context_destroy(context);
    }
}

TEST(test_the_same_hardware_is_recognised) {
    vram_device_info a = {.size = sizeof a, .backend = "cuda"}, b = a;
    assert_false(vram_device_same(&a, &b)); /* nothing is known */
    assert_false(vram_device_same(&a, NULL));
    assert_false(vram_device_same(NULL, &b));
    a.pci_known = b.pci_known = true;
    memcpy(a.pci, "0000:3b:00.0", 13);
    memcpy(b.pci, "0000:3b:00.0", 13);
    assert_true(vram_device_same(&a, &b));
    a.uuid_known = true;
    assert_true(vram_device_same(&a, &b));
    b.uuid_known = true;
    assert_true(vram_device_same(&a, &b));
    b.uuid[15] = 1; /* two parts of one card */
    assert_false(vram_device_same(&a, &b));
    b.uuid_known = false;
    b.pci[11] = '1';
    assert_false(vram_device_same(&a, &b));
}

/* An order with a number that no device has, and a context that chooses by itself. */
TEST(orders_of_devices) {
    uint32_t index = 77;
    vram_context *sim = context_make("memory=64M");
    vram_select_options options = {.size = sizeof options, .order = "sim:99999999999999999999"};
    assert_int_equal(vram_device_select(sim, &options, &index), VRAM_ERR_INVALID);
    options.order = "a backend of a name that is longer than any that there is";
    assert_int_equal(vram_device_select(sim, &options, &index), VRAM_ERR_INVALID);
    assert_int_equal(index, 77);
    vram_context_destroy(sim);
    vram_context_options host = {.size = sizeof host, .backends = "host", .sim = ""};
    vram_context *context;
    assert_int_equal(vram_context_create(&host, &context), VRAM_OK);
    assert_int_equal(vram_device_select(context, NULL, &index), VRAM_OK);
    assert_int_equal(index, 0);
    vram_context_destroy(context);
}

/* Who asks for a simulation gets it, also beside other devices. */
TEST(the_best_is_what_was_asked_for) {
    vram_context_options both = {.size = sizeof both, .backends = "host,sim", .sim = "memory=64M"};
    vram_device_info info = {.size = sizeof info};
    vram_context *context;
    vram_device *device;
    uint32_t index;
    assert_int_equal(vram_context_create(&both, &context), VRAM_OK);
    assert_int_equal(vram_device_count(context), 2);
    assert_int_equal(vram_device_best(context, &index), VRAM_OK);
    assert_int_equal(vram_device_open(context, index, &device), VRAM_OK);
    assert_int_equal(vram_device_describe(device, &info), VRAM_OK);
    assert_string_equal(info.backend, "sim");
    vram_context_destroy(context);
}
