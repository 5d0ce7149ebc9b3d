/* SPDX-License-Identifier: Apache-2.0 */
/* broker_table.c: who gets memory, and who is asked for it. See broker_table.h. */
#include "lease/broker_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

#include <string.h>

/* Calls for each lease of a device: a loop of the file. */
#define EACH_LEASE(device, lease)                                                                  \
    for (struct vr_broker_lease *lease = lease_at(device, vr_list_first(&(device)->leases));       \
         lease; lease = lease_at(device, vr_list_next(&(device)->leases, &lease->link)))

static struct vr_broker_lease *lease_at(struct vr_broker_device *device, struct vr_link *link) {
    (void)device;
    return link ? VR_CONTAINER(link, struct vr_broker_lease, link) : NULL;
}

/* Sums saturate: holders may claim anything. */
static uint64_t sum_of(uint64_t a, uint64_t b) {
    uint64_t sum;
    return vr_add(a, b, &sum) ? sum : UINT64_MAX;
}

static uint64_t granted_in(struct vr_broker_device *device) {
    uint64_t sum = 0;
    EACH_LEASE(device, lease) {
        sum = sum_of(sum, lease->grant);
    }
    return sum;
}

static uint64_t free_in(struct vr_broker_device *device) {
    uint64_t granted = granted_in(device);
    return device->capacity > granted ? device->capacity - granted : 0;
}

/* ------------------------------------------------------------------- answers */

static void request_grant(struct vr_broker_table *table, struct vr_broker_lease *lease,
                          uint64_t now) {
    struct vr_broker_device *device = lease->device;
    uint64_t bytes = lease->wait_bytes, others = 0;
    EACH_LEASE(device, other) {
        others += other != lease && other->waiting;
    }
    if (!lease->wait_asked && !others) { /* what nobody needs saves the next request */
        bytes = vr_smaller(lease->want - lease->grant, free_in(device));
    }
    lease->grant += bytes; /* keeps (1) */
    lease->waiting = false;
    vr_broker_note(
        table, now, VRAM_LEASE_LOG_GRANTED, NULL, lease,
        &(struct vram_lease_record){.bytes = bytes, .waited_ns = now - lease->wait_since});
    table->send(lease, &(struct vr_lease_message){.type = VR_LEASE_GRANTED,
                                                  .n = {lease->wait_number, bytes}});
}

/* One process that holds what was asked for. */
static void lender_send(struct vr_broker_table *table, struct vr_broker_lease *lease,
                        const struct vr_broker_lease *lender) {
    bool was_asked = lender->ask_order == lease->wait_order;
    struct vr_lease_message message = {
        .type = VR_LEASE_LENDER,
        .n = {lease->wait_number, lender->process, was_asked ? lender->ask_bytes : 0,
              was_asked ? lender->ask_given : 0,
              (uint64_t)(was_asked ? lender->ask_why : VRAM_LEASE_MINIMUM),
              vr_lease_priority_put(lender->priority)}};
    memcpy(message.name, lender->name, sizeof message.name);
    table->send(lease, &message);
}

/* Whether a holder belongs into the list of a request that failed. */
static bool is_lender(const struct vr_broker_lease *lease, const struct vr_broker_lease *other,
                      bool asked) {
    return other != lease && other->grant + (asked ? other->ask_given : 0) &&
           (other->ask_order == lease->wait_order) == asked;
}

/* ------------------------------------------------------------------- questions */

/* Which request an open question belongs to; NULL: it has ended. */
static struct vr_broker_lease *asker_of(struct vr_broker_lease *lender) {
    EACH_LEASE(lender->device, lease) {
        if (lease->waiting && lease->wait_order == lender->ask_order) {
            return lease;
        }
    }
    return NULL;
}

/* A question is over: the holder gave all, gave up, or nobody needs an answer any more. */
static void question_end(struct vr_broker_table *table, struct vr_broker_lease *lender,
                         uint64_t now) {
    const struct vr_broker_lease *asker = asker_of(lender);
    lender->asked = false;
    if (lender->ask_given < lender->ask_bytes) {
        vr_broker_note(table, now, VRAM_LEASE_LOG_KEPT, lender, asker,
                       &(struct vram_lease_record){.bytes = lender->ask_bytes - lender->ask_given,
                                                   .why = lender->ask_why});
    }
}

static void question_cancel(struct vr_broker_table *table, struct vr_broker_lease *lender,
                            uint64_t now) {
    question_end(table, lender, now);
    table->send(lender,
                &(struct vr_lease_message){.type = VR_LEASE_CANCEL, .n = {lender->ask_number}});
}

