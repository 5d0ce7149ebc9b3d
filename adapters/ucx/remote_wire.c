/* SPDX-License-Identifier: Apache-2.0 */
/* remote_wire.c: writing and reading what processes send each other. It calls nothing of UCX. */
#include "adapters/ucx/remote_wire.h"

#include "base/error.h"

#include <string.h>

#define MESSAGE_MAGIC UINT64_C(0x6d617256) /* "Vram" */
#define TOKEN_MAGIC   UINT64_C(0x74617256) /* "Vrat" */
#define ADDRESS_MAGIC UINT64_C(0x61617256) /* "Vraa" */

enum { STATUS_MAX = 200 }; /* of a status, negated */

static void word_write(uint8_t *to, uint64_t word) {
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)(word >> (8 * i));
    }
}

static uint64_t word_read(const uint8_t *from) {
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) {
        word |= (uint64_t)from[i] << (8 * i);
    }
    return word;
}

/* FNV-1a: finds damage, not intent; keys are for that. */
static uint64_t checksum(const uint8_t *bytes, size_t count) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

/* ------------------------------------------------------------------ messages */

void vr_message_write(const struct vr_message *message, uint8_t to[VR_REMOTE_MESSAGE_BYTES]) {
    const uint64_t words[VR_REMOTE_WORDS] = {MESSAGE_MAGIC | (uint64_t)message->version << 32 |
                                                 (uint64_t)message->type << 48,
                                             message->session,
                                             message->op,
                                             message->key.region,
                                             message->key.secret[0],
                                             message->key.secret[1],
                                             message->part,
                                             message->offset,
                                             message->bytes,
                                             message->value,
                                             (uint64_t) - (int64_t)message->status};
    for (size_t i = 0; i < VR_REMOTE_WORDS; i++) {
        word_write(to + 8 * i, words[i]);
    }
}

bool vr_message_read(const void *from, size_t bytes, struct vr_message *message) {
    uint64_t words[VR_REMOTE_WORDS];
    if (bytes != VR_REMOTE_MESSAGE_BYTES) {
        return false;
    }
    for (size_t i = 0; i < VR_REMOTE_WORDS; i++) {
        words[i] = word_read((const uint8_t *)from + 8 * i);
    }
    *message = (struct vr_message){.version = (uint16_t)(words[0] >> 32),
                                   .type = (uint16_t)(words[0] >> 48),
                                   .session = words[1],
                                   .op = words[2],
                                   .key = {words[3], {words[4], words[5]}},
                                   .part = words[6],
                                   .offset = words[7],
                                   .bytes = words[8],
                                   .value = words[9]};
    if ((words[0] & UINT32_MAX) != MESSAGE_MAGIC || message->type < VR_REMOTE_HELLO ||
        message->type >= VR_REMOTE_TYPES || words[10] > STATUS_MAX) {
        return false;
    }
    message->status = (vram_status)(-(int)words[10]);
    return true;
}

/* -------------------------------------------------------------------- tokens */

void vr_token_write(const struct vr_remote_key *key, vram_remote_token *token) {
    memset(token, 0, sizeof *token);
    word_write(token->bytes, TOKEN_MAGIC | (uint64_t)VR_REMOTE_VERSION << 32);
    word_write(token->bytes + 8, key->region);
    word_write(token->bytes + 16, key->secret[0]);
    word_write(token->bytes + 24, key->secret[1]);
    word_write(token->bytes + 56, checksum(token->bytes, 56));
}

static vram_status head_check(const uint8_t *bytes, uint64_t magic, const char *what) {
    uint64_t head = word_read(bytes);
    if ((head & UINT32_MAX) != magic) {
        return vr_fail(VRAM_ERR_INVALID, "these bytes are not %s of vram/remote.h", what);
    }
    if (head >> 32 != VR_REMOTE_VERSION) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "%s has version %u of the protocol, not %d", what,
                       (unsigned)(head >> 32), VR_REMOTE_VERSION);
    }
    return VRAM_OK;
}

