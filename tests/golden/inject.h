/* SPDX-License-Identifier: Apache-2.0 */
/* inject.h: the calls that inject.c stands before, and what becomes of their results. */
#ifndef INJECT_H
#define INJECT_H

#include <stdbool.h>

/* How a call fails: NULL or no bytes; -1; an error number as its result; -1, but done. */
#define SYSTEM_CALLS(CALL)                                                                         \
    CALL(malloc, GIVES_NONE)                                                                       \
    CALL(calloc, GIVES_NONE)                                                                       \
    CALL(realloc, GIVES_NONE)                                                                      \
    CALL(aligned_alloc, GIVES_NONE)                                                                \
    CALL(strdup, GIVES_NONE)                                                                       \
    CALL(open_memstream, GIVES_NONE)                                                               \
    CALL(fopen, GIVES_NONE)                                                                        \
    CALL(fdopen, GIVES_NONE)                                                                       \
    CALL(tmpfile, GIVES_NONE)                                                                      \
    CALL(opendir, GIVES_NONE)                                                                      \
    CALL(fdopendir, GIVES_NONE)                                                                    \
    CALL(realpath, GIVES_NONE)                                                                     \
    CALL(dlopen, GIVES_NONE)                                                                       \
    CALL(mmap, GIVES_MINUS)                                                                        \
    CALL(pipe, GIVES_MINUS)                                                                        \
    CALL(pipe2, GIVES_MINUS)                                                                       \
    CALL(fork, GIVES_MINUS)                                                                        \
    CALL(execv, GIVES_MINUS)                                                                       \
    CALL(setenv, GIVES_MINUS)                                                                      \
    CALL(socket, GIVES_MINUS)                                                                      \
    CALL(socketpair, GIVES_MINUS)                                                                  \
    CALL(sendmsg, GIVES_MINUS)                                                                     \
    CALL(open, GIVES_MINUS)                                                                        \
    CALL(mkstemp, GIVES_MINUS)                                                                     \
    CALL(memfd_create, GIVES_MINUS)                                                                \
    CALL(ftruncate, GIVES_MINUS)                                                                   \
    CALL(fchmod, GIVES_MINUS)                                                                      \
    CALL(fsync, GIVES_MINUS)                                                                       \
    CALL(fflush, GIVES_MINUS)                                                                      \
    CALL(fclose, FAILS_DONE)                                                                       \
    CALL(rename, GIVES_MINUS)                                                                      \
    CALL(mkdir, GIVES_MINUS)                                                                       \
    CALL(fstat, GIVES_MINUS)                                                                       \
    CALL(lstat, GIVES_MINUS)                                                                       \
    CALL(stat, GIVES_MINUS)                                                                        \
    CALL(readlink, GIVES_MINUS)                                                                    \
    CALL(getentropy, GIVES_MINUS)                                                                  \
    CALL(read, GIVES_MINUS)                                                                        \
    CALL(write, GIVES_MINUS)                                                                       \
    CALL(pread, GIVES_MINUS)                                                                       \
    CALL(pwrite, GIVES_MINUS)                                                                      \
    CALL(recv, GIVES_MINUS)                                                                        \
    CALL(posix_fallocate, GIVES_CODE)                                                              \
    CALL(pthread_create, GIVES_CODE)