static void question_put(struct vr_broker_table *table, struct vr_broker_lease *lender,
                         struct vr_broker_lease *asker, uint64_t bytes, uint64_t now) {
    lender->asked = true;
    lender->ask_number = ++table->numbers;
    lender->ask_bytes = bytes;
    lender->ask_given = 0;
    lender->ask_order = asker->wait_order;
    lender->ask_why = VRAM_LEASE_SILENT;
    asker->wait_asked = true;
    struct vr_lease_message message = {
        .type = VR_LEASE_REVOKE,
        .n = {lender->ask_number, bytes,
              asker->wait_deadline > now ? asker->wait_deadline - now : 0, asker->process,
              vr_lease_priority_put(asker->priority), lender->priority > asker->priority}};
    memcpy(message.name, asker->name, sizeof message.name);
    table->send(lender, &message);
}

/* Whether `a` is to be asked before `b`: of lower priority, or with more above its minimum. */
static bool gives_before(const struct vr_broker_lease *a, const struct vr_broker_lease *b) {
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return a->grant - a->min > b->grant - b->min;
}

/* The next holder to ask; NULL: nobody is left. Keeps (4). */
static struct vr_broker_lease *lender_next(struct vr_broker_lease *asker) {
    struct vr_broker_lease *best = NULL;
    EACH_LEASE(asker->device, lease) {
        if (lease != asker && !lease->asked && lease->ask_order != asker->wait_order &&
            lease->grant > lease->min && (!best || gives_before(lease, best))) {
            best = lease;
        }
    }
    return best;
}

/* ------------------------------------------------------------------- requests */

static void request_deny(struct vr_broker_table *table, struct vr_broker_lease *lease,
                         uint64_t now) {
    struct vr_broker_device *device = lease->device;
    uint64_t count = 0;
    for (int asked = 1; asked >= 0; asked--) { /* those that were asked come first */
        EACH_LEASE(device, other) {
            if (is_lender(lease, other, asked)) {
                lender_send(table, lease, other);
                count++;
            }
        }
    }
    vr_broker_note(table, now, VRAM_LEASE_LOG_DENIED, NULL, lease,
                   &(struct vram_lease_record){.bytes = lease->wait_bytes,
                                               .waited_ns = now - lease->wait_since});
    table->send(lease,
                &(struct vr_lease_message){.type = VR_LEASE_DENIED,
                                           .n = {lease->wait_number, count, device->capacity}});
    EACH_LEASE(device, other) {
        if (other->asked && other->ask_order == lease->wait_order) {
            question_cancel(table, other, now);
        }
    }
    lease->waiting = false;
}

static struct vr_broker_lease *request_first(struct vr_broker_device *device) {
    struct vr_broker_lease *first = NULL;
    EACH_LEASE(device, lease) {
        if (lease->waiting &&
            (!first || lease->priority > first->priority ||
             (lease->priority == first->priority && lease->wait_order < first->wait_order))) {
            first = lease;
        }
    }
    return first;
}

/* Bytes that holders were asked for, for whatever request, and have not given yet: the first
   request gets them. */
static uint64_t promised_in(struct vr_broker_device *device) {
    uint64_t bytes = 0;
    EACH_LEASE(device, lease) {
        bytes += lease->asked ? lease->ask_bytes - lease->ask_given : 0;
    }
    return bytes;
}

/* Questions of requests that have ended are taken back: nobody sleeps for nothing. */
static void questions_sweep(struct vr_broker_table *table, struct vr_broker_device *device,
                            uint64_t now) {
    EACH_LEASE(device, lease) {
        if (lease->asked && !asker_of(lease)) {
            question_cancel(table, lease, now);
        }
    }
}

/* Asks holders for what the request lacks. False: nobody is left who could give. */
static bool request_ask(struct vr_broker_table *table, struct vr_broker_lease *asker,
                        uint64_t missing, uint64_t now) {
    uint64_t promised = promised_in(asker->device);
    struct vr_broker_lease *lender;
    while (promised < missing && (lender = lender_next(asker))) {
        uint64_t bytes = vr_smaller(missing - promised, lender->grant - lender->min);
        question_put(table, lender, asker, bytes, now);
        promised += bytes;
    }
    return promised != 0;
}

