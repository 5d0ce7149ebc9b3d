/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_answers.c: drivers that refuse to make a context current, whatever is asked; devices
 * that can do less than others; signals by events, whose calls fail; peers that are enabled in
 * part; and adopted streams that end while a signal is under way.
 */
#include "unit/cuda_world.h"

/* ----------------------------------------------------------------- contexts */

/* Everything that is asked of one device. */
struct kit {
    struct vr_device *device;
    struct vr_queue queue;
    vram_addr addr, pinned, base;
    uint64_t handle;
    void *kernel;
};

static const char kernel_text[] = ".entry saxpy(y, x, a, count)\n{\n}\n";

static vram_status kernel_load(struct vr_device *device, void **kernel) {
    const struct vram_kernel_source source = {.size = sizeof source,
                                              .format = WORLD_FORMAT,
                                              .code = kernel_text,
                                              .code_bytes = sizeof kernel_text,
                                              .entry = "saxpy"};
    return device->kernel->load(device, &source, kernel);
}

static struct kit kit_make(struct vr_device *device) {
    struct kit kit = {.device = device, .addr = take_memory(device, GRANULE)};
    make_queue(device, &kit.queue);
    assert_int_equal(device->pinned->alloc(device, PAGE, &kit.pinned), VRAM_OK);
    assert_int_equal(device->vmm->reserve(device, 2 * GRANULE, GRANULE, &kit.base), VRAM_OK);
    assert_int_equal(device->vmm->create(device, GRANULE, &kit.handle), VRAM_OK);
    assert_int_equal(device->vmm->map(device, kit.base, kit.handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->access(device, kit.base, GRANULE), VRAM_OK);
    return kit;
}

static void kit_end(struct kit *kit) {
    struct vr_device *device = kit->device;
    assert_int_equal(device->vmm->unmap(device, kit->base, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->release(device, kit->handle, GRANULE), VRAM_OK);
    assert_int_equal(device->vmm->unreserve(device, kit->base, 2 * GRANULE), VRAM_OK);
    assert_int_equal(device->pinned->free(device, kit->pinned, PAGE), VRAM_OK);
    end_queue(&kit->queue);
    give_memory(device, kit->addr, GRANULE);
}

static void called(void *user) {
    *(bool *)user = true;
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        vram_error_clear();                                                                        \
        assert_int_equal(call, VRAM_ERR_INVALID);                                                  \
        assert_cuda_error(VRAM_ERR_INVALID, WORLD_ENTERS, VR_CU_INVALID_VALUE);                    \
    } while (0)

/* Every operation says so, and leaves everything as it was. */
static void nothing_is_done_without_a_context(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    static _Alignas(1 << 16) char pages[1 << 16];
    vram_value value, total;
    vram_addr addr = 7;
    uint64_t handle = 7;
    void *kernel = NULL;
    bool within = false;
    int descriptor = -1;
    struct vr_queue queue = {.device = device};
    struct kit kit = kit_make(device);
    fake->refuse(WORLD_ENTERS, 1, VR_CU_INVALID_VALUE, true);
    REFUSED(device->ops->memory_info(device, &value, &total));
    REFUSED(device->ops->alloc(device, GRANULE, &addr));
    REFUSED(device->ops->free(device, kit.addr, GRANULE));
    REFUSED(device->pinned->alloc(device, PAGE, &addr));
    REFUSED(device->pinned->free(device, kit.pinned, PAGE));
    REFUSED(device->pinned->check(device, kit.pinned, &value));
    REFUSED(device->pinned->register_pages(device, (uintptr_t)pages, sizeof pages));
    REFUSED(device->pinned->unregister_pages(device, (uintptr_t)pages, sizeof pages));
    REFUSED(device->managed->alloc(device, PAGE, &addr));
    REFUSED(device->managed->advise(device, kit.addr, PAGE, VRAM_ADVICE_PREFER, VRAM_TARGET_HOST));
    REFUSED(device->vmm->reserve(device, GRANULE, GRANULE, &addr));
    REFUSED(device->vmm->unreserve(device, kit.base, 2 * GRANULE));
    REFUSED(device->vmm->create(device, GRANULE, &handle));
    REFUSED(device->vmm->release(device, kit.handle, GRANULE));
    REFUSED(device->vmm->map(device, kit.base + GRANULE, kit.handle, GRANULE));
    REFUSED(device->vmm->access(device, kit.base, GRANULE));
    REFUSED(device->vmm->unmap(device, kit.base, GRANULE));
    REFUSED(device->share->create(device, GRANULE, &handle));
    REFUSED(device->share->export_handle(device, kit.handle, GRANULE, false, &descriptor));
    REFUSED(device->share->import_handle(device, 0, GRANULE, &handle));
    REFUSED(kernel_load(device, &kernel));
    REFUSED(device->queue_ops->create(&queue, NULL));
    REFUSED(device->queue_ops->signal(&kit.queue, 1));
    REFUSED(device->queue_ops->upload(&kit.queue, kit.addr, pages, 8));
    REFUSED(device->queue_ops->fill(&kit.queue, kit.addr, 0, 1, 8));
    device->within(device, called, &within);
    assert_false(within);
    assert_true(addr == 7 && handle == 7 && descriptor == -1 && !kernel && !queue.impl);
    fake->refuse(NULL, 0, 0, false);
    device->within(device, called, &within);
    assert_true(within);
    kit_end(&kit);
}

/* What ends an object has nobody to tell: the driver keeps its part. */
static void objects_end_without_a_context(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    struct fake_cuda_live live;
    struct vr_queue queue;
    void *kernel;
    make_queue(device, &queue);
    assert_int_equal(kernel_load(device, &kernel), VRAM_OK);
    fake->refuse(WORLD_ENTERS, 1, VR_CU_INVALID_VALUE, true);
    vram_error_clear();
    device->kernel->unload(device, kernel);
    end_queue(&queue);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    fake->refuse(NULL, 0, 0, false);
    fake->live(&live);
    assert_int_equal(live.modules, 1);
    assert_int_equal(live.streams, 1);
    close_device(device);
    fake->reset();
}

/* --------------------------------------------------------------- describing */

static void devices_may_do_less(void **state) {
    struct world *world = *state;
    struct vram_device_info info = {.size = sizeof info};
    const struct vr_backend_ops *ops = world->backend.ops;
    fake->attribute(VR_CU_ATTRIBUTE_CONCURRENT_MANAGED, 0);
    assert_int_equal(ops->describe(&world->backend, 0, &info), VRAM_OK);
    assert_false(info.caps & VRAM_CAP_MANAGED);
    assert_true(info.caps_known & VRAM_CAP_MANAGED);
    fake->attribute(VR_CU_ATTRIBUTE_CONCURRENT_MANAGED, 1);
    close_device(&world->device);
    ops->stop(&world->backend);
    fake->devices(2);
    start_backend(&world->backend);
    fake->refuse("cuDeviceCanAccessPeer", 1, VR_CU_INVALID_DEVICE, true);
    info = (struct vram_device_info){.size = sizeof info};
    assert_int_equal(ops->describe(&world->backend, 0, &info), VRAM_OK);
    assert_false(info.caps & VRAM_CAP_PEERS);
    fake->refuse(NULL, 0, 0, false);
    info = (struct vram_device_info){.size = sizeof info};
    assert_int_equal(ops->describe(&world->backend, 0, &info), VRAM_OK);
    assert_true(info.caps & VRAM_CAP_PEERS);
}

/* Descriptors that are none, and a driver that does not tell whether it has them. */
static void exports_are_looked_at(void **state) {
    struct world *world = *state;
    struct vr_device *device = &world->device;
    uint64_t handle, none = 7;
    int descriptor = -7;
    assert_int_equal(device->share->create(device, GRANULE, &handle), VRAM_OK);
    fake->lie("cuMemExportToShareableHandle", 1, FAKE_CUDA_NULL, false);
    assert_int_equal(device->share->export_handle(device, handle, GRANULE, false, &descriptor),
                     VRAM_ERR_CORRUPT);
    assert_int_equal(descriptor, -7);
    fake->refuse(NULL, 0, 0, false);
    assert_int_equal(device->share->export_handle(device, handle, GRANULE, false, &descriptor),
                     VRAM_OK);
    fake->lie("cuMemImportFromShareableHandle", 1, FAKE_CUDA_NULL, false);
    assert_int_equal(device->share->import_handle(device, descriptor, GRANULE, &none),
                     VRAM_ERR_CORRUPT);
    assert_int_equal(none, 7);
    fake->refuse(NULL, 0, 0, false);
    vr_os_file_close(descriptor);
    assert_int_equal(device->vmm->release(device, handle, GRANULE), VRAM_OK);
    close_device(device);
    fake->attribute(VR_CU_ATTRIBUTE_DESCRIPTORS, -1);
    open_device(&world->backend, 0, device);
    assert_non_null(device->vmm);
    assert_null(device->share);
}

static void functions_that_are_none_are_found(void **state) {
    struct world *world = *state;
    void *kernel = NULL;
    fake->lie("cuModuleGetFunction", 1, FAKE_CUDA_NULL, false);
    assert_int_equal(kernel_load(&world->device, &kernel), VRAM_ERR_CORRUPT);
    assert_cuda_error(VRAM_ERR_CORRUPT, "cuModuleGetFunction", 0);
    assert_null(kernel);
}

/* -------------------------------------------------------------------- peers */

static void open_pair(struct world *world, struct vr_device *second, bool vmm) {
    close_device(&world->device);
    world->backend.ops->stop(&world->backend);
    fake->devices(2);
    start_backend(&world->backend);
    open_device(&world->backend, 0, &world->device);
    fake->attribute(VR_CU_ATTRIBUTE_VMM, vmm);
    open_device(&world->backend, 1, second);
    fake->attribute(VR_CU_ATTRIBUTE_VMM, 1);
    assert_int_equal(second->vmm != NULL, vmm);
}

/* Two contexts are entered: that of the device, then that of its peer. */
static void peers_are_enabled_as_a_whole(void **state) {
    struct world *world = *state;
    struct vr_device second, *first = &world->device;
    vram_addr base;
    uint64_t handles[2];
    open_pair(world, &second, true);
    assert_int_equal(second.vmm->reserve(&second, 2 * GRANULE, GRANULE, &base), VRAM_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(second.vmm->create(&second, GRANULE, &handles[i]), VRAM_OK);
    }
    vr_mem_fail_at(1, false); /* the list of mappings */
    assert_int_equal(second.vmm->map(&second, base, handles[0], GRANULE), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_int_equal(second.vmm->map(&second, base, handles[0], GRANULE), VRAM_OK);
    assert_int_equal(second.vmm->access(&second, base, GRANULE), VRAM_OK);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fake->refuse(WORLD_ENTERS, nth, VR_CU_INVALID_VALUE, false);
        REFUSED(first->peer->enable(first, &second));
        fake->refuse(NULL, 0, 0, false);
        assert_false(fake->reaches(0, base));
    }
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    assert_true(fake->reaches(0, base));
    fake->refuse(WORLD_ENTERS, 2, VR_CU_INVALID_VALUE, false); /* it stays what it was */
    REFUSED(first->peer->enable(first, &second));
    fake->refuse("cuDeviceCanAccessPeer", 1, VR_CU_INVALID_DEVICE, false);
    assert_false(first->peer->reachable(first, &second));
    fake->refuse(NULL, 0, 0, false);
    assert_true(first->peer->reachable(first, &second));
    assert_int_equal(second.vmm->map(&second, base + GRANULE, handles[1], GRANULE), VRAM_OK);
    assert_int_equal(second.vmm->access(&second, base + GRANULE, GRANULE), VRAM_OK);
    assert_true(fake->reaches(0, base + GRANULE));
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(second.vmm->unmap(&second, base + i * GRANULE, GRANULE), VRAM_OK);
        assert_int_equal(second.vmm->release(&second, handles[i], GRANULE), VRAM_OK);
    }
    assert_int_equal(second.vmm->unreserve(&second, base, 2 * GRANULE), VRAM_OK);
    close_device(&second);
}

/* ------------------------------------------- what other threads do meanwhile */

static struct vr_device racer;
static vram_addr raced;
static uint64_t raced_handle;

static void unmap_it(void) {
    assert_int_equal(racer.vmm->unmap(&racer, raced, GRANULE), VRAM_OK);
}

static void map_it(void) {
    assert_int_equal(racer.vmm->map(&racer, raced, raced_handle, GRANULE), VRAM_OK);
}

static void map_it_anew(void) {
    unmap_it();
    map_it();
}

static void protect_it(void) {
    assert_int_equal(racer.vmm->protect(&racer, raced, GRANULE, true), VRAM_OK);
}

/* A mapping that goes, loses its access or becomes read-only while a peer is given access to it:
   keeps (2) of cuda_peer.c. */
static void mappings_change_while_peers_are_enabled(void **state) {
    static void (*const changes[])(void) = {unmap_it, map_it_anew, protect_it};
    struct world *world = *state;
    struct vr_device *first = &world->device;
    for (int i = 0; i < 3; i++) {
        open_pair(world, &racer, true);
        assert_int_equal(racer.vmm->reserve(&racer, GRANULE, GRANULE, &raced), VRAM_OK);
        assert_int_equal(racer.vmm->create(&racer, GRANULE, &raced_handle), VRAM_OK);
        map_it();
        assert_int_equal(racer.vmm->access(&racer, raced, GRANULE), VRAM_OK);
        fake->meanwhile("cuMemSetAccess", changes[i]);
        assert_int_equal(first->peer->enable(first, &racer), VRAM_OK);
        if (changes[i] == unmap_it) {
            assert_false(fake->reaches(0, raced));
            map_it();
        }
        if (changes[i] == protect_it) {
            assert_true(fake->reaches(0, raced));
            assert_false(fake->writable(0, raced));
        } else { /* it is not accessible to its own device yet */
            assert_int_equal(racer.vmm->access(&racer, raced, GRANULE), VRAM_OK);
            assert_true(fake->writable(0, raced));
        }
        unmap_it();
        assert_int_equal(racer.vmm->release(&racer, raced_handle, GRANULE), VRAM_OK);
        assert_int_equal(racer.vmm->unreserve(&racer, raced, GRANULE), VRAM_OK);
        close_device(&racer);
    }
}

static void peers_need_no_mappings(void **state) {
    struct world *world = *state;
    struct vr_device second, *first = &world->device;
    struct vr_queue queue;
    char text[8] = "";
    open_pair(world, &second, false);
    make_queue(first, &queue);
    vram_addr from = take_memory(&second, GRANULE), to = take_memory(first, GRANULE);
    assert_int_equal(first->peer->enable(first, &second), VRAM_OK);
    fake->refuse(WORLD_ENTERS, 1, VR_CU_INVALID_VALUE, false);
    REFUSED(first->peer->copy(&queue, to, &second, from, 8));
    fake->refuse(NULL, 0, 0, false);
    assert_int_equal(first->queue_ops->upload(&queue, to, "nothing", 8), VRAM_OK);
    assert_int_equal(first->peer->copy(&queue, to, &second, from, 8), VRAM_OK);
    assert_int_equal(first->queue_ops->download(&queue, text, to, 8), VRAM_OK);
    settle(&queue);
    assert_string_equal(text, "");
    end_queue(&queue);
    give_memory(first, to, GRANULE);
    give_memory(&second, from, GRANULE);
    close_device(&second);
}

/* ------------------------------------------------------------------- events */

/* A device whose streams neither write words nor call functions of the host. */
static void open_by_events(struct world *world) {
    close_device(&world->device);
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, 0);
    fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, 0);
    fake->host_functions(false);
    open_device(&world->backend, 0, &world->device);
}

