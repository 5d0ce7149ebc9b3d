/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_ledger.c: the ledger that a device has for all its pools; limit.h (2).
 */
#include "core/limit/limit.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"

static void ledger_free(void *memory) {
    struct vr_ledger *ledger = memory;
    vr_foreigns_tell(&ledger->foreigns);
    vr_tags_free(&ledger->tags);
    vr_foreigns_free(&ledger->foreigns);
    vr_mutex_destroy(&ledger->lock);
    vr_mem_free(ledger);
}

/* Quotas of the environment apply whatever the program sets the option to; those of the option
   apply in addition. */
static vram_status read_quotas(struct vr_ledger *ledger) {
    char quotas[VR_OPTION_TEXT_MAX];
    vr_option_environment_text(VR_OPTION_QUOTAS, quotas);
    vram_status status = vr_quotas_read(ledger, quotas);
    if (status == VRAM_OK) {
        vr_option_text(VR_OPTION_QUOTAS, quotas);
        status = vr_quotas_read(ledger, quotas);
    }
    return status;
}

struct vr_ledger *vr_ledger_get(struct vr_device_object *device) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    if (ledger) {
        return ledger;
    }
    ledger = vr_mem_alloc(1, sizeof *ledger, vr_operation());
    if (!ledger) {
        return NULL;
    }
    ledger->sample_ns = vr_option_number(VR_OPTION_MEMORY_SAMPLE);
    ledger->limits.size = sizeof ledger->limits;
    vr_store(&ledger->generation, 1, VR_RELAXED);
    vr_store(&ledger->usable_bytes, UINT64_MAX, VR_RELAXED);
    vr_mutex_init(&ledger->lock, VR_RANK_LEDGER);
    if (read_quotas(ledger) != VRAM_OK) {
        ledger_free(ledger);
        return NULL;
    }
    vr_mutex_lock(&device->context->lock); /* of two threads, the first one sets it */
    struct vr_account *account = device->slot->account;
    void *other = vr_load(&account->ledger, VR_ACQUIRE);
    if (!other) {
        account->ledger_free = ledger_free;
        vr_store(&account->ledger, ledger, VR_RELEASE);
    }
    vr_mutex_unlock(&device->context->lock);
    if (other) {
        ledger_free(ledger);
    }
    return other ? other : ledger;
}