/* Serves requests in their order, as far as that is possible now; keeps (3). */
static void device_serve(struct vr_broker_table *table, struct vr_broker_device *device,
                         uint64_t now) {
    struct vr_broker_lease *asker;
    while (now >= table->ready_at && (asker = request_first(device))) {
        uint64_t all = sum_of(granted_in(device), asker->wait_bytes);
        if (all <= device->capacity) {
            request_grant(table, asker, now);
        } else if (request_ask(table, asker, all - device->capacity, now)) {
            break;
        } else {
            request_deny(table, asker, now);
        }
        questions_sweep(table, device, now);
    }
}

/* The driver's word on how much is free corrects the capacity: downwards if it has refused. */
static void capacity_learn(struct vr_broker_device *device, uint64_t free, bool refused) {
    uint64_t all = free;
    EACH_LEASE(device, lease) {
        all = sum_of(all, lease->held);
    }
    all = vr_smaller(all, device->limit);
    if (refused ? all < device->capacity : all > device->capacity) {
        device->capacity = all;
    }
}

/* A holder that was not answered in time gives its request up, without a word, and makes another.
   A grant that it has not received yet may make that smaller, or needless. */
static bool need_take(struct vr_broker_table *table, struct vr_broker_lease *lease,
                      const struct vr_lease_message *message, uint64_t now) {
    uint64_t asked = message->n[1], most = lease->want - vr_smaller(lease->want, lease->grant);
    uint64_t bytes = vr_smaller(asked, most);
    if (!asked || asked > lease->want) {
        return false;
    }
    lease->held = message->n[3];
    lease->waiting = false;
    questions_sweep(table, lease->device, now);
    if (!bytes) {
        table->send(lease,
                    &(struct vr_lease_message){.type = VR_LEASE_GRANTED, .n = {message->n[0], 0}});
        device_serve(table, lease->device, now);
        return true;
    }
    if (message->n[4]) {
        capacity_learn(lease->device, message->n[4] - 1, message->n[5]);
    }
    lease->waiting = true;
    lease->wait_number = message->n[0];
    lease->wait_bytes = bytes;
    lease->wait_since = now;
    lease->wait_deadline = sum_of(now, message->n[2]);
    lease->wait_order = ++table->numbers;
    lease->wait_asked = false;
    device_serve(table, lease->device, now);
    return true;
}

static bool give_take(struct vr_broker_table *table, struct vr_broker_lease *lease,
                      const struct vr_lease_message *message, uint64_t now) {
    uint64_t bytes = message->n[1];
    if (bytes > lease->grant) {
        return false;
    }
    lease->grant -= bytes;
    lease->held = message->n[4];
    if (lease->asked && message->n[0] == lease->ask_number) {
        lease->ask_given = sum_of(lease->ask_given, bytes);
        lease->ask_why =
            message->n[2] <= VRAM_LEASE_GONE ? (vram_lease_why)message->n[2] : VRAM_LEASE_IN_USE;
        if (bytes) {
            vr_broker_note(table, now, VRAM_LEASE_LOG_GAVE, lease, asker_of(lease),
                           &(struct vram_lease_record){.bytes = bytes});
        }
        if (message->n[3] || lease->ask_given >= lease->ask_bytes) {
            question_end(table, lease, now);
        }
    }
    device_serve(table, lease->device, now);
    return true;
}

bool vr_broker_take(struct vr_broker_table *table, struct vr_broker_lease *lease,
                    const struct vr_lease_message *message, uint64_t now) {
    switch (message->type) {
    case VR_LEASE_NEED:
        return need_take(table, lease, message, now);
    case VR_LEASE_GIVE:
        return give_take(table, lease, message, now);
    case VR_LEASE_HELD:
        lease->held = message->n[0];
        return true;
    case VR_LEASE_OPEN:
        return false; /* one lease per connection */
    default:
        return true; /* rule (3) of lease_wire.h */
    }
}

uint64_t vr_broker_tick(struct vr_broker_table *table, uint64_t now) {
    uint64_t next = now < table->ready_at ? table->ready_at : UINT64_MAX;
    for (struct vr_link *at = vr_list_first(&table->devices); at;
         at = vr_list_next(&table->devices, at)) {
        struct vr_broker_device *device = VR_CONTAINER(at, struct vr_broker_device, link);
        EACH_LEASE(device, lease) {
            if (lease->waiting && lease->wait_deadline <= now) {
                request_deny(table, lease, now); /* keeps (5) */
            }
        }
        questions_sweep(table, device, now);
        device_serve(table, device, now);
        EACH_LEASE(device, lease) {
            next = lease->waiting ? vr_smaller(next, lease->wait_deadline) : next;
        }
    }
    return next;
}

/* ------------------------------------------------------------- opening, closing */

