/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/compute.h: matrix products on the CPU or on a device, with memory from a pool. Includes
 * vram/distance.h and vram/labels.h; link libvram-compute.
 *
 *   vram_scheduler_create(NULL, NULL, &scheduler);            on the best device
 *   vram_matmul product = {.size = sizeof product, .m = m, .k = k, .n = n, .a = a, .b = b, .c = c};
 *   vram_matmul_run(scheduler, &product);                     c = a * b
 *   vram_matmul_start(scheduler, &product, &async);           the same, without waiting
 *   vram_async_result_get(&async, &result);                   (float *)result is c once it is ready
 *   vram_matmul_batch(scheduler, products, count);            many, with transfers and work
 *                                                             overlapped
 *   vram_scheduler_destroy(scheduler);
 *
 * A fixed rule decides where a product runs. The program can override it (vram_place), ask for its
 * decision (vram_matmul_plan_get) and read its last reason (vram_scheduler_stats.last_reason):
 *
 *   1. If the program chose a place (vram_place), the product runs there or fails.
 *   2. If the device is a CPU and no operand lies on it, or if nothing can compute such a product
 *      there, the CPU.
 *   3. If an operand lies on the device (weights, addresses), the device.
 *   4. If m <= 1, the CPU: uploading B costs more than using it once.
 *   5. After a calibration, the side that finishes sooner by the measured rates.
 *   6. If m * k * n >= threshold (262,144 unless set), the device, else the CPU.
 *
 * All device memory comes from the pool and is freed in stream order: the second product of a shape
 * gets all of it from the pool's caches. A product that is larger than the device's memory or
 * limits is computed in tiles. If device memory runs out all the same, the tiles become smaller,
 * and if the smallest do not fit, the CPU computes the product.
 *
 * OpenBLAS or BLIS, cuBLAS, hipBLAS and CLBlast do the arithmetic if they are found at run time.
 * Without them libvram's own kernels do (there are none for HIP). Sums have single precision. All
 * calls may be made from any thread.
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
    X(NO_GPU, 2, "the device is not a GPU")                                                        \
    X(NO_ARITHMETIC, 3, "nothing here computes on the device")                                     \
    X(RESIDENT, 4, "an operand lies on the device")                                                \
    X(ONE_ROW, 5, "m is at most 1")                                                                \
    X(MEASURED, 6, "measured rates say that it is done sooner there")                              \
    X(SMALL, 7, "m * k * n is below the threshold")                                                \
    X(LARGE, 8, "m * k * n reaches the threshold")                                                 \
    X(MEMORY, 9, "device memory ran out, even for the smallest tiles")

typedef enum vram_reason {
#define VRAM_REASON_ENUM(NAME, value, text) VRAM_REASON_##NAME = (value),
    VRAM_REASON_MAP(VRAM_REASON_ENUM)
#undef VRAM_REASON_ENUM
} vram_reason;

/** A clause in English; "unknown" if the value is not a reason. Static storage. */
VRAM_API const char *vram_reason_text(vram_reason reason);

/* ----------------------------------------------------------------- schedulers */

/**
 * What a calibration measures. Plain data: a program may store it and pass it to its next
 * scheduler. All zero: not measured.
 */
typedef struct vram_calibration {
    size_t size;           /* sizeof(vram_calibration) */
    double cpu_rate;       /* multiplications per second on the CPU */
    double device_rate;    /* the same on the device */
    double upload_rate;    /* bytes per second to the device */
    double download_rate;  /* bytes per second from it */
    double device_seconds; /* time of the smallest product there */
} vram_calibration;

typedef enum vram_scheduler_flag {
    VRAM_SCHEDULER_NO_FALLBACK = 1 << 0, /* fail if device memory runs out, do not use the CPU */
    VRAM_SCHEDULER_ANY_DEVICE = 1 << 1   /* the rule treats a CPU device like a GPU */
} vram_scheduler_flag;

typedef struct vram_scheduler_options {
    size_t size;           /* sizeof(vram_scheduler_options) */
    vram_place place;      /* of products whose place is AUTO; AUTO: by the rule */
    uint32_t flags;        /* of vram_scheduler_flag */
    uint64_t threshold;    /* of the rule; 0: VRAM_MATMUL_THRESHOLD */
    uint32_t queues;       /* how many share the work, 1 to 8; 0: 3. Always one if the device is
                              a CPU of OpenCL */
    uint32_t cpu_threads;  /* most threads of libvram's own CPU kernel, 1 to 16; 0: one per
                              processor. A BLAS has its own settings */
    uint64_t device_bytes; /* most device memory for the tiles of one product; 0: as much as the
                              device, the pool and their limits allow */
    const vram_calibration *calibration; /* measured earlier; copied; NULL: none */
} vram_scheduler_options;

