/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_answers.c: peers that are enabled in part, and adopted streams that end while a signal
 * is under way.
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

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        vram_error_clear();                                                                        \
        assert_int_equal(call, VRAM_ERR_INVALID);                                                  \
        assert_cuda_error(VRAM_ERR_INVALID, WORLD_ENTERS, VR_CU_INVALID_VALUE);                    \
    } while (0)

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
TEST(peers_are_enabled_as_a_whole) {
    struct world *world = rig_state;
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
TEST(mappings_change_while_peers_are_enabled) {
    static void (*const changes[])(void) = {unmap_it, map_it_anew, protect_it};
    struct world *world = rig_state;
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

TEST(peers_need_no_mappings) {
    struct world *world = rig_state;
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

/* ---------------------------------------------------------- adopted streams */

/* A stream that must not be touched any more is left alone, and its word is not used again. */
TEST(adopted_streams_are_left_alone) {
    struct world *world = rig_state;
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
TEST(a_late_write_outlives_the_device) {
    struct world *world = rig_state;
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
TEST(waits_in_a_capture_are_not_repeated) {
    struct world *world = rig_state;
    struct vr_queue queue;
    make_queue(&world->device, &queue);
    settle(&queue);
    fake->refuse("cuStreamSynchronize", 1, VR_CU_CAPTURE_FIRST, true);
    end_queue(&queue);
    assert_int_equal(fake->struck(), 1);
    fake->refuse(NULL, 0, 0, false);
    world->kept_pages = 1;
}

EACH_TEST(setup, teardown)
