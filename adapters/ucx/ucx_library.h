/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucx_library.h: UCX, loaded at run time. Its headers declare the types; no function of it is
 * linked. The library is opened once and stays, since UCX does not support being unloaded.
 */
#ifndef VR_UCX_LIBRARY_H
#define VR_UCX_LIBRARY_H

#include "vram/base.h"

#include <ucp/api/ucp.h>

#define VR_UCX_FUNCTIONS(X)                                                                        \
    X(get_version)                                                                                 \
    X(init_version)                                                                                \
    X(cleanup)                                                                                     \
    X(config_read)                                                                                 \
    X(config_modify)                                                                               \
    X(config_release)                                                                              \
    X(context_query)                                                                               \
    X(worker_create)                                                                               \
    X(worker_destroy)                                                                              \
    X(worker_get_address)                                                                          \
    X(worker_release_address)                                                                      \
    X(worker_get_efd)                                                                              \
    X(worker_arm)                                                                                  \
    X(worker_signal)                                                                               \
    X(worker_progress)                                                                             \
    X(worker_set_am_recv_handler)                                                                  \
    X(am_send_nbx)                                                                                 \
    X(am_recv_data_nbx)                                                                            \
    X(am_data_release)                                                                             \
    X(listener_create)                                                                             \
    X(listener_destroy)                                                                            \
    X(listener_query)                                                                              \
    X(listener_reject)                                                                             \
    X(ep_create)                                                                                   \
    X(ep_close_nbx)                                                                                \
    X(ep_flush_nbx)                                                                                \
    X(ep_rkey_unpack)                                                                              \
    X(rkey_destroy)                                                                                \
    X(rkey_pack)                                                                                   \
    X(rkey_buffer_release)                                                                         \
    X(mem_map)                                                                                     \
    X(mem_unmap)                                                                                   \
    X(mem_query)                                                                                   \
    X(put_nbx)                                                                                     \
    X(get_nbx)                                                                                     \
    X(request_free)

struct vr_ucx {
#define VR_UCX_FIELD(name) __typeof__(ucp_##name) *name;
    VR_UCX_FUNCTIONS(VR_UCX_FIELD)
#undef VR_UCX_FIELD
};

/* UCX's functions; valid after vr_ucx_load was VRAM_OK. */
extern struct vr_ucx vr_ucx;

/* Loads UCX; later calls repeat the first answer. VRAM_ERR_NO_DRIVER with the reason. */
vram_status vr_ucx_load(void);

/* "1.13.1". */
void vr_ucx_version(char *text, size_t bytes);

/* Records a failure of UCX: `call` is the function that failed, as a literal. */
vram_status vr_ucx_fail(ucs_status_t status, const char *call);

/* Between the two, what UCX logs on the calling thread is discarded. They nest. */
void vr_ucx_quiet_begin(void);
void vr_ucx_quiet_end(const bool *unused);
#define VR_UCX_QUIET                                                                               \
    vr_ucx_quiet_begin();                                                                          \
    __attribute__((cleanup(vr_ucx_quiet_end), unused)) const bool vr_ucx_quieted = true

#endif
