/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_remote_bounds.c: bad input to remotes: from the program, and from other processes. A hostile
 * process is this one's own thread, made to send messages that the library never would.
 */
#include "unit/remote_world.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the program */

TEST(null_and_nonsense) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    vram_remote *remote;
    vram_remote_region *region;
    vram_remote_peer *peer;
    vram_remote_token token = {{0}};
    vram_remote_copy copy = {0};
    vram_async async;
    vram_provider provider = {.size = sizeof provider};
    vram_addr block = block_of(&pair, pair.pool, 4096), base;
    uint64_t bytes;
    size_t length = 0;
    assert_int_equal(vram_remote_open(pair.rig.device, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_open(NULL, NULL, &remote), VRAM_ERR_INVALID);
    const vram_remote_options wrong[] = {
        {.size = sizeof *wrong, .flags = 1u << 30},
        {.size = sizeof *wrong, .chunk_bytes = 5000},
        {.size = sizeof *wrong, .chunk_bytes = UINT64_C(1) << 40},
        {.size = sizeof *wrong, .slots = 100000},
        {.size = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(vram_remote_open(pair.rig.device, &wrong[i], &remote), VRAM_ERR_INVALID);
    }
    vram_remote_options nowhere = {.size = sizeof nowhere, .interfaces = "no-such-interface"};
    assert_int_equal(vram_remote_open(pair.rig.device, &nowhere, &remote), VRAM_ERR_UNSUPPORTED);
    nowhere = (vram_remote_options){.size = sizeof nowhere, .transports = "no-such-transport"};
    assert_int_equal(vram_remote_open(pair.rig.device, &nowhere, &remote), VRAM_ERR_UNSUPPORTED);
    assert_ok(vram_remote_close(NULL));
    assert_int_equal(vram_remote_close((vram_remote *)pair.rig.device), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_address_get(pair.here, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_address_get(NULL, &token, &length), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_address_get(pair.here, NULL, &length), VRAM_ERR_LIMIT);
    assert_true(length > 0 && length <= VRAM_REMOTE_ADDRESS_MAX);
    assert_int_equal(vram_remote_provider_get(pair.here, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_provider_get(NULL, &provider), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_provider_get(pair.here, &provider), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(vram_remote_region_open(NULL, &block, 1, NULL, &region), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_region_open(pair.here, NULL, 1, NULL, &region), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_region_open(pair.here, &block, 1, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_region_open(pair.here, &block, 0, NULL, &region),
                     VRAM_ERR_INVALID);
    base = block + 256; /* not the start of a block */
    assert_int_equal(vram_remote_region_open(pair.here, &base, 1, NULL, &region), VRAM_ERR_INVALID);
    vram_remote_region_options flags = {.size = sizeof flags, .flags = 1u << 20};
    assert_int_equal(vram_remote_region_open(pair.here, &block, 1, &flags, &region),
                     VRAM_ERR_INVALID);
    assert_ok(vram_remote_region_close(NULL));
    assert_int_equal(vram_remote_token_get(NULL, &token), VRAM_ERR_INVALID);
    assert_ok(vram_remote_region_open(pair.here, &block, 1, NULL, &region));
    assert_int_equal(vram_remote_token_get(region, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_mark(NULL, NULL, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_mark_wait(NULL, 1, 0), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_peer_open(NULL, &token, 64, 0, &peer), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_peer_open(pair.here, NULL, 64, 0, &peer), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_peer_open(pair.here, &token, 64, 0, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_peer_open(pair.here, &token, 64, 0, &peer), VRAM_ERR_INVALID);
    assert_ok(vram_remote_peer_close(NULL));
    assert_int_equal(vram_remote_put(pair.peer, NULL, &copy, 1, NULL, &async), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async), VRAM_ERR_INVALID);
    assert_ok(vram_remote_token_get(region, &token));
    assert_int_equal(vram_remote_put(NULL, &token, &copy, 1, NULL, &async), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_get(NULL, &token, &copy, 1, NULL, &async), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_get(pair.peer, &token, NULL, 1, NULL, &async), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_get(pair.peer, &token, &copy, 0, NULL, &async), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_get(pair.peer, &token, &copy, 1, NULL, NULL), VRAM_ERR_INVALID);
    vram_remote_transfer mixed = {.size = sizeof mixed, .mark = 1};
    assert_int_equal(vram_remote_get(pair.peer, &token, &copy, 1, &mixed, &async),
                     VRAM_ERR_INVALID);
    copy = (vram_remote_copy){.addr = block, .bytes = UINT64_C(1) << 50};
    assert_int_equal(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_info_get(pair.here, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_remote_info_get(NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_memory_handle_get(block, NULL, &bytes), VRAM_ERR_INVALID);
    assert_int_equal(vram_memory_handle_get(1, &base, &bytes), VRAM_ERR_INVALID);
    assert_ok(vram_memory_handle_get(block, &base, &bytes));
    assert_true(base <= block && block + 4096 <= base + bytes);
    assert_ok(vram_remote_region_close(region));
    assert_int_equal(vram_remote_region_close(region), VRAM_ERR_STALE);
    assert_int_equal(vram_remote_mark(region, NULL, 1), VRAM_ERR_STALE);
    assert_ok(vram_free(block, pair.rig.queue));
    pair_end(&pair);
}

/* ---------------------------------------------------- what travels is damaged */

/* A change of any byte of an address or token is found. */
TEST(damaged_bytes) {
    struct vr_remote_key key = {5, {6, 7}}, found;
    uint8_t net[VR_SOCKET_BYTES] = {4, 127, 0, 0, 1}, bytes[256];
    struct vr_remote_address address = {.secret = {1, 2}, .net = net, .net_bytes = sizeof net};
    struct vr_remote_address read;
    vram_remote_token token;
    vr_token_write(&key, &token);
    assert_ok(vr_token_read(&token, &found));
    assert_memory_equal(&key, &found, sizeof key);
    for (size_t i = 0; i < sizeof token; i++) {
        token.bytes[i] ^= 0x10;
        vram_status status = vr_token_read(&token, &found);
        assert_true(status == VRAM_ERR_INVALID || (status == VRAM_ERR_UNSUPPORTED && i < 8));
        token.bytes[i] ^= 0x10;
    }
    size_t length = vr_address_write(&address, bytes, sizeof bytes);
    assert_ok(vr_address_read(bytes, length, &read));
    assert_int_equal(read.net_bytes, sizeof net);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(vr_address_read(bytes, i, &read), VRAM_ERR_INVALID);
        bytes[i] ^= 1;
        vram_status status = vr_address_read(bytes, length, &read);
        assert_true(status == VRAM_ERR_INVALID || (status == VRAM_ERR_UNSUPPORTED && i < 8));
        bytes[i] ^= 1;
    }
    struct vr_message message = {.version = 1, .type = VR_REMOTE_DONE, .status = VRAM_ERR_STALE};
    struct vr_message back;
    vr_message_write(&message, bytes);
    assert_true(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES, &back));
    assert_int_equal(back.type, VR_REMOTE_DONE);
    assert_int_equal(back.status, VRAM_ERR_STALE);
    assert_false(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES - 1, &back));
    for (int i = 0; i < 64; i++) { /* no status */
        uint64_t word = i < 8 ? UINT64_MAX << i : UINT64_C(1) << i;
        for (int j = 0; j < 8; j++) {
            bytes[80 + j] = (uint8_t)(word >> 8 * j);
        }
        assert_false(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES, &back));
    }
    vr_message_write(&message, bytes);
    bytes[6] = VR_REMOTE_TYPES; /* of no type */
    assert_false(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES, &back));
    bytes[6] = VR_REMOTE_HELLO - 1;
    assert_false(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES, &back));
    bytes[6] = VR_REMOTE_DONE;
    assert_true(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES, &back));
    bytes[81] = 1; /* of no status */
    assert_false(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES, &back));
    bytes[81] = 0, bytes[0]++; /* of another program */
    assert_false(vr_message_read(bytes, VR_REMOTE_MESSAGE_BYTES, &back));
}

/* Addresses whose checksum is right, and lists that end too early. */
TEST(wrong_lengths) {
    uint8_t bytes[VRAM_REMOTE_ADDRESS_MAX + 1] = {0};
    struct vr_remote_address address = {.secret = {1, 2}}, read;
    size_t length = vr_address_write(&address, bytes, sizeof bytes); /* no socket */
    assert_int_equal(vr_address_read(bytes, length, &read), VRAM_ERR_INVALID);
    assert_int_equal(vr_address_read(NULL, length, &read), VRAM_ERR_INVALID);
    assert_int_equal(vr_address_read(bytes, sizeof bytes, &read), VRAM_ERR_INVALID);
    struct vr_cursor cursor = {.at = bytes, .end = bytes + 12};
    bytes[0] = 5, bytes[1] = bytes[2] = bytes[3] = bytes[4] = bytes[5] = bytes[6] = bytes[7] = 0;
    assert_int_equal(vr_cursor_take(&cursor), 5);
    assert_int_equal(vr_cursor_take(&cursor), 0);
    assert_true(cursor.overrun);
    assert_null(vr_cursor_take_bytes(&cursor, 1)); /* nothing more, though there are bytes */
}

/* ---------------------------------------------------------- a hostile process */

/* Sends messages on a connection, in the thread of the remote that has it. */
struct hostile {
    struct vr_command command;
    vram_remote_peer *peer;
    struct vr_message message;
    size_t bytes; /* of contents */
    uint32_t times;
};

static void hostile_run(struct vr_remote *remote, struct vr_command *command) {
    struct hostile *hostile = (struct hostile *)command;
    struct vr_peer *peer = vr_handle_pin(VR_KIND_REMOTE_PEER, hostile->peer);
    for (uint32_t i = 0; peer && i < hostile->times; i++) {
        void *data = hostile->bytes ? vr_mem_alloc(1, hostile->bytes, "hostile") : NULL;
        hostile->message.op++;
        vr_mail_send_data(peer, hostile->message, data, hostile->bytes);
    }
    vr_command_end(remote, command, VRAM_OK);
    if (peer) {
        vr_leave(peer);
    }
}

static void hostile_send(struct pair *pair, struct vr_message message, size_t bytes,
                         uint32_t times) {
    struct hostile hostile = {{.run = hostile_run}, pair->peer, message, bytes, times};
    struct vr_remote *remote = vr_handle_pin(VR_KIND_REMOTE, pair->here);
    hostile.message.op = UINT64_C(1) << 40; /* of no transfer */
    assert_ok(vr_remote_call(remote, &hostile.command));
    vr_leave(remote);
}

/* Waits until the owner has refused at least `count` messages. */
static void refusals_wait(struct pair *pair, uint64_t count) {
    for (int i = 0; i < 2000 && info_of(pair->there).refused < count; i++) {
        usleep(5000);
    }
    assert_true(info_of(pair->there).refused >= count);
}

TEST(hostile_messages) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    vram_addr block = block_of(&pair, pair.far_pool, 64 << 10);
    vram_addr mine = block_of(&pair, pair.pool, 64 << 10);
    vram_remote_token token;
    struct vr_remote_key key, wrong;
    vram_async async;
    fill(&pair, block, 64 << 10, 1);
    vram_remote_region *region = region_of(&pair, &block, 1, 0, &token);
    assert_ok(vr_token_read(&token, &key));
    wrong = key;
    wrong.secret[1] ^= 1;
    const struct {
        struct vr_message message;
        size_t bytes;
        uint32_t times;
    } rows[] = {
        {{.type = VR_REMOTE_WRITE, .key = wrong, .bytes = 512}, 512, 1},
        {{.type = VR_REMOTE_WRITE, .key = key, .part = 1, .bytes = 512}, 512, 1},
        {{.type = VR_REMOTE_WRITE, .key = key, .offset = 64 << 10, .bytes = 512}, 512, 1},
        {{.type = VR_REMOTE_WRITE, .key = key, .offset = UINT64_MAX - 5, .bytes = 512}, 512, 1},
        {{.type = VR_REMOTE_WRITE, .key = key, .bytes = 512}, 1024, 1}, /* another length */
        {{.type = VR_REMOTE_WRITE, .key = key, .bytes = 128 << 10}, 128 << 10, 1},
        {{.type = VR_REMOTE_READ, .key = wrong, .bytes = 512}, 0, 1},
        {{.type = VR_REMOTE_READ, .key = key, .bytes = UINT64_MAX}, 0, 1},
        {{.type = VR_REMOTE_READ, .key = key, .offset = 65000, .bytes = 4096}, 0, 1},
        {{.type = VR_REMOTE_OPEN, .key = wrong}, 0, 1},
        {{.type = VR_REMOTE_HELLO, .bytes = 4096}, 0, 1},
        {{.type = VR_REMOTE_OPENED}, 64, 1},
        {{.type = VR_REMOTE_DONE}, 0, 1},
        {{.type = VR_REMOTE_AWAIT, .key = key, .value = 99}, 0, 400}, /* more than may be open */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t before = info_of(pair.there).refused;
        hostile_send(&pair, rows[i].message, rows[i].bytes, rows[i].times);
        refusals_wait(&pair, before + 1);
        assert_true(filled(&pair, block, 64 << 10, 1)); /* nothing was written */
        /* Some of it ends the connection; a new one works. */
        assert_ok(vram_remote_peer_close(pair.peer));
        pair.peer = connected(pair.here, pair.there);
    }
    vram_remote_copy copy = {.addr = mine, .bytes = 64 << 10};
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async));
    assert_ok(finished(&async));
    assert_true(filled(&pair, mine, 64 << 10, 1));
    assert_ok(vram_remote_region_close(region));
    assert_ok(vram_free(block, pair.rig.queue));
    assert_ok(vram_free(mine, pair.rig.queue));
    pair_end(&pair);
}

