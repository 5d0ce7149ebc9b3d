/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_edges.c: peers of other users, names and planted files, and memory, handles and
 * descriptors that run out. The exporter and the reader are two contexts of one process.
 */
#include "base/handle.h"
#include "share_world.h"

#include "share/share_wire.h"
#include "system_call.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct share_world owner, reader;
static vram_addr block;

static void worlds_open(void) {
    share_world_open(&owner, VRAM_POOL_SHAREABLE);
    share_device_open(&reader);
    block = share_block(&owner, MIB, 7);
}

static void worlds_close(void) {
    share_world_close(&reader);
    share_world_close(&owner);
}

/* --------------------------------------------------------------------- faults */

/* Memory may run out on either side: the reader is told so, and not left to find out. */
TEST(exhaustion_is_told) {
    vram_share *share, *opened;
    vram_share_token token;
    worlds_open();
    share_export_one(block, 0, &share, &token);
    for (uint64_t nth = 1, failed = 1; failed; nth++) {
        opened = NULL;
        memory_fails(nth, false);
        vram_status status = vram_share_open(reader.device, &token, NULL, &opened);
        failed = memory_failed() > 0;
        memory_fails(0, false);
        assert_true(status == VRAM_OK || (failed && status == VRAM_ERR_HOST_MEMORY));
        assert_ok(vram_share_close(opened));
        assert_true(nth < 200);
    }
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* No handle is left for a share: neither side keeps a trace. */
TEST_FIRST(no_handles_are_left) {
    vram_share *share = NULL, *opened = NULL;
    vram_share_token token;
    worlds_open();
    vr_handle_limits_set(0, 1);
    assert_int_equal(vram_share_export(&block, 1, NULL, &share), VRAM_ERR_LIMIT);
    vr_handle_limits_set(0, 0);
    share_export_one(block, 0, &share, &token);
    vr_handle_limits_set(0, 1);
    assert_int_equal(vram_share_open(reader.device, &token, NULL, &opened), VRAM_ERR_LIMIT);
    vr_handle_limits_set(0, 0);
    assert_null(opened);
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* Each system call of an export fails in its turn: an export that there is can be opened, and of
   one that failed no descriptor is left. */
TEST(no_export_is_half_made) {
    worlds_open();
    uint32_t descriptors = descriptors_open();
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        vram_share *share = NULL, *opened;
        vram_share_token token;
        system_call_plan(nth, EMFILE);
        vram_status status = vram_share_export(&block, 1, NULL, &share);
        failed = atomic_load(&system_call.calls) >= nth;
        system_call_plan(0, 0);
        if (status == VRAM_OK) {
            assert_ok(vram_share_token_get(share, &token));
            assert_ok(vram_share_open(reader.device, &token, NULL, &opened));
            assert_ok(vram_share_close(opened));
        }
        assert_true((status == VRAM_OK) == (share != NULL));
        assert_ok(vram_share_close(share));
        share_await_descriptors(descriptors);
        assert_true(nth < 200);
    }
    worlds_close();
}

/* ---------------------------------------------------------------------- peers */

static void seems_of_another_user(void *credentials) {
    ((struct ucred *)credentials)->uid++;
}

/* Both sides have to name the other's user. */
TEST(peers_of_another_user) {
    vram_share *share, *opened = NULL;
    vram_share_token token;
    vram_share_options named = {
        .size = sizeof named, .flags = VRAM_SHARE_USER, .user = (uint32_t)geteuid() + 1};
    worlds_open();
    share_export_one(block, 0, &share, &token);
    system_call.peer = seems_of_another_user;
    vram_status nobody = vram_share_open(reader.device, &token, NULL, &opened);
    vram_status one_side = vram_share_open(reader.device, &token, &named, &opened);
    system_call.peer = NULL;
    assert_int_equal(nobody, VRAM_ERR_BUSY);
    assert_int_equal(one_side, VRAM_ERR_BUSY);
    assert_ok(vram_share_close(share));
    assert_ok(vram_share_export(&block, 1, &named, &share));
    assert_ok(vram_share_token_get(share, &token));
    named.user++;
    system_call.peer = seems_of_another_user;
    vram_status other = vram_share_open(reader.device, &token, &named, &opened);
    named.user--;
    vram_status both = vram_share_open(reader.device, &token, &named, &opened);
    system_call.peer = NULL;
    assert_int_equal(other, VRAM_ERR_BUSY);
    assert_ok(both);
    assert_ok(vram_share_close(opened));
    /* Who may open one export may not open another one's that names somebody else. */
    vram_share *second;
    vram_share_options somebody = named;
    somebody.user++;
    assert_ok(vram_share_export(&block, 1, &somebody, &second));
    assert_ok(vram_share_token_get(second, &token));
    system_call.peer = seems_of_another_user;
    other = vram_share_open(reader.device, &token, &named, &opened);
    system_call.peer = NULL;
    assert_int_equal(other, VRAM_ERR_BUSY);
    assert_ok(vram_share_close(second));
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* Once an export names a user, anybody can connect. Who may open nothing is refused at once, before
   asking, and so cannot take the places of others. */
TEST(users_without_an_export_are_not_kept) {
    vram_share *share;
    vram_share_token token;
    struct vr_share_ticket ticket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint8_t refusal[VR_WIRE_HEADER_BYTES];
    vram_share_options named = {
        .size = sizeof named, .flags = VRAM_SHARE_USER, .user = (uint32_t)geteuid() + 2};
    worlds_open();
    assert_ok(vram_share_export(&block, 1, &named, &share));
    assert_ok(vram_share_token_get(share, &token));
    assert_ok(vr_share_token_read(&token, &ticket));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/vram-s-%016llx%08llx", share_dir,
             (unsigned long long)ticket.server[0], (unsigned long long)ticket.server[1]);
    system_call.peer = seems_of_another_user;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int connected = connect(fd, (struct sockaddr *)&address, sizeof address);
    ssize_t got = read(fd, refusal, sizeof refusal); /* nothing if it is only dropped, later */
    struct pollfd closed = {.fd = fd, .events = POLLIN};
    int ended = poll(&closed, 1, 10000);
    system_call.peer = NULL;
    close(fd);
    assert_int_equal(connected, 0);
    assert_int_equal(got, sizeof refusal);
    assert_int_equal(refusal[5], VR_WIRE_REFUSED);
    assert_int_equal(ended, 1);
    assert_ok(vram_share_close(share));
    worlds_close();
}

/* ---------------------------------------------------------------------- names */

static void file_plant(const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", share_dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool file_is_there(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", share_dir, name);
    return access(path, F_OK) == 0;
}

