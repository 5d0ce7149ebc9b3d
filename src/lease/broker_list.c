/* SPDX-License-Identifier: Apache-2.0 */
/* broker_list.c: the broker's log, and what it tells about its leases. */
#include "lease/broker_table.h"

#include <string.h>

void vr_broker_note(struct vr_broker_table *table, uint64_t now, vram_lease_happening happening,
                    const struct vr_broker_lease *from, const struct vr_broker_lease *to,
                    const struct vram_lease_record *more) {
    struct vram_lease_record *record = &table->log[table->records % VR_BROKER_LOG];
    *record = *more;
    record->number = ++table->records;
    record->ago_ns = now;
    record->happening = happening;
    if (from) {
        record->from_process = from->process;
        memcpy(record->from, from->name, sizeof record->from);
    }
    if (to) {
        record->to_process = to->process;
        memcpy(record->to, to->name, sizeof record->to);
    }
}

static void lease_put(const struct vr_broker_lease *lease,
                      void (*put)(void *user, const struct vr_lease_message *message), void *user) {
    struct vr_lease_message entry = {.type = VR_LEASE_ENTRY,
                                     .n = {lease->process, vr_lease_priority_put(lease->priority),
                                           lease->min, lease->want, lease->grant, lease->held,
                                           lease->waiting ? lease->wait_bytes : 0,
                                           lease->asked ? lease->ask_bytes - lease->ask_given : 0}};
    memcpy(entry.name, lease->name, sizeof entry.name);
    memcpy(entry.device, lease->device->key, sizeof entry.device);
    put(user, &entry);
    struct vr_lease_message more = {.type = VR_LEASE_ENTRY_MORE, .n = {lease->device->capacity}};
    put(user, &more);
}

static void record_put(const struct vram_lease_record *record, uint64_t now,
                       void (*put)(void *user, const struct vr_lease_message *message),
                       void *user) {
    uint64_t ago = now > record->ago_ns ? now - record->ago_ns : 0;
    struct vr_lease_message message = {
        .type = VR_LEASE_RECORD,
        .n = {record->number, ago, (uint64_t)record->happening, (uint64_t)record->why,
              record->bytes, record->waited_ns, record->from_process, record->to_process}};
    memcpy(message.name, record->from, sizeof message.name);
    memcpy(message.device, record->to, sizeof message.device);
    put(user, &message);
}

void vr_broker_list(const struct vr_broker_table *table, uint64_t now,
                    void (*put)(void *user, const struct vr_lease_message *message), void *user) {
    uint64_t first = table->records > VR_BROKER_LOG ? table->records - VR_BROKER_LOG : 0;
    for (struct vr_link *at = vr_list_first(&table->devices); at;
         at = vr_list_next(&table->devices, at)) {
        struct vr_broker_device *device = VR_CONTAINER(at, struct vr_broker_device, link);
        for (struct vr_link *link = vr_list_first(&device->leases); link;
             link = vr_list_next(&device->leases, link)) {
            lease_put(VR_CONTAINER(link, struct vr_broker_lease, link), put, user);
        }
    }
    for (uint64_t i = first; i < table->records; i++) {
        record_put(&table->log[i % VR_BROKER_LOG], now, put, user);
    }
    struct vr_lease_message end = {.type = VR_LEASE_END};
    put(user, &end);
}
