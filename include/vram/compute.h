/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/compute.h: products of matrices, on the CPU or on a device, with memory from a pool.
 * Includes vram/distance.h and vram/labels.h; link libvram-compute.
 *
 *   vram_scheduler_create(pool, NULL, &scheduler);
 *   vram_matmul product = {.size = sizeof product, .m = m, .k = k, .n = n, .a = a, .b = b, .c = c};
 *   vram_matmul_run(scheduler, &product);                     c = a * b
 *   vram_matmul_start(scheduler, &product, &async);           the same, without waiting
 *   vram_matmul_batch(scheduler, products, count);            many, with transfers and work
 *                                                             overlapped
 *   vram_scheduler_destroy(scheduler);
 *
 * Where a product runs is decided by a rule that can be read, set and asked for
 * (vram_matmul_plan_get, and vram_scheduler_stats.last_reason):
 *
 *   1. What the program asks for (vram_place) is done, or refused.
 *   2. A device that is no GPU, and one that nothing here computes on, leaves the CPU.
 *   3. Operands that lie on the device (weights, addresses) are used there.
 *   4. m <= 1 runs on the CPU: sending B costs more than using it once.
 *   5. After a calibration: where the measured rates say that it is done sooner.
 *   6. Otherwise on the device from m * k * n >= threshold (262,144 unless set), below it on the
 *      CPU.
 *
 * All device memory comes from the pool and goes back in the order of the queues: the second
 * product of a shape finds all of it in the pool's caches. What is larger than the device's memory
 * or limits is done by tiles. When device memory runs out all the same, the tiles become smaller
 * and at last the CPU does it.
 *
 * The arithmetic is that of the libraries that are there: OpenBLAS or BLIS, cuBLAS, hipBLAS,
 * CLBlast, each found at run time; without them that of kernels of libvram's own (none for HIP).
 * Sums are of single precision. All calls may be made from any thread.
 */
#ifndef VRAM_COMPUTE_H
#define VRAM_COMPUTE_H

#include <vram/async.h>
#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_scheduler vram_scheduler;
typedef struct vram_weights vram_weights; /* a matrix that stays where products need it */

/** The threshold of the rule, unless set: 64 * 64 * 64 multiplications. */
#define VRAM_MATMUL_THRESHOLD UINT64_C(262144)

/** Where a product is to run. */
typedef enum vram_place {
    VRAM_PLACE_AUTO = 0,  /* by the rule */
    VRAM_PLACE_CPU = 1,   /* on the CPU */
    VRAM_PLACE_DEVICE = 2 /* on the pool's device, whatever kind of device it is */
} vram_place;

/** Why a product runs where it does: X(NAME, value, "text"). */
#define VRAM_REASON_MAP(X)                                                                         \
    X(NONE, 0, "there was no product yet")                                                         \
    X(ASKED, 1, "the program asked for it")                                                        \
    X(NO_GPU, 2, "the device is no GPU")                                                           \
    X(NO_ARITHMETIC, 3, "nothing here computes on the device")                                     \
    X(RESIDENT, 4, "an operand lies on the device")                                                \
    X(ONE_ROW, 5, "m is at most 1")                                                                \
    X(MEASURED, 6, "measured rates say that it is done sooner there")                              \
    X(SMALL, 7, "m * k * n is below the threshold")                                                \
    X(LARGE, 8, "m * k * n reaches the threshold")                                                 \
    X(MEMORY, 9, "device memory ran out, for the smallest tiles too")

typedef enum vram_reason {
#define VRAM_REASON_ENUM(NAME, value, text) VRAM_REASON_##NAME = (value),
    VRAM_REASON_MAP(VRAM_REASON_ENUM)
#undef VRAM_REASON_ENUM
} vram_reason;

/** One clause for people; "unknown" for a number that is none. Static storage. */
VRAM_API const char *vram_reason_text(vram_reason reason);

/* ----------------------------------------------------------------- schedulers */

/**
 * What a calibration measures of a machine. Plain data: a program may keep it and give it to its
 * next scheduler. All zero: not measured.
 */
typedef struct vram_calibration {
    size_t size;           /* sizeof(vram_calibration) */
    double cpu_rate;       /* multiplications a second on the CPU */
    double device_rate;    /* the same on the device */
    double upload_rate;    /* bytes a second to the device */
    double download_rate;  /* bytes a second from it */
    double device_seconds; /* that the smallest product takes there */
} vram_calibration;

typedef enum vram_scheduler_flag {
    VRAM_SCHEDULER_NO_FALLBACK = 1 << 0, /* out of device memory is an error, not the CPU's turn */
    VRAM_SCHEDULER_ANY_DEVICE = 1 << 1   /* the rule takes a device that is a CPU for a GPU */
} vram_scheduler_flag;

