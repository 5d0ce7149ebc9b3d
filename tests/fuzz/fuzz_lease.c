/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_lease.c: whatever holders of leases send, the broker's books agree with what it told them,
 * and nobody is asked twice at once; and whatever bytes come, they are a message or refused. The
 * first byte chooses what the rest is:
 *
 *   w  bytes, as a socket has them
 *   s  steps of 12 bytes each: holder, what it does, eight numbers, device, milliseconds that pass
 *
 * Every message of the steps goes through a socket.
 */
#include "fuzz.h"

#include "base/memory.h"
#include "lease/broker_table.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char fuzz_words[] = " w s \x40\x41\x42\x43 Vr \x01\x40";

enum { HOLDERS = 6, STEP = 12, NUMBERS_AT = 2, DEVICE_AT = 10, TIME_AT = 11 };

/* A holder, by what it was told. */
struct seen {
    struct vr_broker_lease *lease; /* NULL: none */
    uint64_t grant;
    uint64_t asked; /* number of the question; 0: none */
    uint64_t waits; /* number of the request; 0: none */
    uint64_t lenders;
};

static struct {
    int ends[2]; /* of the socket; [0]: the reader's */
    struct vr_broker_table table;
    struct seen holders[HOLDERS];
    uint64_t now;
    bool claimed; /* a holder came with a grant that nobody knew of: sums may pass the capacity */
} world;

/* -------------------------------------------------------------------- messages */

static void text_expect(const char *text, size_t capacity) {
    const char *end = memchr(text, 0, capacity);
    FUZZ_EXPECT(end != NULL);
    for (; text < end; text++) {
        FUZZ_EXPECT(*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\');
    }
}

/* Takes one message; false: there is none, or no message. */
static bool message_take(struct vr_lease_reader *reader, struct vr_lease_message *message) {
    vram_status status = vr_lease_receive(reader, world.ends[0], message);
    FUZZ_EXPECT(status == VRAM_OK || status == VRAM_ERR_NOT_READY || status == VRAM_ERR_CORRUPT ||
                status == VRAM_ERR_STALE);
    if (status == VRAM_OK) {
        text_expect(message->name, sizeof message->name);
        text_expect(message->device, sizeof message->device);
    }
    return status == VRAM_OK;
}

static void socket_make(void) {
    FUZZ_EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, world.ends) ==
                0);
}

