/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/base.h: what every other part of libvram stands on.
 *
 * Status codes, the error record, versions, sizes as text, options, the log callback and the
 * door to host memory. Nothing here touches a device.
 *
 * Rules that hold for the whole API, said once:
 *
 *  - A call that can fail returns a vram_status: VRAM_OK is 0, every failure is negative.
 *  - Out-parameters come last and are written only on success.
 *  - Option structs begin with `size_t size` (set it to sizeof the struct); a field that is zero
 *    means its default, and a NULL pointer means all defaults. A struct of a newer header may be
 *    longer than the library's own. It is accepted if all bytes behind the library's own fields are
 *    zero; otherwise it asks for something that this version cannot do, and the call returns
 *    VRAM_ERR_INVALID.
 *  - Handles are opaque. A handle that was destroyed, or never was one, is told apart from a
 *    live one by every call (VRAM_ERR_STALE, VRAM_ERR_INVALID): handles carry a generation and
 *    are never followed as pointers.
 *  - Any call may be made from any thread at any time. Destroying an object while another thread
 *    is inside a call on it is defined: that call finishes or fails, the object goes afterwards.
 *    Only a signal handler may make none: it may have interrupted a call that holds a lock.
 *  - No call is a cancellation point. A thread that is cancelled (pthread_cancel) inside a call, or
 *    inside a callback that a call makes, ends at its own next cancellation point, after the call.
 *    A thread that is cancelled asynchronously (PTHREAD_CANCEL_ASYNCHRONOUS) may make no calls; and
 *    callbacks return: they may neither end their thread nor jump out, nor enable its cancellation.
 *  - The library never aborts, never exits and writes nothing unless a log callback or VRAM_LOG
 *    asks for it.
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

/** One comparable number: major * 1,000,000 + minor * 1,000 + patch. */
#define VRAM_VERSION (VRAM_VERSION_MAJOR * 1000000 + VRAM_VERSION_MINOR * 1000 + VRAM_VERSION_PATCH)

#define VRAM_TEXT_OF_(x) #x
#define VRAM_TEXT_OF(x)  VRAM_TEXT_OF_(x)
#define VRAM_VERSION_TEXT                                                                          \
    VRAM_TEXT_OF(VRAM_VERSION_MAJOR)                                                               \
    "." VRAM_TEXT_OF(VRAM_VERSION_MINOR) "." VRAM_TEXT_OF(VRAM_VERSION_PATCH)

/** The version of the library that is loaded, which may differ from the header's VRAM_VERSION. */
VRAM_API uint32_t vram_version(void);

/** The same as text, "0.1.0". Static storage. */
VRAM_API const char *vram_version_text(void);

/* ------------------------------------------------------------------- status */

/**
 * Every status: X(name, value, text).
 *
 * Values are part of the ABI. They are never reused; the gaps leave room for relatives.
 *  -1.. the caller's mistake      -20.. something ran out     -40.. not to be had here
 * -60.. the device                -80.. time and life cycle  -100.. data and the outside world
 */
#define VRAM_STATUS_MAP(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(ERR_INVALID, -1, "an argument is not valid")                                                 \
    X(ERR_OVERFLOW, -2, "a size or address does not fit in 64 bits")                               \
    X(ERR_STALE, -3, "the object was destroyed, or never was one of this library's")               \
    X(ERR_HOST_MEMORY, -20, "out of host memory")                                                  \
    X(ERR_DEVICE_MEMORY, -21, "out of device memory")                                              \
    X(ERR_LIMIT, -22, "a limit set by the user or the system was reached")                         \
    X(ERR_FRAGMENTED, -23, "enough memory is free, but not in one piece")                          \
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

/** "VRAM_ERR_LIMIT". A number that is no status gives "VRAM_ERR_UNKNOWN". Static storage. */
VRAM_API const char *vram_status_name(vram_status status);

/** One clause for people, "a limit set by the user or the system was reached". Static storage. */
VRAM_API const char *vram_status_text(vram_status status);

/**
 * Whether something ran out: host memory, device memory, a limit, or room in one piece.
 * The one test for programs that want to shrink their batch and try again.
 */
VRAM_API bool vram_status_is_exhausted(vram_status status);

/* ------------------------------------------------------------- error record */

#define VRAM_ERROR_TEXT_MAX 240 /* bytes of vram_error.text, the final 0 included */

/** What went wrong last on this thread. */
typedef struct vram_error {
    vram_status status;             /* what the failing call returned */
    const char *backend;            /* "cuda", "host", ...; "" when no backend was involved */
    const char *operation;          /* driver or libvram call that failed, "cuMemCreate" */
    int64_t native_code;            /* the driver's or system's own code; 0 when there is none */
    char text[VRAM_ERROR_TEXT_MAX]; /* one line: what failed and what would mend it */
} vram_error;

/**
 * The calling thread's error record, borrowed, never NULL: {VRAM_OK, "", "", 0, ""} before the
 * first failure. It changes only when a call on this thread fails: success leaves it alone.
 */
VRAM_API const vram_error *vram_error_get(void);

/** Sets the calling thread's record back to its first state. */
VRAM_API void vram_error_clear(void);

/**
 * Copies `error` into the calling thread's record and returns its status. For libraries on top of
 * this one, whose calls fail as ours do, and for restoring a record that was copied before a
 * clean-up. `backend` and `operation` must have static storage (NULL counts as ""); the text is cut
 * to its room, and control characters in it become '?'. NULL clears the record. Takes no memory and
 * never fails.
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

/** A number that may be unknown. When known is false, value is 0 and means nothing. */
typedef struct vram_value {
    uint64_t value;
    bool known;
} vram_value;

