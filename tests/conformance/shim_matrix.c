/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_matrix.c: every entry point of a real driver with every documented code and three others, as
 * a program sees it. The shim answers in the driver's place, so nothing on the machine is harmed:
 *
 *     shim_matrix SHIM [--driver PATH] [--jobs N] [--verbose]
 *
 * One child process per entry point. For each code the plan is set, a program uses all of the
 * library, and gives back what it got. It must neither crash nor hang, whatever failed must have
 * been told, and after each such run the same program without a plan must succeed in the same
 * process. A real driver takes half a second to make a device's context, so the child keeps one
 * meanwhile, and does without at the end.
 *
 * Each entry point that is done has its line, with the count so far; the last line is the sum.
 *
 * Exit code 0 when all combinations that this machine can reach went well, 1 when one did not, 2
 * for misuse. Entry points that need a second device are listed where there is one only.
 */
#include "vram/vram.h"

#include "check/generated/device_code_ptx.h"
#include "fake/generated/table_cuda.h"
#include "fake/shim.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ENTRIES = sizeof cuda_entries / sizeof cuda_entries[0],
    CHILD_SECONDS = 240,
    JOBS_MAX = 32,
    ATTEMPTS = 5,       /* whether one queue has to wait for another is a matter of time */
    SETTLE_US = 100000, /* longer than the work of the program takes where nothing tells its end */
    NEEDS_PEERS = 3     /* a child's exit code: fine, but never called without a second device */
};

static const int bogus[] = {-1, 12345, INT_MIN};
enum { BOGUS = sizeof bogus / sizeof bogus[0] };

static const uint64_t MIB = UINT64_C(1) << 20;
static bool verbose;

/* ------------------------------------------------------------------ program */

struct program {
    vram_context *context;
    vram_device *device, *other;
    vram_device_info info;
    vram_queue *queue, *adopted;
    vram_pool *pool;
    vram_addr addr, pinned, managed, range, block, other_addr;
    vram_physical *physical;
    vram_kernel *kernel;
    bool mapped;
    void *native;       /* the queue's stream */
    vram_status status; /* the first failure */
    vram_error error;   /* and its record */
};

/* Notes a step's answer; whether the program goes on. */
static bool step(struct program *program, vram_status status) {
    if (status != VRAM_OK && status != VRAM_ERR_NOT_READY && program->status == VRAM_OK) {
        program->status = status;
        program->error = *vram_error_get();
    }
    return status == VRAM_OK;
}

static bool begin(struct program *program) {
    const vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    program->info.size = sizeof program->info;
    if (!step(program, vram_context_create(&options, &program->context))) {
        return false;
    }
    if (vram_device_count(program->context) == 0) {
        vram_backend_info absent = {.size = sizeof absent};
        (void)vram_backend_info_get(program->context, 0, &absent);
        program->status = VRAM_ERR_NO_DEVICE;
        snprintf(program->error.text, sizeof program->error.text, "%s", absent.reason);
        return false;
    }
    return step(program, vram_device_open(program->context, 0, &program->device)) &&
           step(program, vram_device_describe(program->device, &program->info));
}

static bool take(struct program *program) {
    vram_memory_info memory = {.size = sizeof memory};
    vram_device *device = program->device;
    bool going =
        step(program, vram_memory_info_get(device, &memory)) &&
        step(program, vram_device_alloc(device, 4 * MIB, VRAM_MEMORY_DEVICE, &program->addr)) &&
        step(program, vram_device_alloc(device, 8192, VRAM_MEMORY_PINNED, &program->pinned)) &&
        step(program, vram_queue_create(device, NULL, &program->queue)) &&
        step(program, vram_queue_native(program->queue, &program->native)) &&
        step(program, vram_queue_adopt(device, program->native, &program->adopted));
    if (going && program->info.caps & VRAM_CAP_MANAGED) {
        going = step(program,
                     vram_device_alloc(device, 8192, VRAM_MEMORY_MANAGED, &program->managed)) &&
                step(program, vram_device_advise(device, program->managed, 8192, VRAM_ADVICE_PREFER,
                                                 VRAM_TARGET_OWN));
    }
    if (going && program->info.caps & VRAM_CAP_VMM) {
        going = step(program, vram_range_create(device, 8 * MIB, &program->range)) &&
                step(program, vram_physical_create(device, 2 * MIB, &program->physical)) &&
                (program->mapped =
                     step(program, vram_range_map(device, program->range, &program->physical, 1)));
    }
    return going;
}