/**
 * Creates a scheduler for the pool's device. It creates queues, and takes no memory before its
 * first use. Use one scheduler for many products. It belongs to its pool, and destroying the pool
 * destroys it.
 *
 * Without a pool (NULL) it makes all it needs: a context, the device that vram_device_best names, a
 * pool and queues, with the options of the environment. They end with the scheduler. This is for
 * programs that use nothing else of libvram; with a pool of the program's own, operands may lie on
 * the device, and limits can be set. vram_scheduler_destroy then computes what was started before
 * it returns; handles that failed must be asked before, because their context ends with it.
 */
VRAM_API vram_status vram_scheduler_create(vram_pool *pool, const vram_scheduler_options *options,
                                           vram_scheduler **scheduler);

/**
 * Destroys the scheduler and its weights. Products that run on other threads finish or fail; those
 * that were started and have not begun fail with VRAM_ERR_SHUTDOWN. NULL is allowed. A second call
 * returns VRAM_ERR_STALE. Where cuBLAS computed, its end waits for the whole device, which ends
 * captures of any stream: call it outside of them.
 */
VRAM_API vram_status vram_scheduler_destroy(vram_scheduler *scheduler);

/**
 * Measures the rates of this machine (about 100 ms); the rule uses them from then on. They are
 * saved in a file, from which later schedulers load them, also in other programs of the same user,
 * if device, processor, libraries and version of libvram are the same. The option calibration_cache
 * names the folder, or is "off"; the default is vram in $XDG_CACHE_HOME or ~/.cache. A scheduler
 * measures once: later calls only return the rates. VRAM_ERR_UNSUPPORTED for a simulated device,
 * whose clock is not the host's, and if nothing can compute on the device. `calibration` may be
 * NULL.
 */
VRAM_API vram_status vram_scheduler_calibrate(vram_scheduler *scheduler,
                                              vram_calibration *calibration);

/* ------------------------------------------------------------------- weights */

typedef enum vram_matmul_flag {
    VRAM_MATMUL_TRANSPOSED_A = 1 << 0, /* A is stored as k x m */
    VRAM_MATMUL_TRANSPOSED_B = 1 << 1  /* B is stored as n x k */
} vram_matmul_flag;

/** A matrix B that many products use. */
typedef struct vram_weights_options {
    size_t size;              /* sizeof(vram_weights_options) */
    uint64_t k, n;            /* its shape in products */
    const void *b;            /* k * n elements, row by row; read before the call returns */
    uint64_t b_elements;      /* length of b, checked against k * n; 0: not checked */
    vram_precision precision; /* FP32 (also for 0), FP16 or BF16 */
    uint32_t flags;           /* VRAM_MATMUL_TRANSPOSED_B or 0 */
} vram_weights_options;

/**
 * Copies the matrix to the device, where products use it until it is destroyed. This is the only
 * way to keep an operand on the device, because host memory may change between two products. The
 * copy lies in host memory if the scheduler computes on the CPU only, or if device memory runs out
 * and fallback is allowed.
 */
VRAM_API vram_status vram_weights_create(vram_scheduler *scheduler,
                                         const vram_weights_options *options,
                                         vram_weights **weights);

/**
 * Destroys the weights after the products that use them. NULL is allowed. A second call returns
 * VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_weights_destroy(vram_weights *weights);

/* ------------------------------------------------------------------- products */

/**
 * C = A * B. A has m x k elements, B k x n and C m x n, all row by row without gaps. Each operand
 * lies in host memory or at an address of the scheduler's device; with an address, the product runs
 * on the device, in the order of `queue`. B may be weights instead.
 */
typedef struct vram_matmul {
    size_t size; /* sizeof(vram_matmul) */
    uint64_t m, k, n;
    const void *a, *b;                /* host memory; NULL: see below */
    float *c;                         /* host memory; NULL: c_addr */
    uint64_t a_elements, b_elements;  /* lengths, checked against the shape; 0: not checked */
    uint64_t c_elements;              /* the same */
    vram_addr a_addr, b_addr, c_addr; /* on the device, if a, b or c is NULL */
    vram_weights *weights;            /* instead of b and b_addr */
    vram_precision precision;         /* of A and B: FP32 (also for 0), FP16 or BF16 */
    uint32_t flags;                   /* of vram_matmul_flag */
    vram_place place;                 /* of this product; AUTO: the scheduler's */
    /* On which the operands on the device are used. NULL: a queue of the scheduler; the program
       has waited for work that writes them. */
    vram_queue *queue;
} vram_matmul;

/**
 * Computes a product and waits for it. After a failure the contents of C are undefined, and no
 * memory is kept.
 *
 *   VRAM_ERR_INVALID   a dimension is 0; a length does not match the shape (the text has both
 *                      numbers); an operand is missing, or given twice; less than a matrix lies at
 *                      an address (checked as for copies: vram/transfer.h); C shares memory with A
 *                      or B; the weights have another shape or scheduler.
 *   VRAM_ERR_OVERFLOW  a size does not fit in 64 bits.
 *   VRAM_ERR_TIMEOUT   the device did not finish within the option wait_timeout. Only then may it
 *                      still read A and B and write C.
 */
