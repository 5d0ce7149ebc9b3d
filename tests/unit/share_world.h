/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_world.h: two processes that share memory. The second is the test program itself, executed
 * anew with the name of a part to play, so that it shares nothing with the first that the library
 * did not pass on.
 */
#ifndef TEST_SHARE_WORLD_H
#define TEST_SHARE_WORLD_H

#include "assert_ok.h"
#include "child.h"
#include "rig/rig.h"
#include "vram/vram.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>

#define MIB (UINT64_C(1) << 20)

extern char **environ;

/* One process's side. */
struct share_world {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
};

static char share_dir[32];
static const char *share_backend = "host";

static inline void share_device_open(struct share_world *world) {
    vram_context_options options = {.size = sizeof options, .backends = share_backend};
    memset(world, 0, sizeof *world);
    assert_ok(vram_context_create(&options, &world->context));
    assert_ok(vram_device_open(world->context, 0, &world->device));
    assert_ok(vram_queue_create(world->device, NULL, &world->queue));
}

static inline void share_world_open(struct share_world *world, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags, .name = "weights"};
    share_device_open(world);
    assert_ok(vram_pool_create(world->device, &options, &world->pool));
}

static inline void share_world_close(struct share_world *world) {
    assert_ok(vram_context_destroy(world->context));
}

static inline vram_addr share_block(struct share_world *world, uint64_t bytes, uint32_t pattern) {
    vram_addr addr;
    assert_ok(vram_alloc(world->pool, bytes, world->queue, &addr));
    assert_ok(vram_queue_fill(world->queue, addr, pattern, 4, bytes / 4 * 4));
    assert_ok(vram_queue_wait(world->queue, VRAM_TIMEOUT_DEFAULT));
    return addr;
}