/**
 * Reads a size: "4096", "64K", "1.5GiB", "2 MB". K, M, G, T, P, E (and KiB, MiB, ...) are powers
 * of 1024; kB, MB, GB, ... are powers of 1000; case is ignored except that a trailing "B" after a
 * bare prefix makes it decimal. A part of a byte is dropped, but nothing becomes 0 that way.
 * Refuses signs and anything behind the unit (VRAM_ERR_INVALID), and what overflows (_OVERFLOW).
 */
VRAM_API vram_status vram_size_parse(const char *text, uint64_t *bytes);

#define VRAM_SIZE_TEXT_MAX 24 /* bytes that any formatted size needs, the final 0 included */

/** Writes a size for people: "512 B", "2.00 MiB", "79.10 GiB". Returns `text`. */
VRAM_API const char *vram_size_format(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]);

/* ------------------------------------------------------------------ reports */

/**
 * How a report is written. Every report has a call of its own, vram_X_write(object, format, write,
 * user), for instance vram_leaks_write and vram_oom_report_write.
 */
typedef enum vram_report_format {
    VRAM_REPORT_TEXT = 0, /* lines for people; control characters in names become '?' */
    VRAM_REPORT_JSON = 1  /* one JSON document, in bytes and nanoseconds; its "schema" names it */
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
    VRAM_OPTION_FRACTION = 5  /* a part of a whole, "0.85" or "85%"; counted in millionths */
} vram_option_type;

/** One row of the options table. All strings have static storage. */
typedef struct vram_option_info {
    const char *name;          /* "wait_timeout"; the environment has VRAM_WAIT_TIMEOUT */
    vram_option_type type;     /* how its text is read */
    bool is_limit;             /* the environment's value is a ceiling that the API cannot lift */
    const char *default_text;  /* the value when nobody sets it */
    uint64_t minimum, maximum; /* accepted range; for numbers, sizes and durations */
    const char *help;          /* one line */
} vram_option_info;

/** Where an option's present value comes from. */
typedef enum vram_option_source {
    VRAM_OPTION_FROM_DEFAULT = 0,
    VRAM_OPTION_FROM_ENVIRONMENT = 1,
    VRAM_OPTION_FROM_API = 2
} vram_option_source;

/** How many options there are. */
VRAM_API size_t vram_option_count(void);

/** Row `index` of the table, borrowed; NULL past the end. */
VRAM_API const vram_option_info *vram_option_at(size_t index);

/**
 * Sets an option of this process from text. Contexts read options when they are created.
 * The API wins over the environment, with one exception: where the environment set a limit, a
 * higher value is refused with VRAM_ERR_LIMIT. An unknown name, unreadable text or a value out
 * of range is VRAM_ERR_INVALID and names what would be accepted. NULL text restores what the
 * environment or the default says.
 */
VRAM_API vram_status vram_option_set(const char *name, const char *text);

/**
 * Writes the present value as text into `text` (always terminated, cut where there is no room;
 * NULL: not asked for) and, if asked, its source.
 */
VRAM_API vram_status vram_option_get(const char *name, char *text, size_t text_bytes,
                                     vram_option_source *source);

/**
 * What VRAM_CONF and the VRAM_* variables held that could not be used: unknown keys, bad values.
 * Returns how many problems there are; problem `index` is written into `text` if there is one.
 * The command prints them; a program may.
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
 * Receives one message without a trailing newline. Called with no lock of the library held, on
 * the thread that logs, so it may call the library; messages logged meanwhile by that same
 * thread are dropped rather than nested.
 */
typedef void vram_log_fn(void *user, vram_log_level level, const char *text);

/**
 * Sends messages up to `level` to `log`. NULL restores the start: silence, or standard error when
 * the environment has VRAM_LOG=error|warn|info|debug. A message on its way on another thread may
 * still reach the former callback after this returns.
 */
VRAM_API void vram_log_set(vram_log_fn *log, void *user, vram_log_level level);

/* -------------------------------------------------------------- host memory */

typedef void *vram_host_alloc_fn(void *user, size_t bytes);                /* bytes > 0 */
typedef void *vram_host_resize_fn(void *user, void *memory, size_t bytes); /* like realloc */
typedef void vram_host_free_fn(void *user, void *memory);                  /* memory is not NULL */

/**
 * Where the library's own bookkeeping comes from. All three must be set; they are called from any
 * thread, must not call the library, and may fail by returning NULL: the library then reports
 * VRAM_ERR_HOST_MEMORY and stays whole. Memory must be aligned for any object, as malloc's is.
 */
typedef struct vram_host_allocator {
    void *user; /* handed to each call */
    vram_host_alloc_fn *alloc;
    vram_host_resize_fn *resize; /* bytes > 0 */
    vram_host_free_fn *free;
} vram_host_allocator;

/**
 * Replaces malloc for the library's bookkeeping; NULL restores malloc. Only while the library
 * holds no memory, that is before the first context or after the last: otherwise VRAM_ERR_BUSY.
 */
VRAM_API vram_status vram_host_allocator_set(const vram_host_allocator *allocator);

/** Bytes of bookkeeping the library holds now, headers of its own included. */
VRAM_API uint64_t vram_host_bytes(void);

/**
 * Zeroed host memory for `count` objects of `bytes` each, from the same allocator as the
 * bookkeeping and counted with it: for libraries on top of this one. NULL, with
 * VRAM_ERR_HOST_MEMORY in the error record, when there is none or the product overflows. The second
 * gives it back; NULL is allowed.
 */
VRAM_API void *vram_host_alloc(size_t count, size_t bytes);
VRAM_API void vram_host_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