static bool compute(struct program *program) {
    const uint64_t values[] = {program->addr, program->addr + MIB, 3, 64};
    const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
    const size_t bytes[] = {8, 8, 8, 8};
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_PTX,
                                       .code = device_code_ptx,
                                       .code_bytes = sizeof device_code_ptx - 1,
                                       .entry = "vram_check_scale"};
    const vram_launch launch = {.size = sizeof launch,
                                .groups = {1, 1, 1},
                                .group_size = {64, 1, 1},
                                .argument_count = 4,
                                .arguments = arguments,
                                .argument_bytes = bytes,
                                .address_mask = 3};
    if (!(program->info.caps & VRAM_CAP_KERNELS)) {
        return true;
    }
    return step(program, vram_kernel_create(program->device, &source, &program->kernel)) &&
           step(program, vram_queue_launch(program->queue, program->kernel, &launch));
}

static bool use_peer(struct program *program) {
    if (!(program->info.caps & VRAM_CAP_PEERS) || vram_device_count(program->context) < 2) {
        return true;
    }
    if (!step(program, vram_device_open(program->context, 1, &program->other)) ||
        !step(program, vram_device_alloc(program->other, 2 * MIB, VRAM_MEMORY_DEVICE,
                                         &program->other_addr))) {
        return false;
    }
    return step(program, vram_device_peer_enable(program->device, program->other)) &&
           step(program, vram_queue_copy(program->queue, program->addr, program->other_addr, 4096));
}

/* Memory of the program's own, page-locked in place for one copy. Pages that a driver may still
   have locked, since it did not say that it let them go, are not used again. */
static bool lock_own(struct program *program) {
    enum { BYTES = 8192 };
    vram_device *device = program->device;
    void *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) {
        return false;
    }
    bool going = step(program, vram_pinned_begin(device, own, BYTES)) &&
                 step(program, vram_queue_upload(program->queue, program->addr, own, BYTES)) &&
                 step(program, vram_queue_wait(program->queue, VRAM_TIMEOUT_DEFAULT)) &&
                 step(program, vram_pinned_end(device, own, BYTES)) &&
                 step(program, vram_pinned_forget(device, own, BYTES));
    if (going) {
        (void)munmap(own, BYTES);
    }
    return going;
}

/* Exports a block, and opens it as another process would. */
static bool share_own(struct program *program) {
    const vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_share *exported = NULL, *opened = NULL;
    vram_pool *pool = NULL;
    vram_share_token token;
    vram_addr addr = 0;
    if (!(program->info.caps & VRAM_CAP_VMM)) {
        return true;
    }
    bool going = step(program, vram_pool_create(program->device, &options, &pool)) &&
                 step(program, vram_alloc(pool, 2 * MIB, program->queue, &addr)) &&
                 step(program, vram_share_export(&addr, 1, NULL, &exported)) &&
                 step(program, vram_share_token_get(exported, &token)) &&
                 step(program, vram_share_open(program->device, &token, NULL, &opened));
    going = step(program, vram_share_close(opened)) && going;
    going = step(program, vram_share_close(exported)) && going;
    return step(program, vram_pool_destroy(pool)) && going;
}

