/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan_adopt.c: a program's own instance, device, queue and buffers, used by libvram through
 * the public API. The program submits to the same VkQueue from another thread meanwhile; the lock
 * that it gave is what keeps the two apart, and the test sees that it is held.
 */
#include "unit/record_fault.h"
#include "unit/vulkan_world.h"
#include "unit/wrapped_world.h"

#include "base/lock.h"

#include <errno.h>

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

static int program_start(void) {
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
    assert_ok(shim_open());
    void *library = dlopen(SHIM_VULKAN_PATH, RTLD_NOW | RTLD_LOCAL);
    void *found = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&get_proc, &found, sizeof get_proc);
    features.values[VR_VK_FEATURE_12_TIMELINE] = features.values[VR_VK_FEATURE_12_ADDRESS] = 1;
    vr_mutex_init(&program.lock, VR_RANK_CONTEXT);
    find_all(VR_VK_GLOBAL);
    if (!program.api.vkCreateInstance || /* there is no loader behind the shim */
        program.api.vkCreateInstance(&instance, NULL, &program.instance)) {
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

static int program_end(void) {
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

TEST(bad_adoptions_are_refused) {
    vram_context *canary = (vram_context *)(uintptr_t)7, *context = canary;
    struct {
        struct vram_vulkan_adoption known;
        unsigned char later;
    } longer = {.known = adoption_of(), .later = 1};
    struct vram_vulkan_adoption cases[11];
    struct vram_vulkan_queue none, half, family;
    for (int i = 0; i < 11; i++) {
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
    cases[9].queue_count = 0;
    cases[10].size = 1 << 20;
    for (int i = 0; i < 11; i++) {
        assert_int_equal(create(&cases[i], &context), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "vram_context_options.vulkan"));
        assert_ptr_equal(context, canary);
    }
    struct vram_vulkan_adoption good = adoption_of();
    shim->pretence.no_timeline = true;
    assert_int_equal(create(&good, &context), VRAM_ERR_INVALID);
    shim->pretence.no_timeline = false;
    longer.known.size = sizeof longer;
    assert_int_equal(create(&longer.known, &context), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "does not know"));
    assert_ptr_equal(context, canary);
}

/* The context is there, and tells why it has no device. */
static void assert_no_driver(const struct vram_vulkan_adoption *adoption, const char *why) {
    vram_backend_info info = {.size = sizeof info};
    vram_context *context;
    assert_ok(create(adoption, &context));
    assert_int_equal(vram_device_count(context), 0);
    for (uint32_t i = 0; !info.name || strcmp(info.name, "vulkan") != 0; i++) {
        assert_ok(vram_backend_info_get(context, i, &info));
    }
    assert_false(info.present);
    assert_non_null(strstr(info.reason, why));
    vram_context_destroy(context);
}

TEST(adoptions_fail_with_the_driver) {
    vram_context *context = NULL;
    vram_device *device = NULL;
    struct vram_vulkan_adoption adoption = adoption_of();
    shim->hide("vkGetPhysicalDeviceFeatures2");
    assert_no_driver(&adoption, "vkGetPhysicalDeviceFeatures2");
    shim->hide("vkCmdFillBuffer");
    assert_ok(create(&adoption, &context));
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "vkCmdFillBuffer"));
    vram_context_destroy(context);
    shim->hide(NULL);
    shim->refuse("vkEnumerateDeviceExtensionProperties", 1, VR_VK_OUT_OF_HOST_MEMORY, false);
    assert_int_equal(create(&adoption, &context), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(shim->struck(), 1);
    shim->refuse(NULL, 0, 0, false);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    uint64_t nth = 0;
    for (; status != VRAM_OK; vram_context_destroy(context)) {
        context = NULL;
        vr_mem_fail_at(++nth, false);
        status = create(&adoption, &context);
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || status == VRAM_ERR_HOST_MEMORY);
    }
    assert_true(nth > 3);
}

/* Without get_proc the functions are those of the option vulkan_library. */
TEST(functions_come_from_the_loader) {
    struct vram_vulkan_adoption adoption = adoption_of();
    vram_context *context;
    adoption.get_proc = NULL;
    assert_ok(create(&adoption, &context));
    assert_int_equal(vram_device_count(context), 1);
    vram_context_destroy(context);
    assert_ok(vram_option_set("vulkan_library", "/nonexistent/libvulkan.so.1"));
    assert_no_driver(&adoption, "/nonexistent/libvulkan.so.1");
    assert_ok(vram_option_set("vulkan_library", SHIM_VULKAN_PATH));
}

