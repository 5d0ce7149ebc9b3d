/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_share.c: whatever another process sends, stores or publishes, nothing is opened that was not
 * exported, and the exporter goes on. The first byte chooses what the rest is:
 *
 *   t  a token, as it is, and its fields in a token whose checksum is good
 *   q  what a client sends to an exporter
 *   r  what a server answers to an open, with and without descriptors
 *   s  the file of a name
 *
 * Of q and r the bytes are changes of a good message, three for each: where, and what is there; or,
 * if the second byte is odd, the message itself.
 */
#include "fuzz.h"

#include "base/os/os.h"
#include "share/share_wire.h"
#include "vram/vram.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char fuzz_words[] =
    "|t|q|r|s|vram-name 1\n|vram-name 2\n|1\n|fuzz|fuzz\n|q\x01|r\x01|host|00000000|ffffffff";

enum { MESSAGE_MAX = 4096, BLOCK_BYTES = 4096 };

#define TIMEOUT_NS UINT64_C(200000000)

static struct {
    char dir[32];
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_share *share;
    vram_share_token token;
    struct vr_share_ticket ticket;
    uint64_t granule;
    int listener; /* of the server that lies */
    pthread_mutex_t lock;
    uint8_t reply[MESSAGE_MAX]; /* what it sends */
    size_t reply_bytes;
    bool with_descriptors;
} world;

/* ------------------------------------------------------------------- the world */

/* The server that lies: one answer for each connection. */
static void *server_run(void *unused) {
    uint8_t request[64], handles[VR_WIRE_HEADER_BYTES];
    size_t sent;
    (void)unused;
    for (;;) {
        int fd = accept(world.listener, NULL, NULL);
        (void)!read(fd, request, sizeof request);
        pthread_mutex_lock(&world.lock);
        (void)vr_os_socket_send(fd, world.reply, world.reply_bytes, NULL, 0, &sent);
        if (world.with_descriptors) {
            int file = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            int descriptors[] = {file, file};
            (void)!ftruncate(file, (off_t)world.granule);
            (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
            vr_wire_header_write(handles, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                                   .type = VR_WIRE_HANDLES});
            (void)vr_os_socket_send(fd, handles, sizeof handles, descriptors, 2, &sent);
            close(file);
        }
        pthread_mutex_unlock(&world.lock);
        close(fd);
    }
    return NULL;
}

static void folder_remove(void) {
    char command[64];
    vram_context_destroy(world.context);
    snprintf(command, sizeof command, "rm -rf %s", world.dir);
    (void)!system(command);
}

static void world_make(void) {
    const vram_context_options options = {.size = sizeof options, .backends = "host"};
    const vram_pool_options shareable = {.size = sizeof shareable, .flags = VRAM_POOL_SHAREABLE};
    vram_device_info info = {.size = sizeof info};
    char path[VR_SOCKET_PATH_MAX];
    vram_addr addr;
    pthread_t thread;
    strcpy(world.dir, "/tmp/vram-fuzz-XXXXXX");
    FUZZ_EXPECT(mkdtemp(world.dir) != NULL);
    FUZZ_EXPECT(vram_option_set("share_dir", world.dir) == VRAM_OK);
    FUZZ_EXPECT(vram_context_create(&options, &world.context) == VRAM_OK);
    atexit(folder_remove);
    FUZZ_EXPECT(vram_device_info_get(world.context, 0, &info) == VRAM_OK);
    world.granule = info.vmm_granule.value;
    FUZZ_EXPECT(vram_device_open(world.context, 0, &world.device) == VRAM_OK);
    FUZZ_EXPECT(vram_pool_create(world.device, &shareable, &world.pool) == VRAM_OK);
    FUZZ_EXPECT(vram_alloc(world.pool, BLOCK_BYTES, NULL, &addr) == VRAM_OK);
    FUZZ_EXPECT(vram_share_export(&addr, 1, NULL, &world.share) == VRAM_OK);
    FUZZ_EXPECT(vram_share_token_get(world.share, &world.token) == VRAM_OK);
    FUZZ_EXPECT(vr_share_token_read(&world.token, &world.ticket) == VRAM_OK);
    snprintf(path, sizeof path, "%s/vram-s-%016x%08x", world.dir, 1, 2);
    FUZZ_EXPECT(vr_os_socket_listen(path, &world.listener) == VRAM_OK);
    (void)fcntl(world.listener, F_SETFL, 0);
    pthread_mutex_init(&world.lock, NULL);
    FUZZ_EXPECT(pthread_create(&thread, NULL, server_run, NULL) == 0);
    pthread_detach(thread);
}

/* -------------------------------------------------------------------- opening */

static vram_status open_and_close(const vram_share_token *token) {
    const vram_share_options options = {.size = sizeof options, .timeout_ns = TIMEOUT_NS};
    vram_share *opened = NULL;
    vram_status status = vram_share_open(world.device, token, &options, &opened);
    FUZZ_EXPECT((status == VRAM_OK) == (opened != NULL));
    FUZZ_EXPECT(vram_share_close(opened) == VRAM_OK);
    return status;
}

/* A good message with some bytes changed; or the input itself. */
static size_t message_make(const uint8_t *data, size_t bytes, uint8_t *message, size_t good_bytes) {
    if (bytes > 0 && data[0] % 2) {
        bytes = bytes - 1 < MESSAGE_MAX ? bytes - 1 : MESSAGE_MAX;
        memcpy(message, data + 1, bytes);
        return bytes;
    }
    for (size_t i = 1; i + 2 < bytes; i += 3) {
        message[(data[i] | (size_t)data[i + 1] << 8) % good_bytes] = data[i + 2];
    }
    return bytes > 1 && bytes % 3 == 2 ? data[bytes - 1] % good_bytes : good_bytes; /* or cut */
}

