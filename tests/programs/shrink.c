/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shrink.c: cuts a failing program down and prints it as C.
 *
 * Halves, quarters and so on are left out as long as the rest still fails, each try in a process of
 * its own; then single operations, then sizes. A race fails now and then only: with several threads
 * each try is made a few times.
 */
#include "programs/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RACE_TRIES = 12, TRIES_MAX = 4000, KEY = 24 };

static unsigned tries;
static char finding[64]; /* how the failure begins: a part must fail in the same way */

static bool still_fails(const struct program *program) {
    unsigned times = settings.threads > 1 ? RACE_TRIES : 1;
    for (unsigned i = 0; i < times && tries < TRIES_MAX; i++) {
        tries++;
        if (child_run(program, false) && strncmp(told->failure, finding, KEY) == 0) {
            return true;
        }
    }
    return false;
}

/* Leaves out [first, end); false: it is needed. */
static bool leave_out(struct program *program, struct op *kept, uint32_t first, uint32_t end) {
    bool any = false;
    memcpy(kept, program->ops, program->count * sizeof *kept);
    for (uint32_t i = first; i < end; i++) {
        any = any || program->ops[i].kind;
        program->ops[i].kind = 0;
    }
    if (!any || still_fails(program)) {
        return true;
    }
    memcpy(program->ops, kept, program->count * sizeof *kept);
    return false;
}

static uint32_t ops_left(const struct program *program) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        left += program->ops[i].kind != 0;
    }
    return left;
}

static void sizes_shrink(struct program *program) {
    static const uint64_t sizes[] = {1, 512, 4096, 65536};
    for (uint32_t i = 0; i < program->count; i++) {
        struct op *op = &program->ops[i], kept = *op;
        for (unsigned k = 0; op->kind && k < 4 && sizes[k] < kept.bytes; k++) {
            op->bytes = sizes[k];
            op->offset = 0;
            if (still_fails(program)) {
                break;
            }
            *op = kept;
        }
    }
}

/* ---------------------------------------------------------------------- as C */

static const char prelude[] =
    "#include <vram/vram.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
    "#include <string.h>\n#include <unistd.h>\n"
    "static const char *sim, *backend;\nstatic vram_context *context;\n"
    "static vram_device *device[2];\nstatic vram_queue *queue[5];\nstatic vram_pool *pool[4];\n"
    "static vram_addr block[24];\nstatic vram_buffer *buffer[10];\nstatic vram_scope *scope[3];\n"
    "static vram_batch *batch[2];\nstatic vram_named *named[2];\nstatic vram_ring *ring[2];\n"
    "static vram_share *share[3], *opened[3];\nstatic vram_async async[4];\n"
    "static vram_point point[4], mark[8];\nstatic vram_stream_set *set[1];\n"
    "static vram_trace *trace[1];\nstatic unsigned char *host[192], message[65536];\n"
    "static _Alignas(65536) unsigned char pages[64][65536];\nstatic void *memory;\n"
    "static const char *const tags[] = {\"\", \"a\", \"a/b\", \"quota\", \"ceiling\"};\n"
    "static const char *const names[] = {\"one\", \"two\", \"three\", \"four\"};\n"
    "static pthread_barrier_t barrier;\nstatic _Atomic int fail_in;\n"
    "static void *al(void *u, size_t n) { return fail_in > 0 && fail_in-- == 1 ? NULL : "
    "malloc(n); }\n"
    "static void *re(void *u, void *m, size_t n) { return fail_in > 0 && fail_in-- == 1 ? NULL : "
    "realloc(m, n); }\n"
    "static void fr(void *u, void *m) { free(m); }\n"
    "static uint64_t mix(uint64_t x) {\n    x += 0x9E3779B97F4A7C15u;\n"
    "    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;\n    x = (x ^ x >> 27) * 0x94D049BB133111EBu;\n"
    "    return x ^ x >> 31;\n}\n"
    "static unsigned char *pattern(uint64_t seed, uint64_t at, uint64_t n) {\n"
    "    unsigned char *m = malloc(n + 1);\n    for (uint64_t i = 0; i < n; i++)\n"
    "        m[i] = seed >> 63 ? (uint32_t)seed >> 8 * ((at + i) % (seed >> 32 & 7))\n"
    "                          : mix(seed + (at + i) / 8) >> 8 * ((at + i) % 8);\n    return "
    "m;\n}\n"
    "static const vram_transfer_options *transfer_options(unsigned choice) {\n"
    "    static const vram_transfer_options options[] = {{sizeof(vram_transfer_options), 0},\n"
    "        {sizeof(vram_transfer_options), VRAM_TRANSFER_SYNC},\n"
    "        {sizeof(vram_transfer_options), VRAM_TRANSFER_ASYNC},\n"
    "        {sizeof(vram_transfer_options), VRAM_TRANSFER_DMA_POLLING}};\n"
    "    return &options[choice % 4];\n}\n"
    "/* `was` is what the call returned in the run that failed. */\n"
    "#define CALL(call, was) do { vram_status s_ = (call); if (s_ != (was)) "
    "printf(\"%d: %s, was %s: %s\\n\", __LINE__, vram_status_name(s_), #was, "
    "vram_error_get()->text); } while (0)\n"
    "#define SAME(a, b, n) do { if (memcmp(a, b, n)) printf(\"%d: contents differ\\n\", __LINE__); "
    "} while (0)\n";

