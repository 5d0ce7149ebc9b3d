/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan_adopt.c: a program's own instance, device and queue, used by libvram through the public
 * API. The program submits to the same VkQueue from another thread meanwhile; the lock that it gave is
 * what keeps the two apart, and the test sees that it is held.
 */
#include "unit/vulkan_world.h"

#include "vram/vram.h"

/* ---------------------------------------------------------------- a program */

static struct {
    struct vr_vulkan_api api;
    struct vr_vk_instance *instance;
    struct vr_vk_physical *physical;
    struct vr_vk_device *device;
    struct vr_vk_queue *queue;
    struct vr_mutex lock;
    vr_atomic_u32 inside, locked, broken; /* in the lock now; how often; two at a time */
} program;

static vr_vk_get_fn *get_proc;

static void find_all(enum vr_vk_level level) {
#define FIND(returns, name, row_level, parameters, names)                                          \
    if (row_level == level) {                                                                      \
        vr_vk_function found = get_proc(program.instance, #name);                                  \
        memcpy(&program.api.name, &found, sizeof found);                                           \
    }
    VR_VULKAN_FUNCTIONS(FIND)
#undef FIND
}

static int program_start(void **state) {
    static const struct vr_vk_application application = {.head = {VR_VK_TYPE_APPLICATION, NULL},
                                                         .api_version = VR_VK_VERSION(1, 2)};
    static const struct vr_vk_instance_info instance = {.head = {VR_VK_TYPE_INSTANCE, NULL},
                                                        .application = &application};
    struct vr_vk_features_12 features = {.head = {VR_VK_TYPE_FEATURES_12, NULL}};
    const float priority = 1;
    const struct vr_vk_device_queue_info queue = {
        .head = {VR_VK_TYPE_DEVICE_QUEUE, NULL}, .count = 1, .priorities = &priority};
    const struct vr_vk_device_info device = {
        .head = {VR_VK_TYPE_DEVICE, &features}, .queue_count = 1, .queues = &queue};
    uint32_t count = 1;
    (void)state;
    shim_open();
    void *library = dlopen(SHIM_VULKAN_PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&get_proc, &found, sizeof get_proc);
    features.truths[VR_VK_FEATURE_12_TIMELINE] = features.truths[VR_VK_FEATURE_12_ADDRESS] = 1;
    vr_mutex_init(&program.lock, VR_RANK_CONTEXT);
    find_all(VR_VK_GLOBAL);
    if (program.api.vkCreateInstance(&instance, NULL, &program.instance)) {
        return -1;
    }
    find_all(VR_VK_INSTANCE);
    find_all(VR_VK_DEVICE);
    if (program.api.vkEnumeratePhysicalDevices(program.instance, &count, &program.physical) ||
        program.api.vkCreateDevice(program.physical, &device, NULL, &program.device)) {
        return -1;
    }
    program.api.vkGetDeviceQueue(program.device, 0, 0, &program.queue);
    return program.queue ? 0 : -1;
}

static int program_end(void **state) {
    (void)state;
    program.api.vkDestroyDevice(program.device, NULL);
    program.api.vkDestroyInstance(program.instance, NULL);
    vr_mutex_destroy(&program.lock);
    return shim->live() == 0 ? 0 : -1;
}

static void take_lock(void *user) {
    assert_ptr_equal(user, &program);
    vr_mutex_lock(&program.lock);
    if (vr_fetch_add(&program.inside, 1, VR_ACQ_REL) != 0) {
        vr_fetch_add(&program.broken, 1, VR_RELAXED);
    }
    vr_fetch_add(&program.locked, 1, VR_RELAXED);
}

static void give_lock(void *user) {
    assert_ptr_equal(user, &program);
    vr_fetch_sub(&program.inside, 1, VR_ACQ_REL);
    vr_mutex_unlock(&program.lock);
}

/* ------------------------------------------------------------------ adopting */

static struct vram_vulkan_queue queue_given;

static struct vram_vulkan_adoption adoption_of(void) {
    queue_given = (struct vram_vulkan_queue){.queue = program.queue,
                                             .family = 0,
                                             .lock = take_lock,
                                             .unlock = give_lock,
                                             .user = &program};
    struct vram_vulkan_adoption adoption = {.size = sizeof adoption,
                                            .instance = program.instance,
                                            .physical_device = program.physical,
                                            .device = program.device,
                                            .addresses = true,
                                            .queues = &queue_given,
                                            .queue_count = 1};
    memcpy(&adoption.get_proc, &get_proc, sizeof get_proc);
    return adoption;
}

static vram_status create(const struct vram_vulkan_adoption *adoption, vram_context **context) {
    struct vram_context_options options = {
        .size = sizeof options, .backends = "vulkan", .vulkan = adoption};
    return vram_context_create(&options, context);
}

static void bad_adoptions_are_refused(void **state) {
    vram_context *canary = (vram_context *)(uintptr_t)7, *context = canary;
    struct vram_vulkan_adoption cases[9];
    struct vram_vulkan_queue none, half, family;
    (void)state;
    for (int i = 0; i < 9; i++) {
        cases[i] = adoption_of();
    }
    none = half = family = queue_given;
    none.queue = NULL;
    half.unlock = NULL;
    family.family = 99;
    cases[0].size = 0;
    cases[1].instance = NULL;
    cases[2].physical_device = NULL;
    cases[3].device = NULL;
    cases[4].queues = NULL;
    cases[5].queue_count = 9;
    cases[6].queues = &none;
    cases[7].queues = &half;
    cases[8].queues = &family;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(create(&cases[i], &context), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "vram_context_options.vulkan"));
        assert_ptr_equal(context, canary);
    }
    struct vram_vulkan_adoption good = adoption_of();
    shim->pretence.no_timeline = true;
    assert_int_equal(create(&good, &context), VRAM_ERR_INVALID);
    shim->pretence.no_timeline = false;
}