static void let_go_soon(void *unused) {
    (void)unused;
    vr_os_sleep(20000000);
    fake->hold(false);
}

static void signals_by_events_fail_with_their_calls(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    struct vr_thread thread;
    open_by_events(world);
    const struct vr_queue_ops *ops = world->device.queue_ops;
    make_queue(&world->device, &queue);
    uint64_t start = word_of(&queue);
    assert_int_equal(ops->signal(&queue, start + 1), VRAM_OK); /* finds out what there is */
    while (word_of(&queue) < start + 1) {
        vram_status status = ops->poll(&queue);
        assert_true(status == VRAM_OK || status == VRAM_ERR_NOT_READY);
    }
    fake->refuse("cuEventCreate", 1, VR_CU_OUT_OF_MEMORY, false);
    assert_int_equal(ops->signal(&queue, start + 2), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(fake->struck(), 1);
    fake->refuse("cuEventRecord", 1, VR_CU_INVALID_VALUE, false);
    assert_int_equal(ops->signal(&queue, start + 2), VRAM_ERR_INVALID);
    assert_int_equal(fake->struck(), 1);
    fake->refuse(NULL, 0, 0, false);
    vr_mem_fail_at(1, false);
    assert_int_equal(ops->signal(&queue, start + 2), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_int_equal(word_of(&queue), start + 1);
    /* The end of the queue raises the word of a signal that nobody asked for. */
    vr_atomic_u64 *word = queue.word;
    fake->hold(true);
    assert_int_equal(ops->signal(&queue, start + 3), VRAM_OK);
    assert_int_equal(vr_os_thread_start(&thread, "let_go", let_go_soon, NULL), VRAM_OK);
    end_queue(&queue);
    vr_os_thread_join(&thread);
    assert_int_equal(vr_load(word, VR_ACQUIRE), start + 3);
}

/* ---------------------------------------------------------- adopted streams */

/* A stream that must not be touched any more is left alone, and its word is not used again. */
static void adopted_streams_are_left_alone(void **state) {
    struct world *world = *state;
    const struct vr_queue_ops *ops = world->device.queue_ops;
    for (int renewed = 0; renewed < 2; renewed++) {
        struct vr_queue queue, later;
        struct vr_cu_stream *stream = fake->stream_make(0, false, false);
        assert_int_equal(adopt(&world->device, stream, &queue), VRAM_OK);
        fake->hold(true);
        uint64_t value = word_of(&queue) + 1;
        assert_int_equal(ops->signal(&queue, value), VRAM_OK);
        if (renewed) {
            fake->stream_renew(stream);
        } else {
            fake->refuse("cuStreamIsCapturing", 1, VR_CU_INVALID_VALUE, true);
        }
        vr_atomic_u64 *word = queue.word;
        uint64_t waits = fake->calls("cuStreamSynchronize");
        end_queue(&queue);
        assert_int_equal(fake->calls("cuStreamSynchronize"), waits);
        fake->refuse(NULL, 0, 0, false);
        make_queue(&world->device, &later);
        assert_ptr_not_equal(later.word, word);
        fake->hold(false);
        assert_true(reaches(word, value)); /* the write comes late */
        end_queue(&later);
        fake->stream_end(stream);
    }
    world->kept_pages = 1;
}

/* The same when the device is closed before the write comes. */
static void a_late_write_outlives_the_device(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    struct vr_cu_stream *stream = fake->stream_make(0, false, false);
    assert_int_equal(adopt(&world->device, stream, &queue), VRAM_OK);
    fake->hold(true);
    assert_int_equal(world->device.queue_ops->signal(&queue, 5), VRAM_OK);
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE); /* may not be synchronised */
    vr_atomic_u64 *word = queue.word;
    end_queue(&queue);
    close_device(&world->device);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    fake->hold(false);
    assert_true(reaches(word, 5));
    fake->stream_end(stream);
    world->kept_pages = 1;
}

/* A wait that a capture forbids is not repeated. */
static void waits_in_a_capture_are_not_repeated(void **state) {
    struct world *world = *state;
    struct vr_queue queue;
    make_queue(&world->device, &queue);
    settle(&queue);
    fake->refuse("cuStreamSynchronize", 1, VR_CU_CAPTURE_FIRST, true);
    end_queue(&queue);
    assert_int_equal(fake->struck(), 1);
    fake->refuse(NULL, 0, 0, false);
    world->kept_pages = 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(nothing_is_done_without_a_context),
        HERE(objects_end_without_a_context),
        HERE(devices_may_do_less),
        HERE(exports_are_looked_at),
        HERE(functions_that_are_none_are_found),
        HERE(peers_are_enabled_as_a_whole),
        HERE(mappings_change_while_peers_are_enabled),
        HERE(peers_need_no_mappings),
        HERE(signals_by_events_fail_with_their_calls),
        HERE(adopted_streams_are_left_alone),
        HERE(a_late_write_outlives_the_device),
        HERE(waits_in_a_capture_are_not_repeated),
    };
    return cmocka_run_group_tests_name("cuda_answers", tests, NULL, NULL);
}