/* Tokens and addresses that are well made, but of something else. */
TEST(wrong_names) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    uint8_t bytes[VRAM_REMOTE_ADDRESS_MAX], changed[VRAM_REMOTE_ADDRESS_MAX];
    size_t length;
    struct vr_remote_address address;
    vram_remote_peer *peer;
    bytes_of(pair.there, bytes, &length);
    assert_ok(vr_address_read(bytes, length, &address));
    address.secret[0] ^= 1;
    size_t other = vr_address_write(&address, changed, sizeof changed);
    assert_int_equal(vram_remote_peer_open(pair.here, changed, other, 0, &peer), VRAM_ERR_BUSY);

    vram_addr block = block_of(&pair, pair.far_pool, 4096);
    vram_remote_token token, forged;
    vram_remote_region *region = region_of(&pair, &block, 1, VRAM_REMOTE_READ_ONLY, &token);
    struct vr_remote_key key;
    vram_remote_copy copy = {.addr = block_of(&pair, pair.pool, 4096), .bytes = 4096};
    vram_async async;
    assert_ok(vr_token_read(&token, &key));
    for (int i = 0; i < 3; i++) {
        struct vr_remote_key wrong = key;
        wrong.region += i == 0 ? 1000 : 0;
        wrong.secret[0] ^= i != 0;
        vr_token_write(&wrong, &forged);
        assert_ok(vram_remote_get(pair.peer, &forged, &copy, 1, NULL, &async));
        assert_int_equal(finished(&async), VRAM_ERR_INVALID);
    }
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async));
    assert_ok(finished(&async));
    assert_ok(vram_remote_put(pair.peer, &token, &copy, 1, NULL, &async)); /* it is read-only */
    assert_int_equal(finished(&async), VRAM_ERR_INVALID);
    copy.offset = 1;
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async));
    assert_int_equal(finished(&async), VRAM_ERR_INVALID);
    copy.offset = 0;
    copy.part = 1;
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async));
    assert_int_equal(finished(&async), VRAM_ERR_INVALID);
    assert_ok(vram_remote_region_close(region));
    pair_end(&pair);
}