typedef struct vram_scheduler_options {
    size_t size;           /* sizeof(vram_scheduler_options) */
    vram_place place;      /* for products that do not say; AUTO: by the rule */
    uint32_t flags;        /* of vram_scheduler_flag */
    uint64_t threshold;    /* of the rule; 0: VRAM_MATMUL_THRESHOLD */
    uint32_t queues;       /* that work is spread over, 1 to 8; 0: 3. One where OpenCL's device is
                              the CPU */
    uint32_t cpu_threads;  /* most threads of libvram's own CPU kernel, 1 to 16; 0: one for each
                              processor. A BLAS has its own settings */
    uint64_t device_bytes; /* most device memory that the tiles of one product take; 0: as much as
                              its device, its pool and their limits have */
    const vram_calibration *calibration; /* measured before; copied; NULL: none */
} vram_scheduler_options;

/**
 * A scheduler for the pool's device. It has queues of its own and no memory before it is used.
 * Cheap: but make one for many products, not one for each. It is its pool's, and ends with it at
 * the latest.
 */
VRAM_API vram_status vram_scheduler_create(vram_pool *pool, const vram_scheduler_options *options,
                                           vram_scheduler **scheduler);

/**
 * Ends it with its weights. Products in other threads finish or fail, those that were started and
 * have not begun are VRAM_ERR_SHUTDOWN. NULL is allowed, a second call is VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_scheduler_destroy(vram_scheduler *scheduler);

/**
 * Measures the rates of this machine (some 100 ms) and keeps them in a file, so that the next
 * scheduler with the same device, processor, libraries and version of libvram, in this program or
 * another of the user's, finds them there. The option calibration_cache names the folder, or off;
 * without it that is vram in $XDG_CACHE_HOME or ~/.cache. Once for a scheduler: later calls tell
 * what is known. From then on the rule goes by them. VRAM_ERR_UNSUPPORTED for a simulated device,
 * whose time is not the host's, and where nothing computes on the device. calibration may be NULL.
 */
VRAM_API vram_status vram_scheduler_calibrate(vram_scheduler *scheduler,
                                              vram_calibration *calibration);

/* ------------------------------------------------------------------- weights */

typedef enum vram_matmul_flag {
    VRAM_MATMUL_TRANSPOSED_A = 1 << 0, /* A is stored as k x m */
    VRAM_MATMUL_TRANSPOSED_B = 1 << 1  /* B is stored as n x k */
} vram_matmul_flag;

/** A matrix B for many products. */
typedef struct vram_weights_options {
    size_t size;              /* sizeof(vram_weights_options) */
    uint64_t k, n;            /* its shape in products */
    const void *b;            /* k * n elements, row by row; read before the call returns */
    uint64_t b_elements;      /* how many there are at b; 0: not said, k * n are believed */
    vram_precision precision; /* FP32 (also for 0), FP16 or BF16 */
    uint32_t flags;           /* VRAM_MATMUL_TRANSPOSED_B or 0 */
} vram_weights_options;

/**
 * Copies the matrix to the device, where products find it until it is destroyed: the one way to
 * keep an operand there, since host memory may change between two products. It lies in host memory
 * where the scheduler computes on the CPU alone, and where device memory ran out and falling back
 * is allowed.
 */
VRAM_API vram_status vram_weights_create(vram_scheduler *scheduler,
                                         const vram_weights_options *options,
                                         vram_weights **weights);

/** Lets go of it, after products that use it. NULL is allowed, a second call is VRAM_ERR_STALE. */
VRAM_API vram_status vram_weights_destroy(vram_weights *weights);

/* ------------------------------------------------------------------- products */

/**
 * C = A * B, with m x k and k x n elements and m x n results, all row by row without gaps. Each
 * operand is in host memory or at an address of the scheduler's device (then on the device, by
 * `queue`); B may be weights instead.
 */
typedef struct vram_matmul {
    size_t size; /* sizeof(vram_matmul) */
    uint64_t m, k, n;
    const void *a, *b;                /* host memory; NULL: see below */
    float *c;                         /* host memory; NULL: c_addr */
    uint64_t a_elements, b_elements;  /* at a and b; 0: not said, else compared with the shape */
    uint64_t c_elements;              /* at c, the same */
    vram_addr a_addr, b_addr, c_addr; /* on the device, where a, b or c is NULL */
    vram_weights *weights;            /* in the place of b and b_addr */
    vram_precision precision;         /* of A and B: FP32 (also for 0), FP16 or BF16 */
    uint32_t flags;                   /* of vram_matmul_flag */
    vram_place place;                 /* for this product; AUTO: as the scheduler says */
    /* that operands on the device are used on; NULL: one of the scheduler's own, the program has
       waited for them */
    vram_queue *queue;
} vram_matmul;

