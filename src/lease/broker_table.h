/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker_table.h: the broker's state: devices, leases, who waits and who was asked. Knows no
 * sockets and no clock, so that tests can drive it.
 *
 *  (1) A grant is in the books from the moment it is sent, and out of them when its gift arrives.
 *      So the books never say less than the holders have.
 *  (2) The sum of a device's grants passes its capacity only if holders claim that much after
 *      another broker had ended, or the capacity turns out to be smaller. Nothing is granted then.
 *  (3) Per device one request is served at a time: that of the highest priority, and of those the
 *      oldest. No later request overtakes it, so none waits for ever behind equal ones.
 *  (4) A holder is asked at most once for a request, and for one request at a time.
 *  (5) A request ends by its deadline: granted, denied, or with its holder.
 */
#ifndef VR_BROKER_TABLE_H
#define VR_BROKER_TABLE_H

#include "base/list.h"
#include "lease/lease_wire.h"

enum { VR_BROKER_LOG = 256 }; /* lines of the log that are kept */

struct vr_broker_device {
    struct vr_link link;
    char key[VRAM_LEASE_DEVICE_MAX];
    uint64_t limit;    /* the first holder's capacity */
    uint64_t capacity; /* the part of it that exists, as far as is known */
    struct vr_list leases;
};

struct vr_broker_lease {
    struct vr_link link;
    struct vr_broker_device *device;
    void *user; /* its connection */
    uint64_t process;
    char name[VRAM_LEASE_NAME_MAX];
    int32_t priority;
    uint64_t min, want, grant; /* bytes */
    uint64_t held;             /* bytes, as it said last */

    bool waiting; /* the next fields count */
    uint64_t wait_number, wait_bytes, wait_since, wait_deadline;
    uint64_t wait_order; /* rising with each request to this broker */
    bool wait_asked;     /* somebody was asked for it */

    bool asked; /* the next fields count; ask_order and the bytes also afterwards */
    uint64_t ask_number, ask_bytes, ask_given;
    uint64_t ask_order; /* wait_order of the request that it was asked for last; 0: none */
    vram_lease_why ask_why;
};

struct vr_broker_table {
    struct vr_list devices;
    uint64_t numbers;  /* last one issued, for requests and revocations */
    uint64_t ready_at; /* nothing is granted before: holders of an ended broker come first */
    /* Sends to the holder; must not call the table. */
    void (*send)(struct vr_broker_lease *lease, const struct vr_lease_message *message);
    uint64_t records;                            /* ever written to the log */
    struct vram_lease_record log[VR_BROKER_LOG]; /* ago_ns is the time of the record */
};

void vr_broker_table_init(struct vr_broker_table *table,
                          void (*send)(struct vr_broker_lease *, const struct vr_lease_message *));
/* Frees what is left, without telling anybody. */
void vr_broker_table_end(struct vr_broker_table *table);

/* A new holder; the message is a VR_LEASE_OPEN. VRAM_ERR_INVALID if it makes no sense,
   VRAM_ERR_LIMIT if its minimum is more than the device has. Sends nothing. */
vram_status vr_broker_open(struct vr_broker_table *table, const struct vr_lease_message *message,
                           uint64_t process, void *user, uint64_t now,
                           struct vr_broker_lease **out);
/* The holder has gone. */
void vr_broker_close(struct vr_broker_table *table, struct vr_broker_lease *lease, uint64_t now);
/* Any other message of a holder. False: it does not keep to the protocol. */
bool vr_broker_take(struct vr_broker_table *table, struct vr_broker_lease *lease,
                    const struct vr_lease_message *message, uint64_t now);
/* Ends requests whose deadline has passed. Returns when to call again; UINT64_MAX: not for its own
   sake. */
uint64_t vr_broker_tick(struct vr_broker_table *table, uint64_t now);

/* Calls `put` for each message that a list consists of; broker_list.c. */
void vr_broker_list(const struct vr_broker_table *table, uint64_t now,
                    void (*put)(void *user, const struct vr_lease_message *message), void *user);
/* Adds a line to the log; the holders may be NULL; broker_list.c. */
void vr_broker_note(struct vr_broker_table *table, uint64_t now, vram_lease_happening happening,
                    const struct vr_broker_lease *from, const struct vr_broker_lease *to,
                    const struct vram_lease_record *more);

#endif