/* Whatever is left in a socket goes with it. */
static void bytes_try(const uint8_t *data, size_t bytes) {
    static struct vr_lease_reader reader;
    struct vr_lease_message message;
    reader.bytes = 0;
    bytes = bytes < 65536 ? bytes : 65536;
    socket_make();
    FUZZ_EXPECT(bytes == 0 || send(world.ends[1], data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    for (size_t count = 0; message_take(&reader, &message); count++) {
        FUZZ_EXPECT(count * VR_WIRE_HEADER_BYTES <= bytes && reader.bytes <= sizeof reader.data);
        if (message.version != VR_LEASE_VERSION) {
            break; /* a broker refuses it, and closes */
        }
    }
    close(world.ends[0]);
    close(world.ends[1]);
}

/* ---------------------------------------------------------------------- broker */

static void sent(struct vr_broker_lease *lease, const struct vr_lease_message *message) {
    struct seen *holder = lease->user;
    switch (message->type) {
    case VR_LEASE_GRANTED:
        FUZZ_EXPECT(message->n[0] == holder->waits);
        holder->grant += message->n[1];
        break;
    case VR_LEASE_DENIED:
        FUZZ_EXPECT(message->n[0] == holder->waits && message->n[1] == holder->lenders);
        holder->lenders = 0;
        break;
    case VR_LEASE_LENDER:
        FUZZ_EXPECT(message->n[0] == holder->waits && message->n[4] <= VRAM_LEASE_GONE);
        holder->lenders++;
        break;
    case VR_LEASE_REVOKE:
        FUZZ_EXPECT(holder->asked == 0 && message->n[1] > 0 && message->n[1] <= holder->grant);
        holder->asked = message->n[0];
        break;
    default:
        FUZZ_EXPECT(message->type == VR_LEASE_CANCEL);
        holder->asked = message->n[0] == holder->asked ? 0 : holder->asked;
    }
}

static void books_expect(void) {
    uint64_t sums[4] = {0}, limits[4] = {0};
    for (int i = 0; i < HOLDERS; i++) {
        struct seen *holder = &world.holders[i];
        const struct vr_broker_lease *lease = holder->lease;
        if (lease == NULL) {
            continue;
        }
        FUZZ_EXPECT(lease->grant == holder->grant && lease->grant <= lease->want);
        FUZZ_EXPECT(!lease->asked || lease->ask_number == holder->asked);
        holder->asked = lease->asked ? holder->asked : 0;
        FUZZ_EXPECT(!lease->waiting || lease->wait_deadline > 0);
        int device = lease->device->key[0] % 4;
        sums[device] += lease->grant;
        limits[device] = lease->device->limit;
        FUZZ_EXPECT(lease->device->capacity <= lease->device->limit);
    }
    for (int i = 0; i < 4; i++) {
        FUZZ_EXPECT(world.claimed || sums[i] <= limits[i]);
    }
}

static void holder_close(struct seen *holder) {
    struct vr_broker_lease *lease = holder->lease;
    if (lease != NULL) {
        *holder = (struct seen){.lease = NULL};
        vr_broker_close(&world.table, lease, world.now);
    }
}

/* Small, near a power of two, or what the holder was told. */
static uint64_t number_of(uint8_t byte, const struct seen *holder) {
    switch (byte >> 6) {
    case 0:
        return byte;
    case 1:
        return UINT64_C(1) << (byte & 63);
    case 2:
        return (UINT64_C(1) << (byte & 63)) - 1;
    default:
        return byte % 3 == 0   ? holder->asked
               : byte % 3 == 1 ? holder->grant
                               : UINT64_MAX - (byte & 15);
    }
}

static void open_try(struct seen *holder, const struct vr_lease_message *message, int i) {
    *holder = (struct seen){.lease = NULL};
    if (vr_broker_open(&world.table, message, 100 + (uint64_t)i, holder, world.now,
                       &holder->lease) == VRAM_OK) {
        holder->grant = holder->lease->grant;
        world.claimed = world.claimed || message->n[2] > 0;
    }
}

static void list_put(void *user, const struct vr_lease_message *message) {
    (void)message;
    ++*(uint64_t *)user;
}

static void step_try(const uint8_t *step) {
    static struct vr_lease_reader reader;
    struct vr_lease_message message = {.version = VR_LEASE_VERSION, .type = step[1]};
    struct seen *holder = &world.holders[step[0] % HOLDERS];
    for (int i = 0; i < VR_LEASE_NUMBERS; i++) {
        message.n[i] = number_of(step[NUMBERS_AT + i], holder);
    }
    message.name[0] = (char)step[1];
    message.device[0] = (char)('a' + step[DEVICE_AT] % 4);
    world.now += step[TIME_AT];
    (void)vr_broker_tick(&world.table, world.now);
    FUZZ_EXPECT(vr_lease_send(world.ends[1], &message) == VRAM_OK);
    FUZZ_EXPECT(message_take(&reader, &message) && message.type == step[1]);
    if (step[0] & 0x80) {
        holder_close(holder);
    } else if (holder->lease == NULL && message.type == VR_LEASE_OPEN) {
        open_try(holder, &message, step[0] % HOLDERS);
    } else if (holder->lease != NULL) {
        uint64_t gives = message.type == VR_LEASE_GIVE ? message.n[1] : 0;
        holder->waits = message.type == VR_LEASE_NEED ? message.n[0] : holder->waits;
        holder->grant -= gives; /* as the holder sees it: a grant may come meanwhile */
        if (!vr_broker_take(&world.table, holder->lease, &message, world.now)) {
            holder_close(holder);
        }
    }
    books_expect();
}

static void steps_try(const uint8_t *data, size_t bytes) {
    uint64_t listed = 0;
    memset(world.holders, 0, sizeof world.holders);
    world.now = 1;
    world.claimed = false;
    socket_make();
    vr_broker_table_init(&world.table, sent);
    for (; bytes >= STEP; data += STEP, bytes -= STEP) {
        step_try(data);
    }
    vr_broker_list(&world.table, world.now, list_put, &listed);
    FUZZ_EXPECT(listed > 0 && listed <= 2 * HOLDERS + 2 * VR_BROKER_LOG + 1);
    vr_broker_table_end(&world.table);
    close(world.ends[0]);
    close(world.ends[1]);
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    if (bytes > 0 && data[0] % 2) {
        bytes_try(data + 1, bytes - 1);
    } else if (bytes > 0) {
        steps_try(data + 1, bytes - 1);
    }
    FUZZ_EXPECT(vr_mem_live_blocks() == 0);
    return 0;
}

/* ------------------------------------------------------------------- structure */

enum { HEADER_LENGTH_AT = 8 };

/* Steps, or messages by their lengths. */
static size_t split(const uint8_t *data, size_t bytes, struct fuzz_part *parts) {
    size_t count = 0, at = 1;
    while (at < bytes && count < FUZZ_PARTS_MAX) {
        size_t left = bytes - at, some = STEP;
        if (data[0] % 2) {
            uint64_t payload =
                left >= VR_WIRE_HEADER_BYTES ? vr_wire_get(data + at + HEADER_LENGTH_AT, 4) : 0;
            some = VR_WIRE_HEADER_BYTES + (size_t)payload;
        }
        some = some < left ? some : left;
        parts[count++] = (struct fuzz_part){at, some};
        at += some;
    }
    return count;
}

/* The first message is what is there, of this protocol. */
static size_t mend(uint8_t *data, size_t bytes, size_t capacity) {
    (void)capacity;
    if (bytes > VR_WIRE_HEADER_BYTES && data[0] % 2) {
        size_t payload = bytes - 1 - VR_WIRE_HEADER_BYTES;
        payload = payload < VR_LEASE_PAYLOAD_BYTES ? payload : VR_LEASE_PAYLOAD_BYTES;
        vr_wire_header_write(data + 1, &(struct vr_wire_header){.version = VR_LEASE_VERSION,
                                                                .type = data[6],
                                                                .bytes = (uint32_t)payload});
    }
    return bytes;
}

FUZZ_TARGET(lease, .split = split, .mend = mend, .most = 65536)