/**
 * Computes a product and waits for it. VRAM_ERR_INVALID for shapes of 0, lengths that are not those
 * of the shape (both numbers in the text), operands that are missing or twice there, addresses with
 * less than the matrix behind them (as far as copies look: vram/transfer.h), a C that shares memory
 * with A or B, weights of another shape or scheduler; VRAM_ERR_OVERFLOW for sizes beyond 64 bits.
 * After a failure C holds nothing of use, and no memory is kept. VRAM_ERR_TIMEOUT alone says that
 * the device did not come to an end within the option wait_timeout: it may still read A and B and
 * write C.
 */
VRAM_API vram_status vram_matmul_run(vram_scheduler *scheduler, const vram_matmul *product);

/**
 * The same without waiting, on a thread of the scheduler's. Host memory must stay as it is until
 * the handle is ready; what went wrong arrives there. What is wrong with the product itself is told
 * at once.
 */
VRAM_API vram_status vram_matmul_start(vram_scheduler *scheduler, const vram_matmul *product,
                                       vram_async *async);

/**
 * Computes many products and waits for all, in any order. Uploads, products and downloads of
 * different ones overlap over the scheduler's queues. Operands B that are the same memory in
 * consecutive products are sent once; results are those of vram_matmul_run, bit for bit. None may
 * write what another reads. The first failure is the answer, and names the number of its product;
 * the others may be done or not.
 */
VRAM_API vram_status vram_matmul_batch(vram_scheduler *scheduler, const vram_matmul *products,
                                       size_t count);

/** What would become of a product. */
typedef struct vram_matmul_plan {
    size_t size;             /* in: sizeof(vram_matmul_plan) of the caller */
    vram_place place;        /* CPU or DEVICE */
    vram_reason reason;      /* why */
    uint64_t tile_m, tile_n; /* rows and columns of C that are computed at once */
    uint64_t tiles;          /* how many that are; 1 on the CPU */
    uint64_t device_bytes; /* of one tile and its operands, without what is on the device already */
} vram_matmul_plan;

/** Looks a product up in the rule; nothing is computed, and no operand is looked at. */
VRAM_API vram_status vram_matmul_plan_get(vram_scheduler *scheduler, const vram_matmul *product,
                                          vram_matmul_plan *plan);

/**
 * Loads the device's library or kernel and computes one product of zeros of that shape, so that the
 * first real one finds code, memory and queues ready.
 */
VRAM_API vram_status vram_matmul_warm_up(vram_scheduler *scheduler, uint64_t m, uint64_t k,
                                         uint64_t n);

/* ----------------------------------------------------------------- statistics */

/** What a scheduler has done, and what it goes by. */
typedef struct vram_scheduler_stats {
    size_t size;                          /* in: sizeof(vram_scheduler_stats) of the caller */
    uint64_t products;                    /* computed */
    uint64_t cpu_products;                /* of these, on the CPU */
    uint64_t device_products;             /* of these, on the device */
    uint64_t cpu_fallbacks;               /* of cpu_products, for want of device memory */
    uint64_t failures;                    /* products that failed */
    uint64_t tiles;                       /* computed on the device */
    uint64_t uploads, uploaded_bytes;     /* operands and parts of them */
    uint64_t downloads, downloaded_bytes; /* results and parts of them */
    uint64_t hits,
        misses;      /* blocks for operands and results: of memory that the pool held already, or
                              that it had to get; three for a product by itself */
    double hit_rate; /* hits / (hits + misses), 0 to 1; 0 before the first */
    uint64_t shared_operands;       /* times that a batch did not send B again */
    uint64_t shrinks;               /* times that tiles became smaller for want of memory */
    uint64_t pending;               /* started and not done */
    uint64_t threshold;             /* of the rule */
    bool calibrated;                /* the rule goes by measured rates */
    vram_place last_place;          /* where the last product ran */
    vram_reason last_reason;        /* and why */
    uint64_t weights, weight_bytes; /* live */
    const char
        *cpu_arithmetic; /* "libopenblas.so.0", "vram avx2"; static storage or the scheduler's */
    const char
        *device_arithmetic; /* "libcublas.so.12", "vram ptx"; "" before it is needed, or none */
    uint64_t pool_hits, pool_misses; /* of the pool: served by a cache of the thread's, or not */
    uint64_t pool_reserved_bytes;    /* of the pool: taken from the driver */
    uint64_t pool_driver_allocs;     /* times that the pool asked the driver for memory */
} vram_scheduler_stats;

VRAM_API vram_status vram_scheduler_stats_get(vram_scheduler *scheduler,
                                              vram_scheduler_stats *stats);

/** What VRAM_AUTO(vram_scheduler) and VRAM_AUTO(vram_weights) call: see vram/auto.h. */
VRAM_AUTO_HANDLE_(vram_scheduler, vram_scheduler_destroy)
VRAM_AUTO_HANDLE_(vram_weights, vram_weights_destroy)

#ifdef __cplusplus
}
#endif

#include <vram/distance.h>
#include <vram/labels.h>

#endif
