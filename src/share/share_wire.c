/* SPDX-License-Identifier: Apache-2.0 */
/* share_wire.c: messages and tokens as bytes. */
#include "share/share_wire.h"

#include "base/error.h"
#include "track/crc32.h"

#include <string.h>

#define TOKEN_MAGIC UINT32_C(0x4b545256) /* "VRTK" */

enum { TOKEN_VERSION = 1, TOKEN_CHECKED = VRAM_SHARE_TOKEN_BYTES - 4 };

/*
 *      0       4    5       8      12              28     36               52       60     64
 *     +-------+----+-------+------+---------------+------+----------------+--------+------+
 *     | magic |ver.|   0   | slot | socket's name | boot | key            |   0    | CRC  |
 *     +-------+----+-------+------+---------------+------+----------------+--------+------+
 */
void vr_share_token_write(vram_share_token *token, const struct vr_share_ticket *ticket) {
    uint8_t *to = token->bytes;
    memset(to, 0, VRAM_SHARE_TOKEN_BYTES);
    vr_wire_put(to, TOKEN_MAGIC, 4);
    to[4] = TOKEN_VERSION;
    vr_wire_put(to + 8, ticket->slot, 4);
    vr_wire_put(to + 12, ticket->server[0], 8);
    vr_wire_put(to + 20, ticket->server[1], 8);
    vr_wire_put(to + 28, ticket->boot, 8);
    memcpy(to + 36, ticket->key, VR_SHARE_KEY_BYTES);
    vr_wire_put(to + TOKEN_CHECKED, vr_crc32(0, to, TOKEN_CHECKED), 4);
}

vram_status vr_share_token_read(const vram_share_token *token, struct vr_share_ticket *ticket) {
    const uint8_t *from = token->bytes;
    if (vr_wire_get(from, 4) != TOKEN_MAGIC) {
        return vr_fail(VRAM_ERR_INVALID, "these bytes are not a token of vram_share_token_get");
    }
    if (vr_crc32(0, from, TOKEN_CHECKED) != vr_wire_get(from + TOKEN_CHECKED, 4)) {
        return vr_fail(
            VRAM_ERR_INVALID,
            "the token is damaged: its checksum does not match; pass all of its %d bytes",
            VRAM_SHARE_TOKEN_BYTES);
    }
    if (from[4] != TOKEN_VERSION) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the token has version %u, and this libvram knows version %d", from[4],
                       TOKEN_VERSION);
    }
    *ticket =
        (struct vr_share_ticket){.slot = (uint32_t)vr_wire_get(from + 8, 4),
                                 .server = {vr_wire_get(from + 12, 8), vr_wire_get(from + 20, 8)},
                                 .boot = vr_wire_get(from + 28, 8)};
    memcpy(ticket->key, from + 36, VR_SHARE_KEY_BYTES);
    return VRAM_OK;
}

bool vr_share_key_same(const uint8_t *a, const uint8_t *b) {
    unsigned differs = 0;
    for (int i = 0; i < VR_SHARE_KEY_BYTES; i++) {
        differs |= (unsigned)(a[i] ^ b[i]);
    }
    return differs == 0;
}