#define LIBRARY_CALLS(CALL)                                                                        \
    CALL(vram_alloc)                                                                               \
    CALL(vram_alloc_with)                                                                          \
    CALL(vram_async_wait)                                                                          \
    CALL(vram_backend_info_get)                                                                    \
    CALL(vram_block_info_get)                                                                      \
    CALL(vram_device_alloc)                                                                        \
    CALL(vram_device_free)                                                                         \
    CALL(vram_device_open)                                                                         \
    CALL(vram_device_pressure_get)                                                                 \
    CALL(vram_distance_run)                                                                        \
    CALL(vram_free)                                                                                \
    CALL(vram_health)                                                                              \
    CALL(vram_kernel_create)                                                                       \
    CALL(vram_lease_list)                                                                          \
    CALL(vram_live_stats_get)                                                                      \
    CALL(vram_matmul_batch)                                                                        \
    CALL(vram_matmul_run)                                                                          \
    CALL(vram_memory_info_get)                                                                     \
    CALL(vram_native)                                                                              \
    CALL(vram_oom_callback_add)                                                                    \
    CALL(vram_oom_callback_remove)                                                                 \
    CALL(vram_oom_report_get)                                                                      \
    CALL(vram_physical_create)                                                                     \
    CALL(vram_physical_destroy)                                                                    \
    CALL(vram_pool_create)                                                                         \
    CALL(vram_pool_fragmentation_get)                                                              \
    CALL(vram_pool_ladder_set)                                                                     \
    CALL(vram_pool_pressure_get)                                                                   \
    CALL(vram_pool_response_set)                                                                   \
    CALL(vram_pool_stats_get)                                                                      \
    CALL(vram_pool_trim)                                                                           \
    CALL(vram_pool_watch_begin)                                                                    \
    CALL(vram_queue_after)                                                                         \
    CALL(vram_queue_copy)                                                                          \
    CALL(vram_queue_create)                                                                        \
    CALL(vram_queue_download)                                                                      \
    CALL(vram_queue_fill)                                                                          \
    CALL(vram_queue_launch)                                                                        \
    CALL(vram_queue_mark)                                                                          \
    CALL(vram_queue_native)                                                                        \
    CALL(vram_queue_upload)                                                                        \
    CALL(vram_queue_wait)                                                                          \
    CALL(vram_range_create)                                                                        \
    CALL(vram_range_destroy)                                                                       \
    CALL(vram_range_map)                                                                           \
    CALL(vram_range_unmap)                                                                         \
    CALL(vram_readback_create)                                                                     \
    CALL(vram_readback_next)                                                                       \
    CALL(vram_readback_release)                                                                    \
    CALL(vram_readback_start)                                                                      \
    CALL(vram_resize)                                                                              \
    CALL(vram_ring_create)                                                                         \
    CALL(vram_ring_drain)                                                                          \
    CALL(vram_ring_fetch)                                                                          \
    CALL(vram_ring_flush)                                                                          \
    CALL(vram_ring_info_get)                                                                       \
    CALL(vram_ring_join)                                                                           \
    CALL(vram_ring_receive)                                                                        \
    CALL(vram_ring_send)                                                                           \
    CALL(vram_ring_send_many)                                                                      \
    CALL(vram_ring_stats_get)                                                                      \
    CALL(vram_ring_stop)                                                                           \
    CALL(vram_scheduler_calibrate)                                                                 \
    CALL(vram_scheduler_create)                                                                    \
    CALL(vram_scheduler_stats_get)                                                                 \
    CALL(vram_share_close)                                                                         \
    CALL(vram_share_info_get)                                                                      \
    CALL(vram_share_list)                                                                          \
    CALL(vram_share_open)                                                                          \
    CALL(vram_sim_clock_advance)                                                                   \
    CALL(vram_sim_state_get)                                                                       \
    CALL(vram_trace_begin)                                                                         \
    CALL(vram_transfer_batch)                                                                      \
    CALL(vram_transfer_download)                                                                   \
    CALL(vram_transfer_upload)

enum way { GIVES_NONE, GIVES_MINUS, GIVES_CODE, FAILS_DONE, GIVES_STATUS };

#define NUMBER_SYSTEM(name, way) NUMBER_##name,
#define NUMBER_LIBRARY(name)     NUMBER_##name,
enum { SYSTEM_CALLS(NUMBER_SYSTEM) LIBRARY_CALLS(NUMBER_LIBRARY) CALL_COUNT };

/* Fails the call with this number, made with these values. */
long inject_fail(int number, const long *with);

/* Whether INJECT asks for that lie. */
bool inject_lies(const char *what);

/* Whether a lie takes the place of the whole call. */
bool inject_replaces(int number);

/* What a call of libvram returns in the place of `status`, and with what in its results. */
long inject_lie(int number, const long *with, long status);

/* Ends the process in one of several ways, if INJECT asks for it. */
void inject_end(void);

#endif