static void adopted_devices_work(void **state) {
    struct vram_vulkan_adoption adoption = adoption_of();
    vram_context *context;
    vram_device *device;
    vram_queue *own, *adopted, *none = NULL;
    vram_pool *pool;
    vram_addr addr;
    vram_native_info native = {.size = sizeof native};
    unsigned char found[100] = {0};
    void *handle = NULL;
    (void)state;
    int64_t live = shim->live();
    assert_int_equal(create(&adoption, &context), VRAM_OK);
    assert_int_equal(vram_device_count(context), 1);
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_OK);
    assert_int_equal(shim->calls("vkCreateDevice"), 1); /* the program's own */
    assert_int_equal(vram_queue_create(device, NULL, &own), VRAM_OK);
    assert_int_equal(vram_queue_native(own, &handle), VRAM_OK);
    assert_ptr_equal(handle, program.queue);
    assert_int_equal(vram_queue_adopt(device, program.queue, &adopted), VRAM_OK);
    assert_int_equal(vram_queue_adopt(device, &handle, &none), VRAM_ERR_INVALID);
    assert_null(none);
    assert_int_equal(vram_pool_create(device, NULL, &pool), VRAM_OK);
    assert_int_equal(vram_alloc(pool, 100, adopted, &addr), VRAM_OK);
    assert_int_equal(vram_native(addr, &native), VRAM_OK);
    assert_non_null(native.handle);
    assert_true(native.device_address.known);
    uint32_t before = vr_load(&program.locked, VR_RELAXED);
    assert_int_equal(vram_queue_fill(adopted, addr, 0x5A, 1, 100), VRAM_OK);
    assert_int_equal(vr_load(&program.locked, VR_RELAXED), before + 1);
    assert_int_equal(vram_queue_download(adopted, found, addr, 100), VRAM_OK);
    assert_int_equal(vram_queue_wait(adopted, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    assert_int_equal(found[0] + found[99], 2 * 0x5A);
    assert_int_equal(vram_queue_end(adopted), VRAM_OK);
    assert_int_equal(vr_load(&program.inside, VR_RELAXED), 0);
    vram_context_destroy(context);
    assert_int_equal(shim->live(), live); /* the program's device and instance live on */
}

/* A poll of an adopted queue also knows of work that the program submitted itself. */
static void polls_see_the_program_s_own_work(void **state) {
    struct vram_vulkan_adoption adoption = adoption_of();
    const struct vr_vk_submit empty = {.head = {VR_VK_TYPE_SUBMIT, NULL}};
    uint64_t end = vr_os_now() + FOR_EVER;
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_status status;
    (void)state;
    assert_int_equal(create(&adoption, &context), VRAM_OK);
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_OK);
    assert_int_equal(vram_queue_adopt(device, program.queue, &queue), VRAM_OK);
    take_lock(&program);
    assert_int_equal(program.api.vkQueueSubmit(program.queue, 1, &empty, NULL), VR_VK_SUCCESS);
    give_lock(&program);
    while ((status = vram_queue_poll(queue)) == VRAM_ERR_NOT_READY && vr_os_now() < end) {
        vr_os_yield();
    }
    assert_int_equal(status, VRAM_OK);
    assert_int_equal(vram_queue_end(queue), VRAM_OK);
    vram_context_destroy(context);
}

/* -------------------------------------------------------- two at one queue */

static vr_atomic_bool stop;

static void submit_all_the_time(void *argument) {
    const struct vr_vk_submit empty = {.head = {VR_VK_TYPE_SUBMIT, NULL}};
    (void)argument;
    while (!vr_load(&stop, VR_ACQUIRE)) {
        take_lock(&program);
        program.api.vkQueueSubmit(program.queue, 1, &empty, NULL);
        give_lock(&program);
        vr_os_yield();
    }
}

static void the_program_submits_meanwhile(void **state) {
    struct vram_vulkan_adoption adoption = adoption_of();
    struct vr_thread thread = {.running = false};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr;
    (void)state;
    assert_int_equal(create(&adoption, &context), VRAM_OK);
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_OK);
    assert_int_equal(vram_queue_adopt(device, program.queue, &queue), VRAM_OK);
    assert_int_equal(vram_device_alloc(device, 4096, VRAM_MEMORY_DEVICE, &addr), VRAM_OK);
    vr_store(&stop, false, VR_RELEASE);
    assert_int_equal(vr_os_thread_start(&thread, "program", submit_all_the_time, NULL), VRAM_OK);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t found = 0;
        assert_int_equal(vram_queue_fill(queue, addr, i, 4, 4), VRAM_OK);
        assert_int_equal(vram_queue_download(queue, &found, addr, 4), VRAM_OK);
        assert_int_equal(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        assert_int_equal(found, i);
    }
    vr_store(&stop, true, VR_RELEASE);
    vr_os_thread_join(&thread);
    assert_int_equal(vr_load(&program.broken, VR_RELAXED), 0);
    assert_int_equal(vram_queue_end(queue), VRAM_OK);
    vram_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_adoptions_are_refused),
        cmocka_unit_test(adopted_devices_work),
        cmocka_unit_test(polls_see_the_program_s_own_work),
        cmocka_unit_test(the_program_submits_meanwhile),
    };
    return cmocka_run_group_tests_name("vulkan_adopt", tests, program_start, program_end);
}