/* How many words of the memory have that value. */
static inline uint64_t share_count(struct share_world *world, vram_addr addr, uint64_t bytes,
                                   uint32_t value) {
    uint32_t *words = malloc(bytes);
    uint64_t count = 0;
    assert_non_null(words);
    assert_ok(vram_queue_download(world->queue, words, addr, bytes));
    assert_ok(vram_queue_wait(world->queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < bytes / 4; i++) {
        count += words[i] == value;
    }
    free(words);
    return count;
}

static inline void share_export_one(vram_addr addr, uint32_t flags, vram_share **share,
                                    vram_share_token *token) {
    vram_share_options options = {.size = sizeof options, .flags = flags};
    assert_ok(vram_share_export(&addr, 1, &options, share));
    assert_ok(vram_share_token_get(*share, token));
}

static inline uint32_t share_readers(vram_share *share) {
    vram_share_info info = {.size = sizeof info};
    assert_ok(vram_share_info_get(share, &info));
    return info.reader_count;
}

/* Waits until the share has so many readers: a few seconds at most. */
static inline void share_await_readers(vram_share *share, uint32_t count) {
    for (int i = 0; i < 30000 && share_readers(share) != count; i++) {
        usleep(1000);
    }
    assert_int_equal(share_readers(share), count);
}

static inline bool share_text_add(void *user, const char *text, size_t bytes) {
    char *all = user;
    size_t had = strlen(all);
    if (had + bytes >= 16384) {
        return false;
    }
    memcpy(all + had, text, bytes);
    all[had + bytes] = 0;
    return true;
}

static inline bool share_stats_say(vram_pool *pool, vram_report_format format, const char *what) {
    static char text[16384];
    text[0] = 0;
    assert_ok(vram_pool_stats_write(pool, format, share_text_add, text));
    return strstr(text, what) != NULL;
}

/* Waits until no more than that are open: the server may still be closing some. */
static inline void share_await_descriptors(uint32_t most) {
    for (int i = 0; i < 30000 && descriptors_open() > most; i++) {
        usleep(1000);
    }
    assert_true(descriptors_open() <= most);
}

/* --------------------------------------------------------------- the other one */

struct share_child {
    pid_t pid;
    int to, from; /* pipes to its standard input and from its standard output */
};

static inline void share_hex(const vram_share_token *token,
                             char text[2 * VRAM_SHARE_TOKEN_BYTES + 1]) {
    for (int i = 0; i < VRAM_SHARE_TOKEN_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", token->bytes[i]);
    }
}

static inline void share_spawn(struct share_child *child, const char *part,
                               const vram_share_token *token, const char *argument) {
    char hex[2 * VRAM_SHARE_TOKEN_BYTES + 1] = "";
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    if (token) {
        share_hex(token, hex);
    }
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    char *const arguments[] = {(char *)rig_self(),
                               (char *)part,
                               hex,
                               (char *)share_backend,
                               (char *)(argument ? argument : ""),
                               NULL};
    assert_int_equal(posix_spawn(&child->pid, "/proc/self/exe", &actions, NULL, arguments, environ),
                     0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    child->to = in[1];
    child->from = out[0];
}

/* Waits for `bytes` bytes that the child writes when it has come so far. */
static inline void share_hear(struct share_child *child, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t some = read(child->from, (char *)data + done, bytes - done);
        assert_true(some > 0);
        done += (size_t)some;
    }
}

static inline void share_await(struct share_child *child) {
    char byte;
    share_hear(child, &byte, 1);
}

static inline int share_end(struct share_child *child) {
    close(child->to);
    int code = child_end(child->pid);
    close(child->from);
    return code;
}

static inline void share_kill(struct share_child *child) {
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_int_equal(share_end(child), 1000 + SIGKILL);
}

/* The child's side: tells the parent, and waits until it closes the pipe. */
static inline void share_tell(const void *data, size_t bytes) {
    assert_int_equal(write(1, data, bytes), (ssize_t)bytes);
}

static inline void share_rest(void) {
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
}

/* A part that the child plays: what it returns is its exit code. */
struct share_part {
    const char *name;
    int (*play)(struct share_world *world, const vram_share_token *token, const char *argument);
};

static inline int share_play(const struct share_part *parts, int count, char **arguments) {
    struct share_world world;
    vram_share_token token;
    for (int i = 0; i < VRAM_SHARE_TOKEN_BYTES && arguments[2][0]; i++) {
        unsigned byte = 0;
        sscanf(arguments[2] + 2 * i, "%2x", &byte);
        token.bytes[i] = (uint8_t)byte;
    }
    share_backend = arguments[3];
    alarm(CHILD_SECONDS);
    for (int i = 0; i < count; i++) {
        if (strcmp(parts[i].name, arguments[1]) == 0) {
            share_device_open(&world);
            int code = parts[i].play(&world, &token, arguments[4]);
            share_world_close(&world);
            return code;
        }
    }
    return 99;
}

/* A folder of the test's own for each test. */
static inline int share_folder_make(void) {
    strcpy(share_dir, "/tmp/vram-test-XXXXXX");
    if (!mkdtemp(share_dir)) {
        return -1;
    }
    setenv("VRAM_SHARE_DIR", share_dir, 1); /* for children */
    return vram_option_set("share_dir", share_dir) == VRAM_OK ? 0 : -1;
}

static inline uint32_t share_folder_entries(const char *prefix) {
    DIR *folder = opendir(share_dir);
    uint32_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    }
    closedir(folder);
    return count;
}

static inline void share_folder_remove(void) {
    char path[400];
    DIR *folder = opendir(share_dir);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", share_dir, entry->d_name);
        unlink(path);
    }
    closedir(folder);
    rmdir(share_dir);
}

/* The end of an export whose reader has just gone is the server's, in its own thread. */
static inline int share_folder_end(void) {
    share_folder_remove();
    share_backend = "host";
    (void)await_nothing_held();
    return vram_option_set("share_dir", NULL) == VRAM_OK ? 0 : -1;
}

#endif
