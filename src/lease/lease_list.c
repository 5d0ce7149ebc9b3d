/* SPDX-License-Identifier: Apache-2.0 */
/* lease_list.c: what the broker knows, and being the broker. */
#include "lease/broker.h"
#include "lease/lease_wire.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/struct_tail.h"
#include "base/text.h"

#include <string.h>

#define LIST_NS UINT64_C(5000000000)  /* for the whole list */
#define IDLE_NS UINT64_C(10000000000) /* of a broker, if nothing is said */

const char *vram_lease_happening_name(vram_lease_happening happening) {
    static const char *const names[] = {
#define ROW(NAME, value, name) [value] = (name),
        VRAM_LEASE_LOG_MAP(ROW)
#undef ROW
    };
    return (unsigned)happening < sizeof names / sizeof names[0] ? names[happening] : "unknown";
}

/* Where a list is written to. */
struct listing {
    struct vram_lease_entry *entries;
    struct vram_lease_record *records;
    uint32_t entry_room, record_room;   /* that fit */
    uint32_t entry_count, record_count; /* that there are */
};

static void entry_take(struct listing *listing, const struct vr_lease_message *message) {
    const uint64_t *n = message->n;
    if (listing->entry_count < listing->entry_room) {
        struct vram_lease_entry *entry = &listing->entries[listing->entry_count];
        *entry = (struct vram_lease_entry){.process = n[0],
                                           .priority = vr_lease_priority_get(n[1]),
                                           .min_bytes = n[2],
                                           .want_bytes = n[3],
                                           .granted_bytes = n[4],
                                           .held_bytes = n[5],
                                           .waiting_bytes = n[6],
                                           .asked_bytes = n[7]};
        vr_text_copy(entry->name, sizeof entry->name, message->name);
        vr_text_copy(entry->device, sizeof entry->device, message->device);
    }
    listing->entry_count++;
}

static void record_take(struct listing *listing, const struct vr_lease_message *message) {
    const uint64_t *n = message->n;
    if (listing->record_count < listing->record_room) {
        struct vram_lease_record *record = &listing->records[listing->record_count];
        *record = (struct vram_lease_record){.number = n[0],
                                             .ago_ns = n[1],
                                             .happening = (vram_lease_happening)n[2],
                                             .why = (vram_lease_why)n[3],
                                             .bytes = n[4],
                                             .waited_ns = n[5],
                                             .from_process = n[6],
                                             .to_process = n[7]};
        vr_text_copy(record->from, sizeof record->from, message->name);
        vr_text_copy(record->to, sizeof record->to, message->device);
    }
    listing->record_count++;
}

/* Takes one message; VRAM_ERR_NOT_READY: more follow. */
static vram_status list_take(struct listing *listing, const struct vr_lease_message *message) {
    enum { MOST = 1 << 16 }; /* of either: a broker that never ends its list is no broker */
    if (message->version != VR_LEASE_VERSION) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the broker of leases speaks version %u of the protocol, this libvram "
                       "version %d",
                       message->version, VR_LEASE_VERSION);
    }
    if (listing->entry_count > MOST || listing->record_count > MOST) {
        return vr_fail(VRAM_ERR_CORRUPT, "the broker's list of leases has no end");
    }
    switch (message->type) {
    case VR_LEASE_ENTRY:
        entry_take(listing, message);
        break;
    case VR_LEASE_ENTRY_MORE:
        if (listing->entry_count && listing->entry_count <= listing->entry_room) {
            listing->entries[listing->entry_count - 1].capacity_bytes = message->n[0];
        }
        break;
    case VR_LEASE_RECORD:
        record_take(listing, message);
        break;
    case VR_LEASE_END:
        return VRAM_OK;
    default:
        break;
    }
    return VRAM_ERR_NOT_READY;
}

static vram_status list_receive(struct listing *listing, int fd, uint64_t deadline) {
    struct vr_lease_reader reader = {.bytes = 0};
    struct vr_lease_message message;
    vram_status status = vr_lease_send(fd, &(struct vr_lease_message){.type = VR_LEASE_LIST});
    for (status = status == VRAM_OK ? VRAM_ERR_NOT_READY : status; status == VRAM_ERR_NOT_READY;) {
        struct vr_os_poll poll = {.fd = fd, .read = true};
        status = vr_lease_receive(&reader, fd, &message);
        if (status == VRAM_OK) {
            status = list_take(listing, &message);
            continue;
        }
        if (status == VRAM_ERR_NOT_READY && vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "the broker of leases does not answer");
        }
        vr_os_poll(&poll, 1, vr_smaller(vr_deadline_left(deadline), UINT64_C(1000000000)));
    }
    return status;
}

vram_status vram_lease_list(const char *dir, vram_lease_entry *entries, uint32_t *entry_count,
                            vram_lease_record *records, uint32_t *record_count) {
    VR_CALL;
    char found[VR_RUNTIME_DIR_MAX], path[VR_SOCKET_PATH_MAX];
    struct listing listing = {.entries = entries,
                              .records = records,
                              .entry_room = entries && entry_count ? *entry_count : 0,
                              .record_room = records && record_count ? *record_count : 0};
    uint64_t deadline = vr_deadline_in(LIST_NS);
    int fd;
    /* Our own directory is made: before a user's first lease there is none. */
    vram_status status = vr_runtime_dir(dir, vr_os_user(), true, found);
    if (status != VRAM_OK) {
        return status;
    }
    vr_broker_path(found, path);
    status = vr_os_socket_connect(path, deadline, &fd);
    if (status == VRAM_ERR_STALE) {
        return vr_fail(status, "no broker runs in %s, so there are no leases", found);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = list_receive(&listing, fd, deadline);
    vr_os_file_close(fd);
    if (status == VRAM_OK && entry_count) {
        *entry_count = listing.entry_count;
    }
    if (status == VRAM_OK && record_count) {
        *record_count = listing.record_count;
    }
    return status;
}

/* --------------------------------------------------------------------- broker */

static bool program_stop(void *user, uint32_t connections) {
    const struct vram_broker_options *options = user;
    (void)connections;
    return options->stop && options->stop(options->user);
}

static void program_started(void *user, const char *path) {
    const struct vram_broker_options *options = user;
    if (options->started) {
        options->started(options->user, path);
    }
}

vram_status vram_broker_run(const vram_broker_options *options) {
    VR_CALL;
    struct vram_broker_options taken;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_broker_run run = {.idle_ns = taken.idle_ns ? taken.idle_ns : IDLE_NS,
                                .stop = program_stop,
                                .user = &taken,
                                .wake = -1,
                                .started = program_started};
    status = vr_runtime_dir(taken.dir, vr_os_user(), true, run.dir);
    return status == VRAM_OK ? vr_broker_serve(&run) : status;
}