/* Kernels need addresses: of the device, and of a program that has enabled them. */
TEST(kernels_need_addresses_of_both) {
    for (int i = 0; i < 2; i++) {
        struct vram_vulkan_adoption adoption = adoption_of();
        vram_device_info info = {.size = sizeof info};
        vram_context *context;
        adoption.addresses = i;
        shim->pretence.no_addresses = i;
        assert_ok(create(&adoption, &context));
        assert_ok(vram_device_info_get(context, 0, &info));
        assert_false(info.caps & VRAM_CAP_KERNELS);
        vram_context_destroy(context);
        shim->pretence.no_addresses = false;
    }
}

static unsigned used[3]; /* times that a queue was locked */

static void count_lock(void *user) {
    ++*(unsigned *)user;
}

static void count_unlock(void *user) {
    (void)user;
}

/* A program may give queues that copy only; a queue of the library's takes one that computes, by
   turns. */
TEST(queues_of_several_families_are_adopted) {
    static const struct vr_vk_family families[] = {{.flags = VR_VK_QUEUE_TRANSFER, .count = 1},
                                                   {.flags = 8, .count = 1}, /* binds memory */
                                                   {.flags = VR_VK_QUEUE_COMPUTE, .count = 2}};
    static const uint32_t of[] = {0, 2, 2};
    struct vram_vulkan_adoption adoption = adoption_of();
    struct vram_vulkan_queue queues[3];
    const vram_launch launch = {
        .size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_context *context;
    vram_device *device;
    vram_queue *made, *copies;
    vram_kernel *kernel;
    vram_addr addr; /* a buffer of three families */
    for (int i = 0; i < 3; i++) {
        queues[i] =
            (struct vram_vulkan_queue){program.queue, of[i], count_lock, count_unlock, &used[i]};
    }
    adoption.queues = queues;
    adoption.queue_count = 3;
    shim->pretence.families = families;
    shim->pretence.family_count = 3;
    assert_ok(create(&adoption, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_device_alloc(device, PAGE, VRAM_MEMORY_DEVICE, &addr));
    for (int i = 0; i < 3; i++) { /* the second, the third, the second */
        unsigned before[3];
        assert_ok(vram_queue_create(device, NULL, &made));
        memcpy(before, used, sizeof used);
        assert_ok(vram_queue_fill(made, addr, 1, 1, 8));
        for (int j = 0; j < 3; j++) {
            assert_int_equal(used[j] > before[j], j == 1 + i % 2);
        }
        assert_ok(vram_queue_wait(made, FOR_EVER));
    }
    assert_ok(vram_queue_adopt(device, program.queue, &copies)); /* the first of that handle */
    assert_ok(vram_kernel_create(device, &saxpy_source, &kernel));
    assert_int_equal(vram_queue_launch(copies, kernel, &launch), VRAM_ERR_UNSUPPORTED);
    vram_context_destroy(context);
    queues[2].family = 1;
    assert_int_equal(create(&adoption, &context), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "copies nothing"));
    shim->pretence.families = NULL;
}

TEST(adopted_devices_work) {
    const struct vr_vk_submit empty = {.head = {VR_VK_TYPE_SUBMIT, NULL}};
    uint64_t late = vr_os_now() + FOR_EVER;
    vram_status status;
    struct vram_vulkan_adoption adoption = adoption_of();
    vram_context *context;
    vram_device *device;
    vram_queue *own, *adopted, *none = NULL;
    vram_pool *pool;
    vram_addr addr;
    vram_native_info native = {.size = sizeof native};
    unsigned char found[100] = {0};
    void *handle = NULL;
    int64_t live = shim->live();
    uint64_t devices = shim->calls("vkCreateDevice");
    assert_ok(create(&adoption, &context));
    assert_int_equal(vram_device_count(context), 1);
    assert_ok(vram_device_open(context, 0, &device));
    assert_int_equal(shim->calls("vkCreateDevice"), devices); /* the program's own is used */
    assert_ok(vram_queue_create(device, NULL, &own));
    assert_ok(vram_queue_native(own, &handle));
    assert_ptr_equal(handle, program.queue);
    assert_ok(vram_queue_adopt(device, program.queue, &adopted));
    assert_int_equal(vram_queue_adopt(device, &handle, &none), VRAM_ERR_INVALID);
    assert_null(none);
    assert_ok(vram_pool_create(device, NULL, &pool));
    assert_ok(vram_alloc(pool, 100, adopted, &addr));
    assert_ok(vram_native(addr, &native));
    assert_non_null(native.handle);
    assert_true(native.device_address.known);
    uint32_t before = vr_load(&program.locked, VR_RELAXED);
    assert_ok(vram_queue_fill(adopted, addr, 0x5A, 1, 100));
    assert_int_equal(vr_load(&program.locked, VR_RELAXED), before + 1);
    assert_ok(vram_queue_download(adopted, found, addr, 100));
    assert_ok(vram_queue_wait(adopted, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(found[0] + found[99], 2 * 0x5A);
    /* A poll of an adopted queue also knows of work that the program submitted itself. */
    take_lock(&program);
    assert_int_equal(program.api.vkQueueSubmit(program.queue, 1, &empty, NULL), VR_VK_SUCCESS);
    give_lock(&program);
    while ((status = vram_queue_poll(adopted)) == VRAM_ERR_NOT_READY && vr_os_now() < late) {
        vr_os_yield();
    }
    assert_ok(status);
    assert_ok(vram_queue_end(adopted));
    assert_int_equal(vr_load(&program.inside, VR_RELAXED), 0);
    vram_context_destroy(context);
    assert_int_equal(shim->live(), live); /* the program's device and instance live on */
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

TEST(the_program_submits_meanwhile) {
    struct vram_vulkan_adoption adoption = adoption_of();
    struct vr_thread thread = {.running = false};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr;
    assert_ok(create(&adoption, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_queue_adopt(device, program.queue, &queue));
    assert_ok(vram_device_alloc(device, 4096, VRAM_MEMORY_DEVICE, &addr));
    vr_store(&stop, false, VR_RELEASE);
    assert_ok(vr_os_thread_start(&thread, "program", submit_all_the_time, NULL));
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t found = 0;
        assert_ok(vram_queue_fill(queue, addr, i, 4, 4));
        assert_ok(vram_queue_download(queue, &found, addr, 4));
        assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(found, i);
    }
    vr_store(&stop, true, VR_RELEASE);
    vr_os_thread_join(&thread);
    assert_int_equal(vr_load(&program.broken, VR_RELAXED), 0);
    assert_ok(vram_queue_end(queue));
    vram_context_destroy(context);
}

/* --------------------------------------------------- buffers of the program's */

static int64_t live_objects(void) {
    return shim->live();
}

static vram_status create_adopted(vram_context **context) {
    struct vram_vulkan_adoption adoption = adoption_of();
    return create(&adoption, context);
}

static void object_new(struct rig *rig) {
    const struct vr_vk_buffer_info info = {.head = {VR_VK_TYPE_BUFFER, NULL},
                                           .bytes = OBJECT,
                                           .usage = VR_VK_USAGE_TRANSFER_FROM |
                                                    VR_VK_USAGE_TRANSFER_TO | VR_VK_USAGE_STORAGE |
                                                    VR_VK_USAGE_ADDRESS};
    struct vr_vk_allocate_flags flags = {.head = {VR_VK_TYPE_ALLOCATE_FLAGS, NULL},
                                         .flags = VR_VK_ALLOCATE_ADDRESS};
    struct vr_vk_memory_properties_2 types = {.head = {VR_VK_TYPE_MEMORY_PROPERTIES, NULL}};
    struct vr_vk_requirements needs;
    uint32_t type = 0, wanted = VR_VK_MEMORY_HOST_VISIBLE | VR_VK_MEMORY_HOST_COHERENT;
    struct vr_vk_buffer *object;
    struct vr_vk_memory *memory;
    assert_int_equal(program.api.vkCreateBuffer(program.device, &info, NULL, &object), 0);
    program.api.vkGetBufferMemoryRequirements(program.device, object, &needs);
    program.api.vkGetPhysicalDeviceMemoryProperties2(program.physical, &types);
    while (!(needs.types >> type & 1) || (types.properties.types[type].flags & wanted) != wanted) {
        assert_true(++type < types.properties.type_count);
    }
    const struct vr_vk_allocate_info allocation = {
        .head = {VR_VK_TYPE_ALLOCATE, &flags}, .bytes = needs.bytes, .type = type};
    assert_int_equal(program.api.vkAllocateMemory(program.device, &allocation, NULL, &memory), 0);
    assert_int_equal(program.api.vkBindBufferMemory(program.device, object, memory, 0), 0);
    void *pointer;
    assert_int_equal(program.api.vkMapMemory(program.device, memory, 0, VR_VK_WHOLE, 0, &pointer),
                     0);
    rig->seen = pointer;
    memset(rig->seen, 0x11, OBJECT);
    rig->object = object;
    rig->memory = memory;
    const struct vr_vk_address_info place = {.head = {VR_VK_TYPE_ADDRESS, NULL}, .buffer = object};
    rig->address = program.api.vkGetBufferDeviceAddress(program.device, &place);
}

static void object_read(const struct rig *rig, unsigned char *bytes) {
    memcpy(bytes, rig->seen, OBJECT);
}

static void expect_references(const struct rig *rig, unsigned expected) {
    (void)rig, (void)expected; /* Vulkan counts none */
}

/* What the program made is there until the program ends it. */
static void rig_end(struct rig *rig) {
    vram_context_destroy(rig->context);
    assert_int_equal(shim->live(), rig->live + 2);
    program.api.vkDestroyBuffer(program.device, rig->object, NULL);
    program.api.vkFreeMemory(program.device, rig->memory, NULL);
    assert_int_equal(shim->live(), rig->live);
}

TEST(objects_are_wrapped) {
    wrapped_part_is_used();
}

/* Kernels need the address that the program alone knows: y = 2 x + y, with both in its buffer. */
TEST(kernels_take_wrapped_addresses) {
    struct rig rig = rig_make();
    enum { COUNT = 64 };
    vram_wrap wrap = wrap_of(&rig, 1024, 8 * COUNT);
    vram_buffer *buffer;
    vram_kernel *kernel;
    vram_addr x, y;
    float a = 2, *numbers = (float *)(void *)(rig.seen + 1024);
    uint32_t count = COUNT;
    const void *arguments[] = {&y, &x, &a, &count};
    const size_t bytes[] = {8, 8, 4, 4};
    const vram_launch launch = {.size = sizeof launch,
                                .groups = {1, 1, 1},
                                .group_size = {64, 1, 1},
                                .argument_count = 4,
                                .arguments = arguments,
                                .argument_bytes = bytes,
                                .address_mask = 3};
    for (int i = 0; i < 2 * COUNT; i++) {
        numbers[i] = (float)i;
    }
    assert_ok(vram_kernel_create(rig.device, &saxpy_source, &kernel));
    assert_ok(vram_buffer_wrap(rig.pool, &wrap, rig.queue, NULL, &buffer));
    assert_ok(vram_buffer_addr(buffer, &x));
    y = x + 4 * COUNT;
    assert_ok(vram_queue_launch(rig.queue, kernel, &launch));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < COUNT; i++) {
        assert_true(numbers[COUNT + i] == (float)(2 * i + COUNT + i));
    }
    assert_ok(vram_buffer_destroy(buffer));
    wrap.address = 0;
    assert_ok(vram_buffer_wrap(rig.pool, &wrap, rig.queue, NULL, &buffer));
    assert_ok(vram_buffer_addr(buffer, &x));
    y = x;
    assert_int_equal(vram_queue_launch(rig.queue, kernel, &launch), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "vram_wrap.address"));
    vram_kernel_destroy(kernel);
    rig_end(&rig);
}

TEST(objects_that_will_not_do) {
    vram_buffer *none = NULL;
    struct rig rig = rig_make();
    const vram_wrap cases[] = {
        wrap_of(&rig, 0, 2 * OBJECT), wrap_of(&rig, 2 * OBJECT, 1), wrap_of(&rig, UINT64_MAX, 2),
        wrap_of(&rig, 0, UINT64_MAX), wrap_of(&rig, 0, 0),
    };
    refuse_wraps(&rig, cases, sizeof cases / sizeof cases[0]);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    vram_wrap wrap = wrap_of(&rig, OFFSET, PART);
    uint64_t nth = 0;
    while (status != VRAM_OK) {
        vr_mem_fail_at(++nth, false);
        status = vram_buffer_wrap(rig.pool, &wrap, rig.queue, NULL, &none);
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || status == VRAM_ERR_HOST_MEMORY);
    }
    assert_true(nth > 1);
    assert_ok(vram_buffer_destroy(none));
    record_fail_at(1);
    assert_int_equal(vram_buffer_wrap(rig.pool, &wrap, rig.queue, NULL, &none),
                     VRAM_ERR_HOST_MEMORY);
    record_fail_at(0);
    vr_os_fail_at(1, false, ENOMEM); /* addresses for it */
    assert_int_equal(vram_buffer_wrap(rig.pool, &wrap, rig.queue, NULL, &none),
                     VRAM_ERR_HOST_MEMORY);
    vr_os_fail_at(0, false, 0);
    /* A device of the library's own has none of the program's buffers. */
    const vram_context_options options = {.size = sizeof options, .backends = "vulkan"};
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_pool_create(device, NULL, &pool));
    assert_int_equal(vram_buffer_wrap(pool, &wrap, NULL, NULL, &none), VRAM_ERR_UNSUPPORTED);
    vram_context_destroy(context);
    rig_end(&rig);
}

WHOLE_FILE(program_start, program_end)
