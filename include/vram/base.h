/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/base.h: what all other headers use: status codes, the error record, versions, sizes as text,
 * options, the log callback and the allocator for host memory. Nothing here uses a device.
 *
 * These rules hold for the whole API:
 *
 *  - A call that can fail returns a vram_status: VRAM_OK is 0, every failure is negative.
 *  - Out-parameters come last and are written only on success.
 *  - Option structs begin with `size_t size` (set it to sizeof the struct); a field that is zero
 *    means its default, and a NULL pointer means all defaults. A struct of a newer header may be
 *    longer than the library's own. It is accepted if all bytes after the library's own fields are
 *    zero; otherwise it asks for something that this version cannot do, and the call returns
 *    VRAM_ERR_INVALID.
 *  - Handles are opaque. Every call detects a handle that was destroyed (VRAM_ERR_STALE) and a
 *    value that never was one (VRAM_ERR_INVALID): handles carry a generation and are never
 *    dereferenced.
 *  - Any call may be made from any thread at any time. If a thread destroys an object during a
 *    call of another thread on it, that call finishes or fails, and the object is destroyed
 *    afterwards. Only a signal handler may make no calls: it may have interrupted one that holds a
 *    lock.
 *  - No call is a cancellation point. A thread that is cancelled (pthread_cancel) inside a call, or
 *    inside a callback, ends at its next cancellation point after the call. A thread with
 *    asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) may make no calls. Callbacks must
 *    return: they may not end their thread, jump out, or enable its cancellation.
 *  - The library never aborts, never exits and writes nothing unless a log callback or VRAM_LOG
 *    asks for it.
 *  - The library has descriptors of its own (shared memory, leases, traces). A program that closes
 *    descriptors which it did not open, as daemons do, does so in a forked child, before the child
 *    makes its first call: whatever is opened at the same number later is not the library's.
 */
#ifndef VRAM_BASE_H
#define VRAM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(VRAM_BUILDING)
#define VRAM_API __declspec(dllexport)
#elif defined(VRAM_STATIC)
#define VRAM_API
#else
#define VRAM_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define VRAM_API __attribute__((visibility("default")))
#else
#define VRAM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ version */

#define VRAM_VERSION_MAJOR 0
#define VRAM_VERSION_MINOR 1
#define VRAM_VERSION_PATCH 0

/** Empty in a release; "rc1" in the first candidate of one. VRAM_VERSION does not count it. */
#define VRAM_VERSION_PRE "rc1"

/** The version as one number that can be compared: major * 1,000,000 + minor * 1,000 + patch. */
#define VRAM_VERSION (VRAM_VERSION_MAJOR * 1000000 + VRAM_VERSION_MINOR * 1000 + VRAM_VERSION_PATCH)

#define VRAM_TEXT_OF_(x) #x
#define VRAM_TEXT_OF(x)  VRAM_TEXT_OF_(x)
#define VRAM_VERSION_TEXT                                                                          \
    VRAM_TEXT_OF(VRAM_VERSION_MAJOR)                                                               \
    "." VRAM_TEXT_OF(VRAM_VERSION_MINOR) "." VRAM_TEXT_OF(VRAM_VERSION_PATCH) VRAM_VERSION_PRE

/** The version of the library that is loaded, which may differ from the header's VRAM_VERSION. */
VRAM_API uint32_t vram_version(void);

/** The same as text, VRAM_VERSION_TEXT: "0.1.0", "0.1.0rc1". Static storage. */
VRAM_API const char *vram_version_text(void);

/* ------------------------------------------------------------------- status */

/**
 * Every status: X(name, value, text).
 *
 * Values are part of the ABI and are never reused. They come in groups, with gaps for later ones:
 *
 *  -1.. caller's mistakes        -20.. exhaustion              -40.. not available
 * -60.. the device               -80.. time and life cycle    -100.. data and the system
 */
