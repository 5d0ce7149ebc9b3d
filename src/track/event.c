/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.c: the one receiver of events, the calls to it in progress, the announcer, and the lines of
 * the log.
 */
#include "track/event.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/status.h"
#include "base/text.h"

vr_atomic_u32 vr_events_wanted_by;

static struct vr_mutex change_lock =
    VR_MUTEX_INIT(VR_RANK_TRACK); /* guards changes of the receiver */
static struct {
    vr_event_fn *take; /* written only when the flag is clear and no call is inside */
    void *user;
    vr_atomic_u64 process; /* whose events it receives; under the lock; keeps (6) */
    vr_atomic_u32 inside;  /* calls of that process in progress */
} receiver;

/* -------------------------------------------------------------------- the log */

const char *vr_memory_name(uint32_t kind) {
    static const char *const names[] = {"device", "pinned", "managed", "host"};
    return names[kind & 3];
}

static const char *quote_of(const char *text) {
    return text && *text ? "\"" : "";
}

static const char *text_or_none(const char *text) {
    return text && *text ? text : "none";
}

void vr_memory_log(const char *name, const char *tag, const char *pool, const char *format, ...) {
    char what[160];
    if (!vr_log_enabled(VRAM_LOG_DEBUG)) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(what, sizeof what, format, arguments);
    va_end(arguments);
    vr_log(VRAM_LOG_DEBUG, "%s, name %s%s%s, tag %s%s%s, pool \"%s\"", what, quote_of(name),
           text_or_none(name), quote_of(name), quote_of(tag), text_or_none(tag), quote_of(tag),
           pool);
}

static void log_block(const struct vr_event *event, const char *what) {
    vr_memory_log(event->name ? event->name : event->label, event->tag, event->pool_name,
                  "%s: %llu bytes at 0x%llx", what, (unsigned long long)event->bytes,
                  (unsigned long long)event->addr);
}

static void log_event(const struct vr_event *event) {
    unsigned long long bytes = event->bytes;
    switch (event->kind) {
    case VR_EVENT_ALLOC:
        log_block(event, "alloc");
        break;
    case VR_EVENT_FREE:
        log_block(event, "free");
        break;
    case VR_EVENT_RESIZE:
        vr_memory_log(event->label, event->tag, event->pool_name,
                      "resize: %llu to %llu bytes at 0x%llx", (unsigned long long)event->before,
                      bytes, (unsigned long long)event->addr);
        break;
    case VR_EVENT_REFUSED:
        vr_memory_log(event->name, event->tag, event->pool_name, "refused: %llu bytes: %s", bytes,
                      vr_status_text(event->status));
        break;
    default: /* pools and transfers */
        break;
    }
}

/* --------------------------------------------------------------- the receiver */

static _Atomic(vr_event_fn *) announcer; /* set once */

#define is_received(order) (vr_load(&vr_events_wanted_by, order) & VR_EVENTS_RECEIVED)

void vr_events_also_to(vr_event_fn *announce) {
    vr_store(&announcer, announce, VR_RELEASE);
    vr_fetch_or(&vr_events_wanted_by, VR_EVENTS_ANNOUNCED, VR_SEQ_CST);
}

static void announce_event(const struct vr_event *event) {
    struct vram_error error;
    vr_event_fn *announce = vr_load(&announcer, VR_ACQUIRE);
    vr_error_save(&error);
    announce(NULL, event);
    vr_error_restore(&error);
}

/* Whether this process has set the receiver, now or earlier. A child finds its parent's, and counts
   itself inside only after it has set one of its own. */
static bool is_own(void) {
    return vr_load(&receiver.process, VR_ACQUIRE) == vr_os_process_generation();
}

static void send_event(struct vr_event *event) {
    struct vram_error error;
    if (!is_own()) {
        return;
    }
    vr_fetch_add(&receiver.inside, 1, VR_SEQ_CST);
    if (is_received(VR_SEQ_CST)) {
        event->time_ns = vr_clock_now();
        vr_error_save(&error);
        receiver.take(receiver.user, event);
        vr_error_restore(&error);
    }
    vr_fetch_sub(&receiver.inside, 1, VR_SEQ_CST);
}

void vr_event_tell(struct vr_event *event) {
    uint32_t wanted_by = vr_load(&vr_events_wanted_by, VR_ACQUIRE);
    if (wanted_by & VR_EVENTS_RECEIVED) {
        send_event(event);
    }
    if (wanted_by & VR_EVENTS_ANNOUNCED) {
        announce_event(event);
    }
    if (vr_log_maybe(VRAM_LOG_DEBUG)) {
        log_event(event);
    }
}

/* Keeps (3): a call that enters from now on finds the flag clear. In a child, calls of the parent's
   threads never end, and are not waited for. */
static void receiver_clear(void) {
    vr_fetch_and(&vr_events_wanted_by, ~(uint32_t)VR_EVENTS_RECEIVED, VR_SEQ_CST);
    for (unsigned round = 0; vr_load(&receiver.inside, VR_SEQ_CST) && is_own(); round++) {
        if (round < 64) {
            vr_os_yield();
        } else {
            vr_os_sleep(50000);
        }
    }
}

bool vr_events_taken(void) {
    vr_mutex_lock(&change_lock);
    bool taken = is_received(VR_RELAXED) && is_own();
    vr_mutex_unlock(&change_lock);
    return taken;
}

vram_status vr_events_to(vr_event_fn *take, void *user) {
    vram_status status = VRAM_OK;
    vr_mutex_lock(&change_lock);
    bool own = is_own();
    if (take && is_received(VR_RELAXED) && own) {
        status = VRAM_ERR_BUSY;
    } else {
        receiver_clear();
        receiver.take = take;
        receiver.user = user;
        if (take) {
            if (!own) {
                vr_store(&receiver.inside, 0, VR_RELAXED);
            }
            vr_store(&receiver.process, vr_os_process_generation(), VR_RELEASE);
            vr_fetch_or(&vr_events_wanted_by, VR_EVENTS_RECEIVED, VR_SEQ_CST);
        }
    }
    vr_mutex_unlock(&change_lock);
    return status == VRAM_OK
               ? VRAM_OK
               : vr_fail_in(status, "vr_events_to", "another receiver of events is set already");
}