static bool work(struct program *program) {
    vram_queue *queue = program->queue;
    /* Where the driver says that it is not page-locked: an answer, and the program goes on. */
    vram_buffer_options pinned = {
        .size = sizeof pinned, .kind = VRAM_BUFFER_PINNED, .flags = VRAM_BUFFER_PAGEABLE};
    const vram_copy_2d rows = {
        {.to = program->addr + 2 * MIB, .from = program->addr}, 64, 3, 128, 96};
    vram_buffer *buffer = NULL;
    void *host = (void *)(uintptr_t)program->pinned;
    vram_point point;
    return step(program, vram_queue_upload(queue, program->addr, host, 4096)) &&
           step(program, vram_transfer_2d(queue, &rows, NULL, NULL)) &&
           step(program, vram_queue_fill(queue, program->addr, 1, 1, 64)) &&
           step(program, vram_queue_fill(queue, program->addr, 1, 2, 64)) &&
           step(program, vram_queue_fill(queue, program->addr, 1, 4, 64)) && lock_own(program) &&
           (!program->mapped ||
            step(program, vram_queue_fill(queue, program->range, 1, 4, 2 * MIB))) &&
           (!program->managed ||
            step(program, vram_queue_prefetch(queue, program->managed, 8192, VRAM_TARGET_OWN))) &&
           share_own(program) && compute(program) && use_peer(program) &&
           step(program, vram_queue_mark(queue, &point)) &&
           step(program, vram_queue_after(program->adopted, point)) &&
           step(program,
                vram_queue_copy(program->adopted, program->addr + MIB, program->addr, 4096)) &&
           step(program, vram_queue_download(program->adopted, host, program->addr, 4096)) &&
           (vram_queue_poll(queue), true) &&
           step(program, vram_queue_wait(program->adopted, VRAM_TIMEOUT_DEFAULT)) &&
           step(program, vram_pool_create(program->device, NULL, &program->pool)) &&
           step(program, vram_alloc(program->pool, MIB, queue, &program->block)) &&
           step(program, vram_queue_fill(queue, program->block, 0, 4, MIB)) &&
           step(program, vram_free(program->block, queue)) &&
           step(program, vram_buffer_create(program->pool, 8192, queue, &pinned, &buffer)) &&
           step(program, vram_buffer_destroy(buffer)) &&
           step(program, vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
}

/* Gives back; what the driver refuses goes with the context. */
static void end(struct program *program) {
    vram_device *device = program->device;
    if (program->queue) {
        (void)step(program, vram_queue_wait(program->queue, VRAM_TIMEOUT_DEFAULT));
    }
    if (program->adopted) {
        (void)step(program, vram_queue_end(program->adopted));
    }
    vram_kernel_destroy(program->kernel);
    if (program->pool) {
        (void)step(program, vram_pool_destroy(program->pool));
    }
    if (program->mapped) {
        (void)step(program, vram_range_unmap(device, program->range, 2 * MIB));
    }
    if (program->physical) {
        (void)step(program, vram_physical_destroy(program->physical));
    }
    if (program->range) {
        (void)step(program, vram_range_destroy(device, program->range));
    }
    if (device) {
        (void)step(program, vram_device_free(device, program->managed));
        (void)step(program, vram_device_free(device, program->pinned));
        (void)step(program, vram_device_free(device, program->addr));
    }
    vram_queue_destroy(program->queue);
    vram_device_close(program->other);
    vram_device_close(device);
    vram_context_destroy(program->context);
}

static bool driver_call(void *library, const char *name, void *function) {
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* The device is not lost, and reads from the other what it was told to. libvram asks it for nothing
   any more: the driver behind the shim says when that is done, however busy the machine is. */
static void settle(const struct program *program) {
    const char *driver = getenv("SHIM_DRIVER");
    int (*context_of)(void *stream, void **context), (*push)(void *context), (*pop)(void **context);
    int (*wait_for)(void *stream);
    void *library = dlopen(driver ? driver : "libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *context;
    bool told = program->native && driver_call(library, "cuStreamGetCtx", &context_of) &&
                driver_call(library, "cuCtxPushCurrent_v2", &push) &&
                driver_call(library, "cuCtxPopCurrent_v2", &pop) &&
                driver_call(library, "cuStreamSynchronize", &wait_for) &&
                context_of(program->native, &context) == 0 && push(context) == 0;
    if (told) {
        told = wait_for(program->native) == 0;
        (void)pop(&context);
    }
    if (!told) {
        usleep(SETTLE_US);
    }
    if (library) {
        dlclose(library);
    }
}

static void run(struct program *program) {
    *program = (struct program){.status = VRAM_OK};
    if (begin(program) && take(program)) {
        (void)work(program);
    }
    if (program->status == VRAM_ERR_DEVICE_LOST && program->other) {
        settle(program);
    }
    end(program);
}

/* -------------------------------------------------------------------- child */

static const struct shim_control *control_of(const char *path) {
    const struct shim_control *(*get)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "shim_control") : NULL;
    memcpy(&get, &found, sizeof get);
    return found ? get() : NULL;
}

/* What makes the program come by an entry that it does without otherwise. */
static void prepare(const struct shim_control *shim, int manner) {
    shim->always(NULL, 0);
    if (manner == 1 || manner == 2) { /* host functions and events */
        shim->always("cuStreamWriteValue64", VR_CU_NOT_SUPPORTED);
    }
    if (manner == 2) { /* events alone */
        shim->always("cuLaunchHostFunc", VR_CU_NOT_SUPPORTED);
    }
    if (manner == 3) { /* words about a failure */
        shim->always("cuMemAlloc", VR_CU_OUT_OF_MEMORY);
    }
}

enum { MANNERS = 4 };

/* Whether the entry was struck, in one of the manners; -1 when something went wrong. */
static int combine(const struct shim_control *shim, const struct driver_entry *entry, int code) {
    struct program program;
    for (int attempt = 0; attempt < MANNERS * ATTEMPTS; attempt++) {
        prepare(shim, attempt % MANNERS);
        shim->refuse(entry->name, 1, code, false);
        run(&program);
        bool struck = shim->struck() > 0;
        shim->refuse(NULL, 0, 0, false);
        if (struck && verbose) {
            printf("%s answered %d: %s\n", entry->name, code, vram_status_name(program.status));
        }
        if (struck && program.status != VRAM_OK && !program.error.text[0]) {
            printf("%s answered %d: %s without a word\n", entry->name, code,
                   vram_status_name(program.status));
            return -1;
        }
        prepare(shim, 0);
        if (struck) {
            run(&program);
            if (program.status != VRAM_OK) {
                printf("after %s had answered %d: %s\n", entry->name, code, program.error.text);
                return -1;
            }
            return 1;
        }
    }
    return 0;
}

/* All codes of an entry point; a child's exit code. */
static int combine_all(const struct shim_control *shim, const struct driver_entry *entry) {
    unsigned codes = entry->code_count + BOGUS;
    for (unsigned i = 0; i < codes; i++) {
        int code = i < entry->code_count ? entry->codes[i] : bogus[i - entry->code_count];
        int struck = combine(shim, entry, code);
        if (struck < 0) {
            return 1;
        }
        if (!struck) {
            bool peers = entry->without && strcmp(entry->without, "peers") == 0;
            if (!peers) {
                printf("%s is never called\n", entry->name);
            }
            return peers ? NEEDS_PEERS : 1;
        }
    }
    return 0;
}

static int child(const char *path, const struct driver_entry *entry) {
    const struct shim_control *shim = control_of(path);
    struct program kept = {.status = VRAM_OK}, last;
    if (!shim) {
        printf("%s is no shim\n", path);
        return 2;
    }
    if (!begin(&kept)) {
        printf("before %s: %s\n", entry->name, kept.error.text);
        return 1;
    }
    int code = combine_all(shim, entry);
    vram_context_destroy(kept.context);
    run(&last); /* from the first context of the driver to the last */
    if (last.status != VRAM_OK) {
        printf("after %s: %s\n", entry->name, last.error.text);
        return 1;
    }
    return code;
}

/* ------------------------------------------------------------------- parent */

static pid_t start(const char *path, const struct driver_entry *entry) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CHILD_SECONDS);
        int code = child(path, entry);
        fflush(NULL);
        _exit(code);
    }
    return pid;
}

