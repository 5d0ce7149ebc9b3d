/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 24_share: two processes with the same memory. `24_share serve NAME` publishes a block and waits
 * for the end of its input; `24_share open NAME` opens it, reads and writes. Without arguments the
 * program starts the second process itself.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vram/vram.h>

#define BYTES (4 << 20)
static vram_context *context;
static vram_device *device;
static vram_queue *queue;
extern char **environ;

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

static uint32_t first_word(vram_addr addr) {
    uint32_t word;
    must(vram_queue_download(queue, &word, addr, sizeof word));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    return word;
}

static void serve(char *name, const char *program) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    char *arguments[] = {"24_share", "open", name, NULL};
    vram_pool *pool;
    vram_share *share;
    vram_addr addr;
    pid_t child;
    must(vram_pool_create(device, &options, &pool));
    must(vram_alloc(pool, BYTES, queue, &addr));
    must(vram_queue_fill(queue, addr, 1234, 4, BYTES));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    must(vram_share_export(&addr, 1, NULL, &share));
    must(vram_share_publish(share, name, NULL));
    if (program && posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0) {
        waitpid(child, NULL, 0);
    }
    while (!program && getchar() != EOF) { /* until the other process has done its part */
    }
    printf("the exporter reads %u\n", first_word(addr));
    must(vram_share_close(share));
}

static void open_name(const char *name) {
    vram_share *share;
    vram_share_part part;
    must(vram_share_open_name(device, name, NULL, &share));
    must(vram_share_parts_get(share, 0, 1, &part));
    printf("the other process reads %u\n", first_word(part.addr));
    must(vram_queue_fill(queue, part.addr, 5678, 4, part.bytes));
    must(vram_share_close(share)); /* waits for the fill */
}

int main(int count, char **arguments) {
    uint32_t index;
    char name[32];
    snprintf(name, sizeof name, "example-%d", (int)getpid());
    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &index));
    must(vram_device_open(context, index, &device));
    must(vram_queue_create(device, NULL, &queue));
    bool opens = count == 3 && strcmp(arguments[1], "open") == 0, alone = count != 3;
    opens ? open_name(arguments[2])
          : serve(alone ? name : arguments[2], alone ? arguments[0] : NULL);
    return vram_context_destroy(context) == VRAM_OK ? 0 : 1;
}