#define VRAM_STATUS_MAP(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(ERR_INVALID, -1, "an argument is not valid")                                                 \
    X(ERR_OVERFLOW, -2, "a size or address does not fit in 64 bits")                               \
    X(ERR_STALE, -3, "the object was destroyed, or never was one of this library's")               \
    X(ERR_HOST_MEMORY, -20, "out of host memory")                                                  \
    X(ERR_DEVICE_MEMORY, -21, "out of device memory")                                              \
    X(ERR_LIMIT, -22, "a limit set by the user or the system was reached")                         \
    X(ERR_FRAGMENTED, -23, "memory is free, but no run of addresses is long enough")               \
    X(ERR_UNSUPPORTED, -40, "the device or backend cannot do this")                                \
    X(ERR_NO_DRIVER, -41, "the driver is missing or unusable")                                     \
    X(ERR_NO_DEVICE, -42, "no such device")                                                        \
    X(ERR_DEVICE_LOST, -60, "the device was lost; its memory and queues are gone")                 \
    X(ERR_BUSY, -61, "the object is in use")                                                       \
    X(ERR_CAPTURE, -62, "the queue is being captured into a graph")                                \
    X(ERR_NOT_READY, -80, "not finished yet")                                                      \
    X(ERR_TIMEOUT, -81, "the deadline passed")                                                     \
    X(ERR_FORKED, -82, "the process forked; the child must create its own context")                \
    X(ERR_SHUTDOWN, -83, "the process is exiting or the object is being destroyed")                \
    X(ERR_CORRUPT, -100, "data or a driver's answer makes no sense")                               \
    X(ERR_IO, -101, "an operating system call failed")                                             \
    X(ERR_BACKEND, -102, "the driver reported an error")

typedef enum vram_status {
#define VRAM_STATUS_ENUM(name, value, text) VRAM_##name = (value),
    VRAM_STATUS_MAP(VRAM_STATUS_ENUM)
#undef VRAM_STATUS_ENUM
} vram_status;

/** "VRAM_ERR_LIMIT"; "VRAM_ERR_UNKNOWN" if the value is not a status. Static storage. */
VRAM_API const char *vram_status_name(vram_status status);

/** A clause in English, "a limit set by the user or the system was reached". Static storage. */
VRAM_API const char *vram_status_text(vram_status status);

/**
 * Whether something ran out: host memory, device memory, a limit, or contiguous memory. This is the
 * test for programs that reduce their batch and try again.
 */
VRAM_API bool vram_status_is_exhausted(vram_status status);

/* ------------------------------------------------------------- error record */

#define VRAM_ERROR_TEXT_MAX 240 /* bytes of vram_error.text, the final 0 included */

/** The last failure on this thread. */
typedef struct vram_error {
    vram_status status;             /* what the failing call returned */
    const char *backend;            /* "cuda", "host", ...; "" if no backend was involved */
    const char *operation;          /* the driver or libvram call that failed, "cuMemCreate" */
    int64_t native_code;            /* of the driver or system; 0 if there is none */
    char text[VRAM_ERROR_TEXT_MAX]; /* one line: what failed and what to do */
} vram_error;

/**
 * The calling thread's error record, borrowed, never NULL: {VRAM_OK, "", "", 0, ""} before the
 * first failure. Only a failing call on this thread changes it.
 */
VRAM_API const vram_error *vram_error_get(void);

/** Resets the calling thread's record to its initial state. */
VRAM_API void vram_error_clear(void);

/**
 * Copies `error` into the calling thread's record and returns its status. For libraries on top of
 * this one, and to restore a record that was copied before a clean-up. `backend` and `operation`
 * must have static storage (NULL counts as ""). The text is truncated if it is too long, and
 * control characters in it become '?'. NULL clears the record. Uses no memory and never fails.
 */
VRAM_API vram_status vram_error_set(const vram_error *error);

/**
 * Defines type_auto_end, which VRAM_AUTO (vram/auto.h) calls: if `there`, evaluates `end` and
 * leaves the error record as it was. Both use object.
 */
#define VRAM_AUTO_END_(type, held, there, end)                                                     \
    static inline void type##_auto_end(held *object) {                                             \
        if (object && (there)) {                                                                   \
            vram_error error = *vram_error_get();                                                  \
            (void)(end);                                                                           \
            (void)vram_error_set(&error);                                                          \
        }                                                                                          \
    }
