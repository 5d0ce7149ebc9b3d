/* SPDX-License-Identifier: Apache-2.0 */
/* test_device_exit.c: no driver is called any more once the process has begun to exit. */
#include "base/os/os.h"
#include "device/objects.h"
#include "device/ops.h"
#include "unit/assert_ok.h"
#include "unit/child.h"
#include "vram/vram.h"

static unsigned char host[16];

/* Every call of a driver, once the process has begun to exit: how many went through, or did not say
   why. */
static int calls_at_exit(void *argument) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "devices=2"};
    vram_context *context;
    vram_device *handle;
    vram_queue *submitted;
    vram_addr addr = 4096;
    vram_value value;
    uint64_t number = 0;
    int descriptor = -1;
    uint8_t fabric[VR_FABRIC_BYTES] = {0};
    struct vr_native native;
    void *kernel = NULL;
    (void)argument;
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &handle));
    assert_ok(vram_queue_create(handle, NULL, &submitted));
    struct vr_device_object *object = vr_handle_pin(VR_KIND_DEVICE, handle);
    struct vr_queue_object *of = vr_handle_pin(VR_KIND_QUEUE, submitted);
    struct vr_device *device = &object->base;
    struct vr_queue *queue = &of->base;
    vr_os_exit_begins();
    vr_device_close(device);
    vr_queue_destroy(queue);
    vr_object_give(device, addr, 4096);
    vr_kernel_unload(device, kernel);
    const vram_status all[] = {
        vr_device_open(device),
        vr_memory_info(device, &value, &value),
        vr_memory_alloc(device, 4096, &addr),
        vr_memory_free(device, addr, 4096),
        vr_queue_create(queue, NULL),
        vr_queue_adopt(queue),
        vr_queue_upload(queue, addr, host, 16),
        vr_queue_download(queue, host, addr, 16),
        vr_queue_copy(queue, addr, addr, 16),
        vr_queue_fill(queue, addr, 0, 4, 16),
        vr_queue_signal(queue, 1),
        vr_queue_after(queue, queue, 1),
        vr_queue_poll(queue),
        vr_queue_launch(queue, kernel, NULL),
        vr_pinned_alloc(device, 4096, &addr),
        vr_pinned_free(device, addr, 4096),
        vr_pinned_register(device, addr, 4096),
        vr_pinned_unregister(device, addr, 4096),
        vr_vmm_reserve(device, 4096, 4096, &addr),
        vr_vmm_unreserve(device, addr, 4096),
        vr_vmm_create(device, 4096, &number),
        vr_vmm_release(device, number, 4096),
        vr_vmm_map(device, addr, number, 4096),
        vr_vmm_access(device, addr, 4096),
        vr_vmm_unmap(device, addr, 4096),
        vr_share_export_handle(device, number, 4096, false, &descriptor),
        vr_share_import_handle(device, descriptor, 4096, &number),
        vr_share_release(device, number, 4096),
        vr_fabric_export(device, number, fabric),
        vr_fabric_import(device, fabric, &number),
        vr_managed_alloc(device, 4096, &addr),
        vr_managed_free(device, addr, 4096),
        vr_managed_prefetch(queue, addr, 4096, 0),
        vr_peer_enable(device, device),
        vr_peer_copy(queue, addr, device, addr, 16),
        vr_memory_native(device, addr, 4096, &native),
        vr_object_adopt(device, NULL, &addr),
        vr_object_native(device, addr, 4096, &native),
        vr_kernel_load(device, NULL, &kernel),
    };
    int through = vr_peer_reachable(device, device);
    through += vram_error_get()->status != VRAM_ERR_SHUTDOWN;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        through += all[i] != VRAM_ERR_SHUTDOWN;
    }
    return through;
}

TEST(no_driver_is_called_at_exit) {
    assert_int_equal(in_child(calls_at_exit, NULL), 0);
}