/* Somebody else connects to the port and speaks another language, or nothing. */
TEST(strangers) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    uint8_t bytes[VRAM_REMOTE_ADDRESS_MAX];
    size_t length;
    struct vr_remote_address address;
    struct sockaddr_storage socket_address;
    int sockets[3];
    bytes_of(pair.there, bytes, &length);
    assert_ok(vr_address_read(bytes, length, &address));
    assert_true(vr_socket_read(address.net, address.net_bytes, &socket_address));
    for (int i = 0; i < 3; i++) {
        static const char *const texts[] = {"", "GET / HTTP/1.0\r\n\r\n", "\377\377\377\377\377"};
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(sockets[i] >= 0);
        assert_int_equal(
            connect(sockets[i], (struct sockaddr *)&socket_address, sizeof(struct sockaddr_in)), 0);
        assert_int_equal(write(sockets[i], texts[i], strlen(texts[i])), (ssize_t)strlen(texts[i]));
    }
    vram_remote_peer *peer = connected(pair.here, pair.there);
    assert_ok(vram_remote_peer_close(peer));
    for (int i = 0; i < 3; i++) {
        close(sockets[i]);
    }
    peer = connected(pair.here, pair.there);
    assert_ok(vram_remote_peer_close(peer));
    pair_end(&pair);
}