#define VRAM_AUTO_HANDLE_(type, end) VRAM_AUTO_END_(type, type *, *object, end(*object))

/* -------------------------------------------------------- values and sizes */

/** A number that may be unknown. If `known` is false, `value` is 0 and has no meaning. */
typedef struct vram_value {
    uint64_t value;
    bool known;
} vram_value;

/**
 * Reads a size: "4096", "64K", "1.5GiB", "2 MB". K, M, G, T, P, E (and KiB, MiB, ...) are powers of
 * 1024; kB, MB, GB, ... are powers of 1000. Case is ignored: only the final "B" after a
 * single-letter prefix makes it decimal. Fractions of a byte are rounded down, but a size above 0
 * never becomes 0. VRAM_ERR_INVALID for signs and for text after the unit, _OVERFLOW if it does not
 * fit in 64 bits.
 */
VRAM_API vram_status vram_size_parse(const char *text, uint64_t *bytes);

#define VRAM_SIZE_TEXT_MAX 24 /* bytes that any formatted size needs, the final 0 included */

/** Writes a size as text: "512 B", "2.00 MiB", "79.10 GiB". Returns `text`. */
VRAM_API const char *vram_size_format(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]);

/* ------------------------------------------------------------------ reports */

/**
 * How a report is written. Every report has its own call, vram_X_write(object, format, write,
 * user), for example vram_leaks_write and vram_oom_report_write.
 */
typedef enum vram_report_format {
    VRAM_REPORT_TEXT = 0, /* lines for people; control characters in names become '?' */
    /* One JSON document, in bytes and nanoseconds. Its "schema" names it, "vram.leaks/1", and so
       the file docs/schema/vram.leaks-1.schema.json. Fields may be added under the same number;
       from version 1.0 on, one that is removed or changes its type or meaning raises it. Addresses
       are strings, "0x7f60c0000000". */
    VRAM_REPORT_JSON = 1
} vram_report_format;

/**
 * Takes the next `bytes` bytes of a report, which have no final 0. A report arrives in many pieces
 * and ends with a line break. Called on the calling thread with no lock held. If it returns false,
 * nothing more is written and the report's call returns VRAM_ERR_IO.
 */
typedef bool vram_write_fn(void *user, const char *text, size_t bytes);

/* ------------------------------------------------------------------ options */

typedef enum vram_option_type {
    VRAM_OPTION_BOOL = 0,     /* on/off, true/false, yes/no, 1/0 */
    VRAM_OPTION_INTEGER = 1,  /* a whole number */
    VRAM_OPTION_SIZE = 2,     /* bytes, as vram_size_parse reads them */
    VRAM_OPTION_DURATION = 3, /* nanoseconds; text takes ns, us, ms, s, min */
    VRAM_OPTION_TEXT = 4,     /* at most 255 bytes */
    VRAM_OPTION_FRACTION = 5, /* a part of a whole, "0.85" or "85%"; counted in millionths */
    VRAM_OPTION_LIST = 6      /* words joined by commas; at most 255 bytes */
} vram_option_type;

/** One row of the options table. All strings have static storage. */
typedef struct vram_option_info {
    const char *name;          /* "wait_timeout"; VRAM_WAIT_TIMEOUT in the environment */
    vram_option_type type;     /* how its text is read */
    bool is_limit;             /* the environment's value is a ceiling that the API cannot raise */
    const char *default_text;  /* the value if it is not set */
    uint64_t minimum, maximum; /* accepted range of numbers, sizes and durations; 0 too, if it is
                                  the default */
    const char *help;          /* one line */
} vram_option_info;

/** Where the current value of an option comes from. */
typedef enum vram_option_source {
    VRAM_OPTION_FROM_DEFAULT = 0,
    VRAM_OPTION_FROM_ENVIRONMENT = 1,
    VRAM_OPTION_FROM_API = 2
} vram_option_source;

/** The number of options. */
VRAM_API size_t vram_option_count(void);

/** Row `index` of the table, borrowed; NULL if there is none. */
VRAM_API const vram_option_info *vram_option_at(size_t index);