static struct vr_broker_device *device_find(struct vr_broker_table *table, const char *key) {
    for (struct vr_link *at = vr_list_first(&table->devices); at;
         at = vr_list_next(&table->devices, at)) {
        struct vr_broker_device *device = VR_CONTAINER(at, struct vr_broker_device, link);
        if (strcmp(device->key, key) == 0) {
            return device;
        }
    }
    return NULL;
}

/* The device of a new lease, which determines its capacity if it is the first. */
static vram_status device_get(struct vr_broker_table *table, const struct vr_lease_message *message,
                              struct vr_broker_device **out) {
    struct vr_broker_device *device = device_find(table, message->device);
    if (!device) {
        device = vr_mem_alloc(1, sizeof *device, vr_operation());
        if (!device) {
            return VRAM_ERR_HOST_MEMORY;
        }
        memcpy(device->key, message->device, sizeof device->key);
        device->limit = device->capacity = message->n[4];
        vr_list_init(&device->leases);
        vr_list_append(&table->devices, &device->link);
    }
    *out = device;
    return VRAM_OK;
}

static void device_drop(struct vr_broker_device *device) {
    if (!vr_list_first(&device->leases)) {
        vr_link_remove(&device->link);
        vr_mem_free(device);
    }
}

/* Whether numbers of a VR_LEASE_OPEN can be true: min, want, grant. */
static bool open_is_sane(const struct vr_lease_message *message) {
    const uint64_t *n = message->n;
    return n[1] && n[0] <= n[1] && n[2] <= n[1] && n[4] && message->device[0];
}

vram_status vr_broker_open(struct vr_broker_table *table, const struct vr_lease_message *message,
                           uint64_t process, void *user, uint64_t now,
                           struct vr_broker_lease **out) {
    struct vr_broker_device *device;
    const uint64_t *n = message->n;
    if (!open_is_sane(message)) {
        return VRAM_ERR_INVALID;
    }
    vram_status status = device_get(table, message, &device);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_broker_lease *lease = vr_mem_alloc(1, sizeof *lease, vr_operation());
    bool fits = n[0] <= device->limit;
    if (!lease || !fits) {
        vr_mem_free(lease);
        device_drop(device);
        return lease ? VRAM_ERR_LIMIT : VRAM_ERR_HOST_MEMORY;
    }
    *lease = (struct vr_broker_lease){.device = device,
                                      .user = user,
                                      .process = process,
                                      .priority = vr_lease_priority_get(n[5]),
                                      .min = n[0],
                                      .want = n[1],
                                      .grant = n[2],
                                      .held = n[3]};
    memcpy(lease->name, message->name, sizeof lease->name);
    bool open = now >= table->ready_at && !request_first(device); /* keeps (3) */
    uint64_t free = free_in(device), left = free - vr_smaller(free, lease->grant);
    uint64_t more = open ? vr_smaller(left, lease->want - lease->grant) : 0;
    lease->grant += more;
    vr_list_append(&device->leases, &lease->link);
    vr_broker_note(table, now, n[6] ? VRAM_LEASE_LOG_RESUMED : VRAM_LEASE_LOG_OPENED, NULL, lease,
                   &(struct vram_lease_record){.bytes = lease->grant});
    *out = lease;
    return VRAM_OK;
}

void vr_broker_close(struct vr_broker_table *table, struct vr_broker_lease *lease, uint64_t now) {
    struct vr_broker_device *device = lease->device;
    if (lease->asked) {
        lease->ask_why = VRAM_LEASE_GONE;
        question_end(table, lease, now);
    }
    vr_broker_note(table, now, VRAM_LEASE_LOG_CLOSED, lease, NULL,
                   &(struct vram_lease_record){.bytes = lease->grant});
    vr_link_remove(&lease->link);
    vr_mem_free(lease);
    questions_sweep(table, device, now);
    device_serve(table, device, now);
    device_drop(device);
}

void vr_broker_table_init(struct vr_broker_table *table,
                          void (*send)(struct vr_broker_lease *, const struct vr_lease_message *)) {
    *table = (struct vr_broker_table){.send = send};
    vr_list_init(&table->devices);
}

void vr_broker_table_end(struct vr_broker_table *table) {
    struct vr_link *at, *link;
    while ((at = vr_list_first(&table->devices))) {
        struct vr_broker_device *device = VR_CONTAINER(at, struct vr_broker_device, link);
        while ((link = vr_list_first(&device->leases))) {
            vr_link_remove(link);
            vr_mem_free(VR_CONTAINER(link, struct vr_broker_lease, link));
        }
        device_drop(device);
    }
}
