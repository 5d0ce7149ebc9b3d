/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_card.c: whether network cards may have registered memory of a device (GPUDirect RDMA).
 *
 * A registration pins physical memory, and nobody tells this library of it. If that memory is
 * mapped elsewhere, the card goes on writing into what has another owner now. If it goes back to
 * the driver instead, the driver is relied on to give it to nobody until the registration ends (not
 * shown on a machine with a card). So a pool whose memory may be registered maps none of it
 * elsewhere: it releases free memory, and creates new.
 *
 *  (1) Only memory that was created for it can be registered: VRAM_CAP_RDMA.
 *  (2) Programs register memory through libibverbs (NCCL, UCX, MPI, NVSHMEM), which they load when
 *      they look for cards. Once it is loaded, the answer stays yes.
 *  (3) Where no card is, the answer is no without a look at libraries.
 */
#include "device/objects.h"

#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"
#include "vram/limits.h"

static const char LIBRARY[] = "libibverbs.so.1";

static bool has_cards(void) {
    char root[VR_OPTION_TEXT_MAX], path[VR_OPTION_TEXT_MAX + 32];
    vr_option_text(VR_OPTION_SYSTEM_ROOT, root);
    (void)vr_text_format(path, sizeof path, "%s/sys/class/infiniband", root);
    return vr_os_folder_has_entries(path);
}

void vr_network_cards_find(struct vr_device *device) {
    uint64_t option = vr_option_number(VR_OPTION_RDMA);
    enum vr_network_cards cards = VR_CARDS_NONE;
    if (device->info.caps & VRAM_CAP_RDMA && option != VRAM_SWITCH_OFF) { /* keeps (1) */
        cards = option == VRAM_SWITCH_ON ? VR_CARDS_REGISTER
                : has_cards()            ? VR_CARDS_IDLE /* keeps (3) */
                                         : VR_CARDS_NONE;
    }
    vr_store(&device->network_cards, cards, VR_RELAXED);
}

bool vr_network_cards_register(struct vr_device *device) {
    uint32_t cards = vr_load(&device->network_cards, VR_RELAXED);
    if (cards == VR_CARDS_IDLE && vr_os_library_is_loaded(LIBRARY)) { /* keeps (2) */
        cards = VR_CARDS_REGISTER;
        vr_store(&device->network_cards, cards, VR_RELAXED);
    }
    return cards == VR_CARDS_REGISTER;
}