/**
 * Sets an option of this process from text. Contexts read options when they are created. The API
 * overrides the environment, with one exception: if the environment set a limit, a higher value is
 * VRAM_ERR_LIMIT. An unknown name, invalid text or a value out of range is VRAM_ERR_INVALID, and
 * the error text says what is accepted. NULL text restores the value of the environment or the
 * default.
 */
VRAM_API vram_status vram_option_set(const char *name, const char *text);

/**
 * Writes the current value into `text`, always terminated and truncated if it is too long (NULL:
 * not written), and its source into `source`, which may be NULL.
 */
VRAM_API vram_status vram_option_get(const char *name, char *text, size_t text_bytes,
                                     vram_option_source *source);

/**
 * Problems in VRAM_CONF and the VRAM_* variables: unknown keys, invalid values. Returns their
 * number, and writes problem `index` into `text` if there is one. An invalid value, and an unknown
 * key of VRAM_CONF, make vram_context_create return VRAM_ERR_INVALID unless the option `strict` is
 * off; an unknown variable may be another program's.
 */
VRAM_API size_t vram_option_problem(size_t index, char *text, size_t text_bytes);

/* ---------------------------------------------------------------------- log */

typedef enum vram_log_level {
    VRAM_LOG_OFF = 0,
    VRAM_LOG_ERROR = 1,
    VRAM_LOG_WARN = 2,
    VRAM_LOG_INFO = 3,
    VRAM_LOG_DEBUG = 4
} vram_log_level;

/**
 * Receives one message without a trailing newline. Called on the thread that logs, with no lock of
 * the library held, so it may call the library; messages that this thread logs meanwhile are
 * dropped.
 */
typedef void vram_log_fn(void *user, vram_log_level level, const char *text);

/**
 * Sends messages up to `level` to `log`. NULL restores the default: no output, or standard error if
 * the environment has VRAM_LOG=error|warn|info|debug. Another thread may still be calling the
 * former callback after this returns.
 *
 * At debug level each allocation, free, resize, move, fallback, sleep and wake of a pool is one
 * line, with size, name, tag and pool. Allocations, frees and resizes are logged for tracked pools
 * (vram/stats.h), as all pools are that are created while the level is debug. At lower levels this
 * costs nothing.
 */
VRAM_API void vram_log_set(vram_log_fn *log, void *user, vram_log_level level);

/* -------------------------------------------------------------- host memory */

typedef void *vram_host_alloc_fn(void *user, size_t bytes);                /* bytes > 0 */
typedef void *vram_host_resize_fn(void *user, void *memory, size_t bytes); /* like realloc */
typedef void vram_host_free_fn(void *user, void *memory);                  /* memory is not NULL */

/**
 * Allocates host memory for the library's bookkeeping. All three functions must be set. They are
 * called from any thread, must not call the library, and may fail by returning NULL: the library
 * then returns VRAM_ERR_HOST_MEMORY and stays consistent. Memory must be aligned for any object,
 * like that of malloc.
 */
typedef struct vram_host_allocator {
    void *user; /* handed to each call */
    vram_host_alloc_fn *alloc;
    vram_host_resize_fn *resize; /* bytes > 0 */
    vram_host_free_fn *free;
} vram_host_allocator;

/**
 * Replaces malloc for the library's bookkeeping; NULL restores malloc. Only while the library holds
 * no memory, that is before the first context or after the last: otherwise VRAM_ERR_BUSY.
 */
VRAM_API vram_status vram_host_allocator_set(const vram_host_allocator *allocator);

/**
 * Bytes of host memory that the library's bookkeeping takes now, with the library's own headers.
 */
VRAM_API uint64_t vram_host_bytes(void);

/**
 * Zeroed host memory for `count` objects of `bytes` each, from the same allocator as the
 * bookkeeping and counted with it. For libraries on top of this one. NULL, with
 * VRAM_ERR_HOST_MEMORY in the error record, if memory runs out or the product overflows.
 * vram_host_free frees it; NULL is allowed.
 */
VRAM_API void *vram_host_alloc(size_t count, size_t bytes);
VRAM_API void vram_host_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