/* The other process has gone: before a connection, and in the middle of one. */
TEST(owner_gone) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    uint8_t bytes[VRAM_REMOTE_ADDRESS_MAX];
    size_t length;
    vram_remote_token token;
    vram_remote_peer *peer;
    vram_async waits, async;
    vram_addr block = block_of(&pair, pair.far_pool, 4096);
    vram_remote_copy copy = {.addr = block_of(&pair, pair.pool, 4096), .bytes = 4096};
    vram_remote_region *region = region_of(&pair, &block, 1, 0, &token);
    vram_remote_transfer after = {.size = sizeof after, .after = 1};
    bytes_of(pair.there, bytes, &length);
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async));
    assert_ok(finished(&async));
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, &after, &waits));
    assert_ok(vram_remote_close(pair.there));
    vram_status status = finished(&waits);
    assert_true(status == VRAM_ERR_IO || status == VRAM_ERR_STALE || status == VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_remote_region_close(region), VRAM_ERR_STALE);
    status = vram_remote_peer_open(pair.here, bytes, length, SECOND, &peer);
    assert_true(status == VRAM_ERR_IO || status == VRAM_ERR_TIMEOUT ||
                status == VRAM_ERR_UNSUPPORTED);
    pair.there = NULL;
    pair_end(&pair);
}

/* A mark that never comes: the handle fails by its deadline, and the connection goes on. */
TEST(deadline_without_break) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    vram_remote_token token;
    vram_async async;
    vram_addr block = block_of(&pair, pair.far_pool, 4096);
    vram_remote_copy copy = {.addr = block_of(&pair, pair.pool, 4096), .bytes = 4096};
    vram_remote_region *region = region_of(&pair, &block, 1, 0, &token);
    vram_remote_transfer after = {
        .size = sizeof after, .after = 1, .timeout_ns = 30 * SECOND / 1000};
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, &after, &async));
    assert_int_equal(finished(&async), VRAM_ERR_TIMEOUT);
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, NULL, &async));
    assert_ok(finished(&async));
    assert_int_equal(info_of(pair.here).failures, 1);
    assert_ok(vram_remote_region_close(region));
    pair_end(&pair);
}