static struct { unsigned done, all, unreachable, failed; } sum;

/* Waits for a child and adds up what it found. */
static void collect(pid_t pids[ENTRIES]) {
    int status = 0, entry = 0;
    pid_t pid = wait(&status);
    while (entry < ENTRIES && pids[entry] != pid) {
        entry++;
    }
    if (pid < 0 || entry == ENTRIES) {
        return;
    }
    unsigned codes = cuda_entries[entry].code_count + BOGUS;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    sum.all += code == NEEDS_PEERS ? 0 : codes;
    sum.unreachable += code == NEEDS_PEERS ? codes : 0;
    sum.done += code == 0 ? codes : 0;
    sum.failed += code != 0 && code != NEEDS_PEERS;
    if (code >= 1000) {
        printf("%s: killed by signal %d\n", cuda_entries[entry].name, code - 1000);
    }
    printf("%-34s %s, %u of %u so far\n", cuda_entries[entry].name,
           code == NEEDS_PEERS ? "needs a second device"
           : code              ? "FAILED"
                               : "all codes",
           sum.done, sum.all);
    fflush(stdout); /* who stops a run that takes too long sees how far it came */
}

int main(int argc, char **argv) {
    pid_t pids[ENTRIES];
    int jobs = 4, running = 0;
    const char *shim = argc > 1 ? argv[1] : NULL;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--driver") == 0 && i + 1 < argc) {
            setenv("SHIM_DRIVER", argv[++i], 1);
        } else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc) {
            jobs = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else {
            shim = NULL;
        }
    }
    if (!shim || jobs < 1 || jobs > JOBS_MAX || setenv("VRAM_CUDA_LIBRARY", shim, 1) != 0) {
        fprintf(stderr, "usage: shim_matrix SHIM [--driver PATH] [--jobs N] [--verbose]\n");
        return 2;
    }
    for (int i = 0; i < ENTRIES; i++) {
        if (running == jobs) {
            collect(pids);
            running--;
        }
        pids[i] = start(shim, &cuda_entries[i]);
        running++;
    }
    for (; running > 0; running--) {
        collect(pids);
    }
    if (sum.unreachable) {
        printf("%u combinations need a second device\n", sum.unreachable);
    }
    printf("entry x code: %u of %u\n", sum.done, sum.all);
    return sum.failed ? 1 : 0;
}
