/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/ring_layout.h: how a ring lies in memory, for the host and for every kind of device.
 *
 * THE CONVENTION holds for both directions and in every form of this file:
 *
 *  (1) Producers own `head`, the consumer owns `tail`. Both count messages from 0 and never wrap.
 *      head - tail messages are in the ring: 0 is empty, `capacity` is full. No slot stays unused.
 *  (2) Message n lies in slot n & (capacity - 1); a capacity is a power of two.
 *  (3) Message n is in the ring when head > n. Its slot's `sequence` is then n + 1. Any other value
 *      is damage, and the message is not used.
 *  (4) Producers write payload and header, then `sequence`, then `head`, each visible before the
 *      next. The consumer reads head, then the slot, then raises `tail`, and does not read the slot
 *      again.
 *  (5) Each side writes only its own words, each as a whole. Head and tail of a ring lie on
 *      separate cache lines, and no such line is written by both sides.
 *  (6) The input ring carries messages to the device, the output ring from it.
 *
 * The layout, in one block of memory that begins with the control block:
 *
 *      0  +-----------------------------------------------+
 *         | control block                             128 |  host: 0..7, device: 8..31; constant
 *    128  +-----------------------------------------------+
 *         | telemetry  64 | unused                     64 |  device
 *    256  +-----------------------------------------------+
 *         | input head, input claim                   128 |  host
 *    384  +-----------------------------------------------+
 *         | input tail                                128 |  device
 *    512  +-----------------------------------------------+
 *         | output head, output claim                 128 |  device
 *    640  +-----------------------------------------------+
 *         | output tail                               128 |  host
 *    768  +-----------------------------------------------+
 *         | input slots    capacity * stride              |  host
 *         +-----------------------------------------------+
 *         | output slots   capacity * stride              |  device
 *         +-----------------------------------------------+
 *
 * A slot is a header of 32 bytes and the payload; the next one begins at a multiple of 64 bytes.
 */
#ifndef VRAM_RING_LAYOUT_H
#define VRAM_RING_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* -------------------------------------------------------------- alignment */

/** Bytes of a GPU's cache line, and of two cache lines of a CPU that are fetched together. */
#define VRAM_CACHE_LINE 128

/**
 * Puts a struct of the program, or a field, on separate cache lines.
 *   struct VRAM_CACHE_ALIGNED particle { float x, y, z; };       sizeof becomes a multiple of 128
 */
#if defined(__CUDACC__) || defined(__HIPCC__)
#define VRAM_ALIGNED(bytes) __align__(bytes)
#elif defined(__cplusplus)
#define VRAM_ALIGNED(bytes) alignas(bytes)
#else
#define VRAM_ALIGNED(bytes) __attribute__((aligned(bytes)))
#endif
#define VRAM_CACHE_ALIGNED VRAM_ALIGNED(VRAM_CACHE_LINE)

#if defined(__cplusplus)
#define VRAM_RING_ASSERT(condition, text) static_assert(condition, text)
#elif __STDC_VERSION__ >= 201112L
#define VRAM_RING_ASSERT(condition, text) _Static_assert(condition, text)
#else
#define VRAM_RING_ASSERT(condition, text) extern int vram_ring_assert_[(condition) ? 1 : -1]
#endif

/* ------------------------------------------------------------------ layout */

/** Values of `has_terminated`. */
enum {
    VRAM_RING_RUNNING = 0,
    VRAM_RING_DONE = 1,        /* the kernel has ended */
    VRAM_RING_RELAUNCHABLE = 2 /* it has ended, and the next launch continues from there */
};

/** Flags in `reserved[2]` of a control block, for the kernel. */
enum {
    VRAM_RING_FLAG_SYSTEM = 1 << 0,  /* fences reach the host, not only the device */
    VRAM_RING_FLAG_CRC = 1 << 1,     /* slots have the CRC-32 of their payload */
    VRAM_RING_FLAG_OFFSETS = 1 << 2, /* the pointers are offsets from the control block, in bytes */
    VRAM_RING_FLAG_TELEMETRY = 1 << 3,   /* the kernel measures and reports */
    VRAM_RING_FLAG_MULTI_INPUT = 1 << 4, /* several producers on the host */
    VRAM_RING_FLAG_MULTI_OUTPUT = 1 << 5 /* several producers on the device */
};

#define VRAM_RING_MAGIC UINT64_C(0x31474e4952565244) /* reserved[0] */

/** The control block: exactly 128 bytes, on a boundary of 128. */
typedef struct VRAM_CACHE_ALIGNED vram_ring_control {
    int32_t is_active;             /* host: 1 while messages may be sent */
    int32_t should_terminate;      /* host: 1 if the kernel is to end */
    int32_t has_terminated;        /* device: VRAM_RING_RUNNING, _DONE, _RELAUNCHABLE */
    int32_t errors_encountered;    /* device: messages it found damaged */
    int64_t messages_processed;    /* device: input messages handled */
    int64_t last_activity_ticks;   /* device: its clock at the last message; ns */
    uint64_t input_queue_head_ptr; /* these and all below: written once, by vram_ring_create */
    uint64_t input_queue_tail_ptr;
    uint64_t input_queue_buffer_ptr;
    int32_t input_queue_capacity;     /* messages; 0: no such ring */
    int32_t input_queue_message_size; /* bytes of the largest payload */
    uint64_t output_queue_head_ptr;
    uint64_t output_queue_tail_ptr;
    uint64_t output_queue_buffer_ptr;
    int32_t output_queue_capacity;
    int32_t output_queue_message_size;
    uint64_t reserved[4]; /* VRAM_RING_MAGIC; checksum of bytes 32..95 and 112..119; flags; 0 */
} vram_ring_control;