vram_status vr_token_read(const vram_remote_token *token, struct vr_remote_key *key) {
    if (!token) {
        return vr_fail(VRAM_ERR_INVALID, "the token is NULL");
    }
    vram_status status = head_check(token->bytes, TOKEN_MAGIC, "a token");
    if (status == VRAM_OK && word_read(token->bytes + 56) != checksum(token->bytes, 56)) {
        status = vr_fail(VRAM_ERR_INVALID, "the token is damaged");
    }
    if (status == VRAM_OK) {
        *key = (struct vr_remote_key){word_read(token->bytes + 8),
                                      {word_read(token->bytes + 16), word_read(token->bytes + 24)}};
    }
    return status;
}

/* ------------------------------------------------------------------- cursors */

void vr_cursor_bytes(struct vr_cursor *cursor, const void *from, size_t bytes) {
    if (cursor->at && bytes) {
        memcpy(cursor->at + cursor->bytes, from, bytes);
    }
    cursor->bytes += bytes;
}

void vr_cursor_number(struct vr_cursor *cursor, uint64_t value) {
    uint8_t bytes[8];
    word_write(bytes, value);
    vr_cursor_bytes(cursor, bytes, sizeof bytes);
}

const uint8_t *vr_cursor_take_bytes(struct vr_cursor *cursor, size_t bytes) {
    const uint8_t *at = cursor->at + cursor->bytes;
    if (cursor->overrun || bytes > (size_t)(cursor->end - at)) {
        cursor->overrun = true;
        return NULL;
    }
    cursor->bytes += bytes;
    return at;
}

uint64_t vr_cursor_take(struct vr_cursor *cursor) {
    const uint8_t *at = vr_cursor_take_bytes(cursor, 8);
    return at ? word_read(at) : 0;
}

/* ----------------------------------------------------------------- addresses */

enum { ADDRESS_HEAD = 48 }; /* magic and version, bytes, secret, two lengths; then a checksum */

size_t vr_address_write(const struct vr_remote_address *address, uint8_t *to, size_t capacity) {
    size_t bytes = ADDRESS_HEAD + (size_t)address->net_bytes + address->near_bytes + 8;
    if (bytes > capacity) {
        return bytes;
    }
    struct vr_cursor cursor = {.at = to};
    vr_cursor_number(&cursor, ADDRESS_MAGIC | (uint64_t)VR_REMOTE_VERSION << 32);
    vr_cursor_number(&cursor, bytes);
    vr_cursor_number(&cursor, address->secret[0]);
    vr_cursor_number(&cursor, address->secret[1]);
    vr_cursor_number(&cursor, address->net_bytes);
    vr_cursor_number(&cursor, address->near_bytes);
    vr_cursor_bytes(&cursor, address->net, address->net_bytes);
    vr_cursor_bytes(&cursor, address->near, address->near_bytes);
    vr_cursor_number(&cursor, checksum(to, bytes - 8));
    return bytes;
}

vram_status vr_address_read(const void *from, size_t bytes, struct vr_remote_address *address) {
    if (!from || bytes < ADDRESS_HEAD + 8 || bytes > VRAM_REMOTE_ADDRESS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "an address does not have %zu bytes", bytes);
    }
    vram_status status = head_check(from, ADDRESS_MAGIC, "an address");
    if (status != VRAM_OK) {
        return status;
    }
    const uint8_t *at = from;
    uint64_t net = word_read(at + 32), near = word_read(at + 40);
    if (word_read(at + 8) != bytes || net == 0 || net > bytes || near > bytes ||
        ADDRESS_HEAD + net + near + 8 != bytes ||
        word_read(at + bytes - 8) != checksum(at, bytes - 8)) {
        return vr_fail(VRAM_ERR_INVALID, "the address is damaged");
    }
    *address = (struct vr_remote_address){.secret = {word_read(at + 16), word_read(at + 24)},
                                          .net = at + ADDRESS_HEAD,
                                          .net_bytes = (uint32_t)net,
                                          .near = at + ADDRESS_HEAD + net,
                                          .near_bytes = (uint32_t)near};
    return VRAM_OK;
}
