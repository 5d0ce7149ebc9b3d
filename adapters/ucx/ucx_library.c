/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucx_library.c: loading libucp, and its failures as statuses.
 *
 * UCX writes warnings to standard output and takes over the handlers of SIGSEGV and others when it
 * is loaded. A library must do neither in a program that did not ask for UCX, so the handlers are
 * given back, and a log handler discards what is written on this library's threads and in its
 * calls. Messages of other threads are those of a program that uses UCX itself, and are left alone.
 */
#include "adapters/ucx/ucx_library.h"

#include "base/error.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/text.h"

#include <stdarg.h>

struct vr_ucx vr_ucx;

static struct vr_once loaded_once = VR_ONCE_INIT;
static vram_error loaded_error; /* status VRAM_OK: it is loaded */
static _Thread_local unsigned quiet_depth;

/* The part of libucs that is used; it has no stable header. */
struct ucs_api {
    void (*log_push)(int (*handler)(const char *file, unsigned line, const char *function,
                                    int level, const void *config, const char *message,
                                    va_list arguments));
    void (*disable_signals)(void);
};

enum { LOG_STOP = 0, LOG_CONTINUE = 1 }; /* ucs_log_func_rc_t */

static int log_discard(const char *file, unsigned line, const char *function, int level,
                       const void *config, const char *message, va_list arguments) {
    (void)file, (void)line, (void)function, (void)level, (void)config, (void)message;
    (void)arguments;
    return quiet_depth ? LOG_STOP : LOG_CONTINUE;
}

void vr_ucx_quiet_begin(void) {
    quiet_depth++;
}

void vr_ucx_quiet_end(const bool *unused) {
    (void)unused;
    quiet_depth--;
}

static const struct vr_symbol ucp_symbols[] = {
#define SYMBOL(name) {"ucp_" #name, NULL, offsetof(struct vr_ucx, name), false},
    VR_UCX_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static const struct vr_symbol ucs_symbols[] = {
    {"ucs_log_push_handler", NULL, offsetof(struct ucs_api, log_push), true},
    {"ucs_debug_disable_signals", NULL, offsetof(struct ucs_api, disable_signals), true},
};

static void load(void) {
    static const char *const ucp_names[] = {"libucp.so.0", "libucp.so", NULL};
    static const char *const ucs_names[] = {"libucs.so.0", "libucs.so", NULL};
    struct vr_library ucp = {0}, ucs = {0};
    struct ucs_api log = {0};
    unsigned major = 0, minor = 0, release = 0;
    VR_UNCANCELLED;
    vram_status status = vr_library_open(&ucs, "ucx", ucs_names, ucs_symbols,
                                         sizeof ucs_symbols / sizeof *ucs_symbols, &log);
    if (status == VRAM_OK) {
        status = vr_library_open(&ucp, "ucx", ucp_names, ucp_symbols,
                                 sizeof ucp_symbols / sizeof *ucp_symbols, &vr_ucx);
    }
    if (status == VRAM_OK) {
        vr_ucx.get_version(&major, &minor, &release);
    }
    if (status == VRAM_OK && (major != UCP_API_MAJOR || minor < UCP_API_MINOR)) {
        status = vr_error_set(VRAM_ERR_NO_DRIVER, "ucx", "ucp_get_version", 0,
                              "libucp is version %u.%u.%u; %d.%d or newer is needed", major, minor,
                              release, UCP_API_MAJOR, UCP_API_MINOR);
    }
    if (status != VRAM_OK) {
        vr_error_save(&loaded_error);
        return;
    }
    if (log.log_push) {
        log.log_push(log_discard);
    }
    if (log.disable_signals) {
        log.disable_signals();
    }
}

vram_status vr_ucx_load(void) {
    vr_once(&loaded_once, load);
    if (loaded_error.status != VRAM_OK) {
        vram_error error = loaded_error;
        error.operation = vr_operation();
        vr_error_restore(&error);
    }
    return loaded_error.status;
}

void vr_ucx_version(char *text, size_t bytes) {
    unsigned major, minor, release;
    vr_ucx.get_version(&major, &minor, &release);
    (void)vr_text_format(text, bytes, "%u.%u.%u", major, minor, release);
}

/* What UCX says, in few words: ucs_status_string is libucs's and not needed for more. */
static const struct {
    ucs_status_t code;
    vram_status status;
    const char *text;
} failures[] = {
    {UCS_ERR_NO_MEMORY, VRAM_ERR_HOST_MEMORY, "out of memory"},
    {UCS_ERR_INVALID_PARAM, VRAM_ERR_INVALID, "an argument is not valid"},
    {UCS_ERR_INVALID_ADDR, VRAM_ERR_INVALID, "the address is not valid"},
    {UCS_ERR_UNREACHABLE, VRAM_ERR_UNSUPPORTED, "no transport reaches the other process"},
    {UCS_ERR_NO_DEVICE, VRAM_ERR_UNSUPPORTED, "no network device can be used"},
    {UCS_ERR_NO_RESOURCE, VRAM_ERR_UNSUPPORTED, "no transport can be used"},
    {UCS_ERR_UNSUPPORTED, VRAM_ERR_UNSUPPORTED, "not supported"},
    {UCS_ERR_TIMED_OUT, VRAM_ERR_TIMEOUT, "timed out"},
    {UCS_ERR_ENDPOINT_TIMEOUT, VRAM_ERR_TIMEOUT, "the other process does not answer"},
    {UCS_ERR_CONNECTION_RESET, VRAM_ERR_IO, "the connection was reset"},
    {UCS_ERR_NOT_CONNECTED, VRAM_ERR_IO, "not connected"},
    {UCS_ERR_CANCELED, VRAM_ERR_IO, "the connection was closed"},
    {UCS_ERR_REJECTED, VRAM_ERR_IO, "the connection was refused"},
};

vram_status vr_ucx_fail(ucs_status_t code, const char *call) {
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        if (failures[i].code == code) {
            return vr_error_set(failures[i].status, "ucx", call, code, "UCX: %s", failures[i].text);
        }
    }
    return vr_error_set(VRAM_ERR_IO, "ucx", call, code, "UCX failed with code %d", (int)code);
}