/** What a kernel reports: exactly 64 bytes, on a boundary of 64. The device writes all of it. */
typedef struct VRAM_ALIGNED(64) vram_ring_telemetry {
    uint64_t messages_processed;
    uint64_t messages_dropped;        /* outputs dropped because the ring was full */
    int64_t last_processed_timestamp; /* the device's clock; ns */
    int32_t queue_depth;              /* input messages that waited at the last report */
    int32_t padding_;
    uint64_t total_latency_nanos; /* from take to done, of all messages */
    uint64_t max_latency_nanos;
    uint64_t min_latency_nanos; /* 0: none yet */
    int32_t error_code;         /* a vram_ring_error; 0: none */
    int32_t padding_end_;
} vram_ring_telemetry;

/** Errors that a kernel found. */
enum {
    VRAM_RING_ERROR_NONE = 0,
    VRAM_RING_ERROR_CONTROL = 1,  /* the control block is damaged */
    VRAM_RING_ERROR_COUNTER = 2,  /* head and tail are further apart than the ring is long */
    VRAM_RING_ERROR_SEQUENCE = 3, /* a slot has the wrong message */
    VRAM_RING_ERROR_LENGTH = 4,   /* a message is longer than a slot */
    VRAM_RING_ERROR_CRC = 5       /* a payload does not match its CRC */
};

/** The words of one side of one ring, on a separate cache line. */
typedef struct VRAM_CACHE_ALIGNED vram_ring_line {
    uint64_t count; /* head or tail */
    uint64_t claim; /* producers: messages that are claimed; only with several producers */
    uint64_t padding_[14];
} vram_ring_line;

/** The header before each payload. */
typedef struct vram_ring_slot {
    uint64_t sequence; /* number of the message + 1 */
    uint64_t stamp_ns; /* the sender's clock; 0: unknown */
    uint32_t bytes;    /* of payload */
    uint32_t crc;      /* of payload, with VRAM_RING_FLAG_CRC; else 0 */
    uint32_t kind;     /* the program's own number */
    uint32_t padding_;
} vram_ring_slot;

/** Where the parts begin, in bytes from the control block. */
#define VRAM_RING_AT_TELEMETRY   128
#define VRAM_RING_AT_INPUT_HEAD  256
#define VRAM_RING_AT_INPUT_TAIL  384
#define VRAM_RING_AT_OUTPUT_HEAD 512
#define VRAM_RING_AT_OUTPUT_TAIL 640
#define VRAM_RING_AT_SLOTS       768

/** Bytes from one slot to the next. */
#define VRAM_RING_STRIDE(message_bytes)                                                            \
    (((uint64_t)(message_bytes) + sizeof(vram_ring_slot) + 63) / 64 * 64)

VRAM_RING_ASSERT(sizeof(vram_ring_control) == 128, "a control block has 128 bytes");
VRAM_RING_ASSERT(offsetof(vram_ring_control, is_active) == 0, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, should_terminate) == 4, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, has_terminated) == 8, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, errors_encountered) == 12, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, messages_processed) == 16, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, last_activity_ticks) == 24, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, input_queue_head_ptr) == 32, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, input_queue_tail_ptr) == 40, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, input_queue_buffer_ptr) == 48, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, input_queue_capacity) == 56, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, input_queue_message_size) == 60, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, output_queue_head_ptr) == 64, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, output_queue_tail_ptr) == 72, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, output_queue_buffer_ptr) == 80, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, output_queue_capacity) == 88, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, output_queue_message_size) == 92, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_control, reserved) == 96, "layout");
VRAM_RING_ASSERT(sizeof(vram_ring_telemetry) == 64, "telemetry has 64 bytes");
VRAM_RING_ASSERT(offsetof(vram_ring_telemetry, messages_dropped) == 8, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_telemetry, last_processed_timestamp) == 16, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_telemetry, queue_depth) == 24, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_telemetry, total_latency_nanos) == 32, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_telemetry, max_latency_nanos) == 40, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_telemetry, min_latency_nanos) == 48, "layout");
VRAM_RING_ASSERT(offsetof(vram_ring_telemetry, error_code) == 56, "layout");
VRAM_RING_ASSERT(sizeof(vram_ring_line) == VRAM_CACHE_LINE, "a line has 128 bytes");
VRAM_RING_ASSERT(sizeof(vram_ring_slot) == 32, "a slot's header has 32 bytes");
VRAM_RING_ASSERT(offsetof(vram_ring_slot, bytes) == 16, "layout");
#if defined(__cplusplus)
VRAM_RING_ASSERT(alignof(vram_ring_control) == 128, "a control block lies on 128 bytes");
VRAM_RING_ASSERT(alignof(vram_ring_telemetry) == 64, "telemetry lies on 64 bytes");
#elif __STDC_VERSION__ >= 201112L
VRAM_RING_ASSERT(_Alignof(vram_ring_control) == 128, "a control block lies on 128 bytes");
VRAM_RING_ASSERT(_Alignof(vram_ring_telemetry) == 64, "telemetry lies on 64 bytes");
#endif

#endif