VRAM_API vram_status vram_matmul_run(vram_scheduler *scheduler, const vram_matmul *product);

/**
 * Starts a product on a thread of the scheduler and returns. Host memory must stay unchanged until
 * the handle is ready. Invalid arguments are returned at once; failures during the computation are
 * in the handle. Its result is the product: vram_async_result_get never waits, and gives the first
 * element of C (the pointer `c`, or c_addr) once C is complete, VRAM_ERR_NOT_READY before, and the
 * failure after one. A product that waits for its turn takes 248 bytes of host memory.
 */
VRAM_API vram_status vram_matmul_start(vram_scheduler *scheduler, const vram_matmul *product,
                                       vram_async *async);

/**
 * Computes many products, in any order, and waits for all. Uploads, products and downloads overlap
 * on the scheduler's queues. If consecutive products have the same memory as B, it is uploaded
 * once. Results equal those of vram_matmul_run bit for bit. No product may write what another
 * reads. After a failure the call returns the first error, whose text has the index of the product;
 * any of the others may have been computed or not.
 */
VRAM_API vram_status vram_matmul_batch(vram_scheduler *scheduler, const vram_matmul *products,
                                       size_t count);

/** How a product would be computed. */
typedef struct vram_matmul_plan {
    size_t size;             /* in: sizeof(vram_matmul_plan) of the caller */
    vram_place place;        /* CPU or DEVICE */
    vram_reason reason;      /* why */
    uint64_t tile_m, tile_n; /* rows and columns of C that are computed at once */
    uint64_t tiles;          /* their number; 1 on the CPU */
    uint64_t device_bytes; /* for one tile and its operands, without those on the device already */
} vram_matmul_plan;

/** Applies the rule to a product. Nothing is computed, and no operand is read. */
VRAM_API vram_status vram_matmul_plan_get(vram_scheduler *scheduler, const vram_matmul *product,
                                          vram_matmul_plan *plan);

/**
 * Loads the device's library or kernel and computes one product of zeros of that shape, so that the
 * first real product finds code, memory and queues ready.
 */
VRAM_API vram_status vram_matmul_warm_up(vram_scheduler *scheduler, uint64_t m, uint64_t k,
                                         uint64_t n);

/* ----------------------------------------------------------------- statistics */

/** What a scheduler has done, and the settings it uses. */
typedef struct vram_scheduler_stats {
    size_t size;                          /* in: sizeof(vram_scheduler_stats) of the caller */
    uint64_t products;                    /* computed */
    uint64_t cpu_products;                /* of these, on the CPU */
    uint64_t device_products;             /* of these, on the device */
    uint64_t cpu_fallbacks;               /* of cpu_products, because device memory ran out */
    uint64_t failures;                    /* products that failed */
    uint64_t tiles;                       /* computed on the device */
    uint64_t uploads, uploaded_bytes;     /* operands and parts of them */
    uint64_t downloads, downloaded_bytes; /* results and parts of them */
    /* Blocks for operands and results: in memory that the pool held already, or that it had to get
       from the driver. A single product has three. */
    uint64_t hits, misses;
    double hit_rate;                /* hits / (hits + misses), 0 to 1; 0 before the first */
    uint64_t shared_operands;       /* times that a batch did not upload B again */
    uint64_t shrinks;               /* times that tiles were made smaller because memory ran out */
    uint64_t pending;               /* started and not finished */
    uint64_t threshold;             /* of the rule */
    bool calibrated;                /* the rule uses measured rates */
    vram_place last_place;          /* where the last product ran */
    vram_reason last_reason;        /* and why */
    uint64_t weights, weight_bytes; /* live */
    /* "libopenblas.so.0", "vram avx2"; static storage or the scheduler's */
    const char *cpu_arithmetic;
    /* "libcublas.so.12", "vram ptx"; "" before it is needed, or if there is none */
    const char *device_arithmetic;
    uint64_t pool_hits, pool_misses; /* of the pool: see vram_pool_stats */
    uint64_t pool_reserved_bytes;    /* of the pool: taken from the driver */
    uint64_t pool_driver_allocs;     /* times that the pool asked the driver for memory */
} vram_scheduler_stats;

VRAM_API vram_status vram_scheduler_stats_get(vram_scheduler *scheduler,
                                              vram_scheduler_stats *stats);

/** VRAM_AUTO(vram_scheduler) and VRAM_AUTO(vram_weights) call these: see vram/auto.h. */
VRAM_AUTO_HANDLE_(vram_scheduler, vram_scheduler_destroy)
VRAM_AUTO_HANDLE_(vram_weights, vram_weights_destroy)

#ifdef __cplusplus
}
#endif

#include <vram/distance.h>
#include <vram/labels.h>

#endif
