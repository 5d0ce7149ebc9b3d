/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spoilt.c: stands between the command and the library in a build of the command that must notice.
 * No real device can be asked to give back wrong contents, to leak or to end the process, so the
 * linker's --wrap puts these in the place of some calls; SPOIL in the environment says which one
 * misbehaves, and how.
 *
 * In a coverage build a process that dies writes its counts first.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vram/vram.h>

vram_status __real_vram_queue_wait(vram_queue *queue, uint64_t timeout);
vram_status __wrap_vram_queue_wait(vram_queue *queue, uint64_t timeout);
vram_status __real_vram_queue_download(vram_queue *queue, void *to, vram_addr from, uint64_t bytes);
vram_status __wrap_vram_queue_download(vram_queue *queue, void *to, vram_addr from, uint64_t bytes);
vram_status __real_vram_memory_info_get(vram_device *device, vram_memory_info *info);
vram_status __wrap_vram_memory_info_get(vram_device *device, vram_memory_info *info);
vram_status __real_vram_backend_info_get(vram_context *context, uint32_t index,
                                         vram_backend_info *info);
vram_status __wrap_vram_backend_info_get(vram_context *context, uint32_t index,
                                         vram_backend_info *info);

void __real__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) __attribute__((noreturn));
void __gcov_dump(void) __attribute__((weak));

static unsigned char *downloaded; /* last byte of the download under way */

static bool spoils(const char *what) {
    const char *wish = getenv("SPOIL");
    return wish != NULL && strcmp(wish, what) == 0;
}

vram_status __wrap_vram_queue_download(vram_queue *queue, void *to, vram_addr from,
                                       uint64_t bytes) {
    downloaded = (unsigned char *)to + bytes - 1;
    return __real_vram_queue_download(queue, to, from, bytes);
}

/* One bit of the last byte, once the copy is done. Or a library that does not refuse what it must:
   an invalid queue, and calls in the child of a fork. */
vram_status __wrap_vram_queue_wait(vram_queue *queue, uint64_t timeout) {
    vram_status status = __real_vram_queue_wait(queue, timeout);
    if (status != VRAM_OK && spoils("accept")) {
        return VRAM_OK;
    }
    if (downloaded != NULL && spoils("contents")) {
        *downloaded ^= 1;
    }
    downloaded = NULL;
    return status;
}

vram_status __wrap_vram_memory_info_get(vram_device *device, vram_memory_info *info) {
    vram_status status = __real_vram_memory_info_get(device, info);
    if (status == VRAM_OK && spoils("leak")) {
        info->held_bytes += 4096;
    }
    return status;
}

/* A fault of the code itself, not a signal that is sent. */
__attribute__((no_sanitize("undefined"))) static void fault(void) {
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

/* Few of the cases call this. */
vram_status __wrap_vram_backend_info_get(vram_context *context, uint32_t index,
                                         vram_backend_info *info) {
    if (spoils("fault")) {
        fault();
    } else if (spoils("signal")) {
        raise(SIGILL);
    } else if (spoils("abort")) {
        abort();
    } else if (spoils("exit")) {
        exit(0);
    } else if (spoils("leave")) {
        _exit(0);
    } else if (spoils("late")) {
        atexit(abort);
    }
    return __real_vram_backend_info_get(context, index, info);
}

/* -------------------------------------------------------------------- coverage */

void __wrap__exit(int code) {
    if (__gcov_dump != NULL) {
        __gcov_dump();
    }
    __real__exit(code);
}

static void on_death(int number) {
    __gcov_dump();
    signal(number, SIG_DFL);
    raise(number);
}

/* Before main, so that the command's own handler finds these, and gives way to them. */
__attribute__((constructor)) static void watch_deaths(void) {
    static const int numbers[] = {SIGSEGV, SIGILL, SIGABRT};
    for (size_t i = 0; i < 3 && __gcov_dump != NULL; i++) {
        signal(numbers[i], on_death);
    }
}