static void note_openings(void *user, vram_log_level level, const char *text) {
    (void)level;
    if (strstr(text, "are shared with process")) {
        atomic_fetch_add((atomic_uint *)user, 1);
    }
}

/* The exporter logs who got the memory, and a name goes with its share. */
TEST(traces_of_a_share) {
    static atomic_uint openings;
    vram_share *share, *opened;
    vram_share_token token;
    worlds_open();
    share_export_one(block, 0, &share, &token);
    atomic_store(&openings, 0);
    vram_log_set(note_openings, &openings, VRAM_LOG_INFO);
    assert_ok(vram_share_open(reader.device, &token, NULL, &opened));
    for (int i = 0; i < 10000 && !atomic_load(&openings); i++) {
        usleep(1000); /* the answer comes first */
    }
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(atomic_load(&openings), 1);
    assert_ok(vram_share_close(opened));
    assert_ok(vram_share_publish(share, "x", NULL));
    assert_true(file_is_there("vram-n-x"));
    assert_ok(vram_share_close(share));
    assert_false(file_is_there("vram-n-x"));
    worlds_close();
}

__attribute__((noinline)) static void stack_paint(const char text[4], int phase) {
    volatile char area[1 << 14];
    for (size_t i = 0; i < sizeof area; i++) {
        area[i] = text[(i + (size_t)phase) % 4];
    }
}

/* A name of three letters that has no file, whatever was on the stack before. */
static void expect_no_name(vram_device *device, const char *name) {
    vram_share *opened = NULL;
    for (int phase = 0; phase < 4; phase++) {
        stack_paint(name, phase);
        assert_int_equal(vram_share_open_name(device, name, NULL, &opened), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "nothing is published"));
    }
}

TEST(names_of_all_kinds) {
    static const char *const good[] = {"azAZ09-_", "a@[`{:/~", "x.y"};
    vram_share *shares[3], *opened = NULL;
    vram_share_token token;
    vram_share_name names[4];
    char text[600], hex[2 * VRAM_SHARE_TOKEN_BYTES + 1];
    uint32_t count = 4;
    vram_share_options nowhere = {.size = sizeof nowhere, .dir = "/proc/none"};
    worlds_open();
    for (int i = 0; i < 3; i++) {
        share_export_one(block, 0, &shares[i], &token);
        assert_ok(vram_share_publish(shares[i], good[i], NULL));
    }
    assert_true(file_is_there("vram-n-azAZ09-_"));
    assert_true(file_is_there("vram-n-a%40%5B%60%7B%3A%2F%7E"));
    assert_int_equal(vram_share_publish(shares[0], "\x7f", NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_publish(shares[0], "another", NULL), VRAM_ERR_BUSY);
    assert_ok(vram_share_publish(shares[0], good[0], NULL)); /* once more */
    share_hex(&token, hex);
    file_plant("vram-n-1", "vram-name 1\nx\n");
    file_plant("vram-n-2", "vram-name 1\n:\n");
    file_plant("vram-n-6", "vram-name 1\n!\n");
    snprintf(text, sizeof text, "vram-name 1\n1\n%s\n\n", hex);
    file_plant("vram-n-3", text); /* without a name */
    snprintf(text, sizeof text, "vram-name 1\n1\n%s\n%0150d\n", hex, 7);
    file_plant("vram-n-4", text); /* with too long a one */
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    file_plant("vram-n-5", text);
    file_plant("other", "file");
    assert_ok(vram_share_list(NULL, names, &count));
    assert_int_equal(count, 3);
    count = 1;
    assert_int_equal(vram_share_list(NULL, NULL, &count), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_list(NULL, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_share_list(&nowhere, names, &count), VRAM_ERR_IO);
    assert_int_equal(vram_share_open_name(reader.device, "x.y", &nowhere, &opened), VRAM_ERR_IO);
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_share_open_name(reader.device, good[i], NULL, &opened));
        assert_ok(vram_share_close(opened));
    }
    expect_no_name(reader.device, "abc");
    file_plant("vram-n-x.y", "somebody else's"); /* stays: the share is not named by it */
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_share_close(shares[i]));
    }
    worlds_close();
}

EACH_TEST(share_folder_make, share_folder_end)