static void token_try(const uint8_t *data, size_t bytes) {
    vram_share_token token = world.token, good;
    struct vr_share_ticket ticket = {.slot = 0}, again;
    memcpy(token.bytes, data, bytes < sizeof token.bytes ? bytes : sizeof token.bytes);
    bool same = memcmp(&token, &world.token, sizeof token) == 0;
    FUZZ_EXPECT((open_and_close(&token) == VRAM_OK) == same);
    memcpy(&ticket, data, bytes < sizeof ticket ? bytes : sizeof ticket);
    vr_share_token_write(&good, &ticket);
    FUZZ_EXPECT(vr_share_token_read(&good, &again) == VRAM_OK);
    FUZZ_EXPECT(again.slot == ticket.slot && vr_share_key_same(again.key, ticket.key));
    ticket.server[0] = world.ticket.server[0]; /* the right socket, another key */
    ticket.server[1] = world.ticket.server[1];
    ticket.boot = world.ticket.boot;
    ticket.slot = world.ticket.slot;
    vr_share_token_write(&good, &ticket);
    same = vr_share_key_same(ticket.key, world.ticket.key);
    FUZZ_EXPECT((open_and_close(&good) == VRAM_OK) == same);
}

/* Whatever one client sends, the next is served. */
static void client_try(const uint8_t *data, size_t bytes) {
    uint8_t message[MESSAGE_MAX] = {0}, answer[256];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/vram-s-%016llx%08llx", world.dir,
             (unsigned long long)world.ticket.server[0],
             (unsigned long long)world.ticket.server[1]);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_EXPECT(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    vr_wire_header_write(message, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                           .type = VR_WIRE_OPEN,
                                                           .bytes = VR_WIRE_OPEN_BYTES});
    vr_wire_put(message + VR_WIRE_HEADER_BYTES, world.ticket.slot, 4);
    memcpy(message + VR_WIRE_HEADER_BYTES + 8, world.ticket.key, VR_SHARE_KEY_BYTES);
    bytes = message_make(data, bytes, message, VR_WIRE_HEADER_BYTES + VR_WIRE_OPEN_BYTES);
    (void)send(fd, message, bytes, MSG_NOSIGNAL);
    if (bytes && message[bytes - 1] % 4 == 0) {
        (void)shutdown(fd, SHUT_WR);
        (void)!read(fd, answer, sizeof answer);
    }
    close(fd);
    FUZZ_EXPECT(open_and_close(&world.token) == VRAM_OK);
}

static void server_try(const uint8_t *data, size_t bytes) {
    const struct vr_share_ticket ticket = {.server = {1, 2}};
    const size_t good =
        VR_WIRE_HEADER_BYTES + VR_WIRE_OPENED_BYTES + VR_WIRE_HANDLE_BYTES + VR_WIRE_PART_BYTES;
    vram_share_token token;
    pthread_mutex_lock(&world.lock);
    uint8_t *to = world.reply + VR_WIRE_HEADER_BYTES;
    memset(world.reply, 0, sizeof world.reply);
    vr_wire_header_write(
        world.reply, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                              .type = VR_WIRE_OPENED,
                                              .bytes = (uint32_t)(good - VR_WIRE_HEADER_BYTES)});
    memcpy(to, "host", 4);
    vr_wire_put(to + 40, world.granule, 8);
    vr_wire_put(to + 48, 1, 4);
    vr_wire_put(to + 52, 1, 4);
    vr_wire_put(to + 64, world.granule, 8);
    vr_wire_put(to + 80, BLOCK_BYTES, 8);
    world.reply_bytes = message_make(data, bytes, world.reply, good);
    world.with_descriptors = bytes > 0 && data[bytes - 1] % 2;
    pthread_mutex_unlock(&world.lock);
    vr_share_token_write(&token, &ticket);
    (void)open_and_close(&token);
}

static void name_try(const uint8_t *data, size_t bytes) {
    vram_share_name names[4];
    uint32_t count = 4;
    vram_share *opened = NULL;
    char path[64];
    snprintf(path, sizeof path, "%s/vram-n-fuzz", world.dir);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_EXPECT(file >= 0 && write(file, data, bytes) == (ssize_t)bytes);
    close(file);
    FUZZ_EXPECT(vram_share_list(NULL, names, &count) == VRAM_OK && count <= 1);
    FUZZ_EXPECT(!count || strcmp(names[0].name, "fuzz") == 0);
    (void)vram_share_open_name(world.device, "fuzz", NULL, &opened);
    FUZZ_EXPECT(vram_share_close(opened) == VRAM_OK);
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    if (!world.context) {
        world_make();
    }
    if (bytes == 0) {
        return 0;
    }
    switch (data[0] % 4) {
    case 't' % 4:
        token_try(data + 1, bytes - 1);
        break;
    case 'q' % 4:
        client_try(data + 1, bytes - 1);
        break;
    case 'r' % 4:
        server_try(data + 1, bytes - 1);
        break;
    default:
        name_try(data + 1, bytes - 1);
        break;
    }
    return 0;
}

/* An answer is received whole: its header may announce VR_WIRE_REPLY_MAX, 17 MiB. */
FUZZ_TARGET(share, .memory_more = VR_WIRE_REPLY_MAX + (1 << 20), .most = MESSAGE_MAX)