/* A block around each declaration keeps names apart. */
static void text_print(const char *text) {
    unsigned open = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        static const char *const types[] = {"    vram_", "    void *memory;", "    uint64_t result",
                                            "    uint32_t first", "    unsigned char *bytes"};
        for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
            if (strncmp(text, types[i], strlen(types[i])) == 0) {
                printf("    {\n");
                open++;
                break;
            }
        }
        printf("%.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
    while (open--) {
        printf("    }\n");
    }
}

static void program_print(void) {
    printf("/* ------------ %s ------------ */\n%s", told->failure, prelude);
    for (unsigned i = 1; i < settings.threads; i++) {
        printf("static void *thread%u(void *unused) {\n", i);
        text_print(told->text[i]);
        printf("    return NULL;\n}\n");
    }
    printf("int main(void) {\n    setenv(\"VRAM_QUOTAS\", \"ceiling=8M\", 1);\n"
           "    CALL(vram_host_allocator_set(&(vram_host_allocator){NULL, al, re, fr}), VRAM_OK);\n"
           "    CALL(vram_option_set(\"wait_timeout\", \"20s\"), VRAM_OK);\n");
    if (strcmp(settings.mode, "off") == 0) {
        printf("    CALL(vram_option_set(\"pool\", \"off\"), VRAM_OK);\n");
    }
    if (settings.threads > 1) {
        printf("    pthread_t threads[%u];\n    pthread_barrier_init(&barrier, NULL, %u);\n",
               settings.threads, settings.threads);
    }
    for (unsigned i = 1; i < settings.threads; i++) {
        printf("    pthread_create(&threads[%u], NULL, thread%u, NULL);\n", i, i);
    }
    text_print(told->text[0]);
    printf("    return 0;\n}\n");
}

void program_shrink(struct program *program) {
    struct op *kept = malloc(program->count * sizeof *kept);
    snprintf(finding, sizeof finding, "%.*s", KEY, told->failure);
    if (!kept || !still_fails(program)) {
        printf("the program alone does not fail again\n");
        free(kept);
        return;
    }
    for (uint32_t size = program->count / 2; size; size = size > 1 ? size / 2 : 0) {
        for (uint32_t first = program->count; first > 0;) {
            uint32_t end = first;
            first = first > size ? first - size : 0;
            (void)leave_out(program, kept, first, end);
        }
    }
    sizes_shrink(program);
    for (unsigned i = 0; i < RACE_TRIES * 4 && !child_run(program, true); i++) {
    }
    printf("%u operations are left after %u tries\n", ops_left(program), tries);
    program_print();
    free(kept);
}
