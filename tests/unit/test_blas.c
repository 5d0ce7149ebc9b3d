/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_blas.c: products by cuBLAS and hipBLAS, over libraries and drivers of our own (tests/fake):
 * right results, one handle for each lane that is told its stream, workspaces of the pool, every
 * symbol missing, every call failing with any code.
 */
#include "fake/fake_blas.h"
#include "fake/fake_cuda.h"
#include "unit/compute_world.h"
#include "vram/distance.h"
#include "vram/limits.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const struct kind {
    const char *backend, *driver_option, *driver, *option, *library, *control;
    bool all_types, workspaces;
    unsigned handles; /* of a scheduler with three queues */
    const char *own;  /* who computes without the library; "" nobody */
    const char *symbols[7];
} kinds[] = {
    {"cuda",
     "cuda_library",
     FAKE_CUDA_PATH,
     "cublas_library",
     FAKE_BLAS_PATH,
     "fake_cublas_control",
     true,
     true,
     3,
     "vram ptx",
     {"cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2", "cublasSgemm_v2", "cublasGemmEx",
      NULL}},
    {"hip",
     "hip_library",
     FAKE_HIP_PATH,
     "hipblas_library",
     FAKE_BLAS_PATH,
     "fake_hipblas_control",
     false,
     false,
     1,
     "",
     {"hipblasCreate", "hipblasDestroy", "hipblasSetStream", "hipblasSgemm", NULL}},
};

enum { KINDS = sizeof kinds / sizeof kinds[0], SCRATCH_MIB = 32 };

static const struct fake_blas_control *blas;
static const struct fake_cuda_control *driver;

static struct rig begin_with(const struct kind *kind, const char *library) {
    driver = control_of(kind->driver, "fake_cuda_control");
    blas = control_of(kind->library, kind->control);
    driver->reset();
    blas->reset();
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set(kind->driver_option, kind->driver));
    assert_ok(vram_option_set(kind->option, library));
    return rig_make(kind->backend, NULL);
}

/* Nothing is left of the library's, nor of the driver's, and no rule of theirs was broken. */
static void end_clean(struct rig *rig) {
    struct fake_cuda_live live;
    const char *text = "";
    blas->refuse(NULL, 0, 0, false);
    vram_context_destroy(rig->context);
    if (blas->violations(&text) || driver->violations(&text)) {
        fail_msg("a rule was broken: %s", text);
    }
    assert_int_equal(blas->handles(), 0);
    assert_int_equal(driver->depth(), 0);
    driver->live(&live);
    assert_int_equal(live.total, 0);
}

static void expect_by(vram_scheduler *scheduler, const char *name) {
    assert_string_equal(stats_of_scheduler(scheduler).device_arithmetic, name);
}

/* ---------------------------------------------------------------------- results */

TEST(right_results) {
    for (int i = 0; i < KINDS; i++) {
        struct rig rig = begin_with(&kinds[i], kinds[i].library);
        vram_pool *pool = pool_of(&rig, 0);
        vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
        int last = kinds[i].all_types ? VRAM_PRECISION_BF16 : VRAM_PRECISION_FP32;
        for (int precision = VRAM_PRECISION_FP32; precision <= last; precision++) {
            for (uint32_t flags = 0; flags < 4; flags++) {
                vram_matmul product = product_of(70, 20, 33, (vram_precision)precision);
                product.flags = flags;
                assert_ok(vram_matmul_run(scheduler, &product));
                assert_right(&product);
                product_end(&product);
            }
        }
        expect_by(scheduler, kinds[i].library);
        assert_int_equal(blas->handles(), kinds[i].handles);
        vram_matmul half = product_of(4, 4, 4, VRAM_PRECISION_FP16);
        assert_int_equal(vram_matmul_run(scheduler, &half),
                         kinds[i].all_types ? VRAM_OK : VRAM_ERR_UNSUPPORTED);
        product_end(&half);
        /* What stays is scratch memory, one block a lane, and goes with the scheduler. */
        assert_int_equal(live_in(pool), kinds[i].workspaces ? 3 : 0);
        assert_ok(vram_scheduler_destroy(scheduler));
        assert_int_equal(live_in(pool), 0);
        assert_int_equal(blas->handles(), 0);
        end_clean(&rig);
    }
}

/* Of somebody else's, in global mode, which forbids what cuBLAS does at its start. */
TEST(a_capture_goes_on) {
    int (*begin)(void *stream, int mode), (*end)(void *stream, void **graph);
    int (*destroy)(void *graph);
    struct rig rig = begin_with(&kinds[0], kinds[0].library);
    vram_pool *pool = pool_of(&rig, 0);
    vram_queue *queue;
    void *stream, *graph = NULL, *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_NOLOAD);
    void *functions[] = {dlsym(library, "cuStreamBeginCapture_v2"),
                         dlsym(library, "cuStreamEndCapture"), dlsym(library, "cuGraphDestroy")};
    memcpy(&begin, &functions[0], sizeof begin);
    memcpy(&end, &functions[1], sizeof end);
    memcpy(&destroy, &functions[2], sizeof destroy);
    assert_ok(vram_queue_create(rig.device, NULL, &queue));
    assert_ok(vram_queue_native(queue, &stream));
    assert_int_equal(begin(stream, 0), 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul product = product_of(70, 20, 33, VRAM_PRECISION_FP32);
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    product_end(&product);
    expect_by(scheduler, kinds[0].library);
    assert_int_equal(end(stream, &graph), 0);
    assert_int_equal(destroy(graph), 0);
    assert_ok(vram_scheduler_destroy(scheduler));
    end_clean(&rig);
}

/* Small and large operands, in tiles and batches, with more under way than is kept there at
   once. */
TEST(batches_and_tiles) {
    enum { COUNT = 40 };
    static const uint64_t sides[] = {20, 400}; /* 400: 640,000 bytes, which are no bounce buffer */
    for (int i = 0; i < KINDS * 2; i++) {
        uint64_t side = sides[i % 2];
        int count = side > 100 ? 3 : COUNT;
        vram_matmul products[COUNT];
        struct rig rig = begin_with(&kinds[i / 2], kinds[i / 2].library);
        vram_pool *pool = pool_of(&rig, 0);
        vram_scheduler_options options = {.size = sizeof options, .place = VRAM_PLACE_DEVICE};
        vram_scheduler *scheduler;
        options.device_bytes = side > 100 ? 700000 : 0; /* tiles */
        assert_ok(vram_scheduler_create(pool, &options, &scheduler));
        for (int p = 0; p < count; p++) {
            products[p] = product_of(side + (uint64_t)p, 30, side, 0);
            if (p) {
                free((void *)(uintptr_t)products[p].b);
                products[p].b = products[0].b;
            }
        }
        assert_ok(vram_matmul_batch(scheduler, products, (size_t)count));
        for (int p = 0; p < count; p++) {
            assert_right(&products[p]);
            if (p) {
                products[p].b = NULL;
            }
        }
        for (int p = count - 1; p >= 0; p--) {
            product_end(&products[p]);
        }
        assert_ok(vram_scheduler_destroy(scheduler));
        end_clean(&rig);
    }
}

/* The program's own queue and the scheduler's in rotation: each call has its stream, and no two
   streams share a workspace. */
TEST(streams_in_turn) {
    for (int i = 0; i < KINDS; i++) {
        struct rig rig = begin_with(&kinds[i], kinds[i].library);
        vram_scheduler_options one = {.size = sizeof one, .place = VRAM_PLACE_DEVICE, .queues = 1};
        vram_scheduler *scheduler;
        assert_ok(vram_scheduler_create(pool_of(&rig, 0), &one, &scheduler));
        vram_matmul product = product_of(40, 20, 30, 0);
        for (int turn = 0; turn < 6; turn++) {
            product.queue = turn % 2 ? rig.queue : NULL;
            memset(product.c, 0xff, 40 * 30 * sizeof(float));
            assert_ok(vram_matmul_run(scheduler, &product));
            assert_right(&product);
        }
        uint64_t told = blas->calls("set_stream");
        product.queue = NULL;
        assert_ok(vram_matmul_run(scheduler, &product)); /* the lane's again, */
        assert_ok(vram_matmul_run(scheduler, &product)); /* and still */
        assert_true(blas->calls("set_stream") > told);
        product_end(&product);
        end_clean(&rig);
    }
}

struct worker {
    vram_scheduler *scheduler;
    uint64_t seed;
};

static void *computes(void *argument) {
    const struct worker *worker = argument;
    for (uint64_t i = 0; i < 8; i++) {
        vram_matmul product = product_of(10 + worker->seed * 7, 20, 30, 0);
        assert_ok(vram_matmul_run(worker->scheduler, &product));
        assert_right(&product);
        product_end(&product);
    }
    return NULL;
}

TEST(threads_share_handles) {
    for (int i = 0; i < KINDS; i++) {
        pthread_t threads[4];
        struct worker workers[4];
        struct rig rig = begin_with(&kinds[i], kinds[i].library);
        vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_DEVICE);
        for (uint64_t t = 0; t < 4; t++) {
            workers[t] = (struct worker){scheduler, t};
            assert_int_equal(pthread_create(&threads[t], NULL, computes, &workers[t]), 0);
        }
        for (int t = 0; t < 4; t++) {
            pthread_join(threads[t], NULL);
        }
        assert_int_equal(stats_of_scheduler(scheduler).products, 32);
        assert_int_equal(blas->handles(), kinds[i].handles);
        end_clean(&rig);
    }
}

/* A pool that has no memory for scratch: cuBLAS uses its own, and the products are done all the
   same. */
TEST(a_pool_without_room) {
    struct rig rig = begin_with(&kinds[0], kinds[0].library);
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 4 * MIB};
    vram_pool_options small = {.size = sizeof small, .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig.device, &small, &pool));
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul product = product_of(40, 20, 30, 0);
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    expect_by(scheduler, kinds[0].library);
    assert_int_equal(blas->calls("set_workspace"), 0);
    assert_int_equal(live_in(pool), 0);
    product_end(&product);
    end_clean(&rig);
}

/* ---------------------------------------------------------------------- symbols */

/* A copy of the library that has a symbol under another name. */
static void make_variant(const char *from, const char *name, char path[256]) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, 256, "%s/fake_blas_XXXXXX", folder && *folder ? folder : "/tmp");
    FILE *file = fopen(from, "rb");
    int to = mkstemp(path), found = 0;
    assert_non_null(file);
    assert_true(to >= 0);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t bytes = (size_t)ftell(file), length = strlen(name) + 1;
    rewind(file);
    char *image = malloc(bytes);
    assert_non_null(image);
    assert_int_equal(fread(image, 1, bytes, file), bytes);
    fclose(file);
    for (size_t at = 1; at + length <= bytes; at++) {
        if (image[at - 1] == 0 && memcmp(image + at, name, length) == 0) {
            image[at] = '#';
            found++;
        }
    }
    assert_true(found > 0);
    assert_int_equal(write(to, image, bytes), bytes);
    free(image);
    close(to);
}

/* Without the library: by a kernel of our own, or not at all and then on the CPU where the rule may
   choose. */
static void expect_passed_over(const struct kind *kind, struct rig *rig) {
    vram_scheduler_options any = {.size = sizeof any, .threshold = 1};
    vram_scheduler *scheduler;
    vram_matmul product = product_of(40, 20, 30, 0);
    assert_ok(vram_scheduler_create(pool_of(rig, 0), &any, &scheduler));
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    expect_by(scheduler, kind->own);
    vram_scheduler_stats stats = stats_of_scheduler(scheduler);
    assert_int_equal(stats.last_place, *kind->own ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU);
    assert_true(*kind->own || stats.last_reason == VRAM_REASON_NO_ARITHMETIC);
    product.place = VRAM_PLACE_DEVICE;
    assert_int_equal(vram_matmul_run(scheduler, &product),
                     *kind->own ? VRAM_OK : VRAM_ERR_UNSUPPORTED);
    assert_int_equal(blas->handles(), 0);
    product_end(&product);
    assert_ok(vram_scheduler_destroy(scheduler));
}

TEST(every_symbol_is_missed) {
    for (int i = 0; i < KINDS; i++) {
        for (int s = 0; kinds[i].symbols[s]; s++) {
            char path[256];
            make_variant(kinds[i].library, kinds[i].symbols[s], path);
            struct rig rig = begin_with(&kinds[i], path);
            expect_passed_over(&kinds[i], &rig);
            end_clean(&rig);
            unlink(path);
        }
        struct rig rig = begin_with(&kinds[i], "/nowhere/libblas.so");
        expect_passed_over(&kinds[i], &rig);
        end_clean(&rig);
        rig = begin_with(&kinds[i], "none");
        expect_passed_over(&kinds[i], &rig);
        end_clean(&rig);
    }
}

/* An old cuBLAS, which takes no workspace, has its own. */
TEST(an_old_library) {
    char path[256];
    make_variant(kinds[0].library, "cublasSetWorkspace_v2", path);
    struct rig rig = begin_with(&kinds[0], path);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul product = product_of(40, 20, 30, 0);
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    expect_by(scheduler, path);
    assert_int_equal(live_in(pool), 0);
    product_end(&product);
    end_clean(&rig);
    unlink(path);
}

/* A cuBLAS that is found, not named, is not even loaded beside a driver that is not NVIDIA's; nor
   is one beside another driver than it would find. */
TEST(only_beside_its_driver) {
    struct rig rig = begin_with(&kinds[0], NULL);
    expect_passed_over(&kinds[0], &rig);
    end_clean(&rig);
}

/* Integers of 8 bits are multiplied as such, in 32 bits; where the GPU is too old for that, as
   halves. */
TEST(integers_of_8_bits) {
    enum { QUERIES = 3, VECTORS = 900, DIM = 21, K = 4 };
    static float query[QUERIES * DIM], corpus[VECTORS * DIM], best[2][QUERIES * K];
    static uint64_t at[2][QUERIES * K];
    for (int i = 0; i < QUERIES * DIM; i++) {
        query[i] = made_up(51, (uint64_t)i);
    }
    for (int i = 0; i < VECTORS * DIM; i++) {
        corpus[i] = made_up(52, (uint64_t)i);
    }
    for (int refused = 0; refused < 2; refused++) {
        struct rig rig = begin_with(&kinds[0], kinds[0].library);
        vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO);
        vram_distance d = {.size = sizeof d,
                           .queries = QUERIES,
                           .vectors = VECTORS,
                           .dim = DIM,
                           .query = query,
                           .corpus = corpus,
                           .precision = VRAM_PRECISION_INT8,
                           .k = K};
        for (int i = 0; i < 2; i++) {
            d.place = i ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU;
            d.best = best[i];
            d.best_at = at[i];
            if (i && refused) {
                blas->refuse("gemm_ex", 1, 15, false);
            }
            assert_ok(vram_distance_run(scheduler, &d));
        }
        assert_int_equal(blas->struck(), refused);
        assert_memory_equal(at[0], at[1], sizeof at[0]);
        assert_memory_equal(best[0], best[1], sizeof best[0]);
        end_clean(&rig);
    }
}

/* ------------------------------------------------------------------------ codes */

static const char *const calls[] = {"create", "destroy", "set_stream", "set_workspace",
                                    "sgemm",  "gemm_ex", "any"};

/* What fails under the products of a scheduler, from their first on. */
struct failure {
    enum { OF_LIBRARY, OF_DRIVER, OF_MEMORY } of;
    const char *name; /* of the call */
    uint64_t nth;
    int code;
    bool for_ever;
};

static void failure_plan(const struct failure *failure) {
    if (failure->of == OF_LIBRARY) {
        blas->refuse(failure->name, failure->nth, failure->code, failure->for_ever);
    } else if (failure->of == OF_DRIVER) {
        driver->refuse(failure->name, failure->nth, failure->code, failure->for_ever);
    } else {
        vr_mem_fail_at(failure->nth, failure->for_ever);
    }
}

/* Right products, or an error with nothing left; whether something failed. */
static bool try_failure(const struct kind *kind, struct failure failure) {
    struct rig rig = begin_with(kind, kind->library);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    bool struck = false;
    failure_plan(&failure);
    for (int precision = VRAM_PRECISION_FP32;
         precision <= (kind->all_types ? VRAM_PRECISION_FP16 : VRAM_PRECISION_FP32); precision++) {
        vram_matmul products[2] = {product_of(30, 20, 25, (vram_precision)precision),
                                   product_of(31, 20, 25, (vram_precision)precision)};
        vram_error_clear();
        vram_status status = vram_matmul_batch(scheduler, products, 2);
        struck = blas->struck() || driver->struck() || vr_mem_failed();
        if (status == VRAM_OK) {
            assert_right(&products[0]);
            assert_right(&products[1]);
        } else {
            assert_true(struck);
            assert_int_equal(vram_error_get()->status, status);
        }
        product_end(&products[0]);
        product_end(&products[1]);
    }
    vr_mem_fail_at(0, false);
    if (failure.of == OF_DRIVER) {
        driver->refuse(NULL, 0, 0, false); /* else the library could not end its handle */
        while (driver->depth()) {
            driver->pop(); /* a driver that keeps its context has it */
        }
    }
    assert_ok(vram_scheduler_destroy(scheduler));
    struck = struck || blas->struck(); /* at the end */
    assert_int_equal(live_in(pool), 0);
    if (failure.of == OF_DRIVER && kind == &kinds[1]) {
        vram_context_destroy(rig.context); /* the fake asks for the device too: nobody judges */
        assert_int_equal(blas->handles(), 0);
    } else {
        end_clean(&rig);
    }
    return struck;
}

TEST(any_call_any_code) {
    static const int codes[] = {1, 2, 3, 7, 8, 15, 9999};
    for (int i = 0; i < KINDS; i++) {
        uint64_t all = 0, nth = 1;
        for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
            for (size_t code = 0; code < sizeof codes / sizeof codes[0]; code++) {
                all += try_failure(&kinds[i],
                                   (struct failure){OF_LIBRARY, calls[c], 1, codes[code], false});
            }
            (void)try_failure(&kinds[i], (struct failure){OF_LIBRARY, calls[c], 1, 13, true});
        }
        assert_true(all > 3 * sizeof codes / sizeof codes[0]);
        while (try_failure(&kinds[i], (struct failure){OF_LIBRARY, "any", nth, 13, false})) {
            assert_true(++nth < 100); /* each call there is */
        }
        assert_true(nth > 5);
    }
}

TEST(any_host_memory) {
    for (int i = 0; i < KINDS; i++) {
        uint64_t nth = 1;
        while (try_failure(&kinds[i], (struct failure){OF_MEMORY, NULL, nth, 0, false})) {
            assert_true(++nth < 500);
        }
        assert_true(nth > 5);
    }
}

/* A call of the driver under it fails once: the first of its name, the second, the third. */
TEST(any_call_of_the_driver) {
    static const char *const names[] = {
        "cuMemcpyHtoDAsync",   "cuMemcpyDtoHAsync", "cuLaunchKernel",    "cuMemHostAlloc",
        "cuStreamGetCtx",      "cuCtxPushCurrent",  "cuCtxPopCurrent",   "cuMemCreate",
        "cuModuleLoadData",    "cuStreamQuery",     "cuStreamWaitEvent", "cuModuleGetFunction",
        "cuStreamWriteValue64"};
    unsigned all = 0;
    for (unsigned i = 0; i < 3 * sizeof names / sizeof names[0]; i++) {
        all += try_failure(&kinds[0], (struct failure){OF_DRIVER, names[i / 3], 1 + i % 3,
                                                       i % 2 ? 2 : 999, false});
    }
    assert_true(all > 15);
}

/* The runtime of HIP does not tell which device is current, or does not change that. */
TEST(no_device_is_current) {
    static const char *const names[] = {"hipGetDevice", "hipSetDevice"};
    unsigned all = 0;
    for (unsigned i = 0; i < 2 * 40; i++) {
        all += try_failure(&kinds[1],
                           (struct failure){OF_DRIVER, names[i % 2], 1 + i / 2, 101, false});
    }
    assert_true(all > 3);
}

/* Rates of a device without arithmetic cannot be measured. A device with a library for products
   but without kernels of our own gives its products to a search on the host. */
TEST(without_kernels) {
    enum { QUERIES = 3, VECTORS = 50, DIM = 8 };
    struct rig rig = begin_with(&kinds[1], "none");
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_AUTO);
    vram_error_clear();
    assert_int_equal(vram_scheduler_calibrate(scheduler, NULL), VRAM_ERR_UNSUPPORTED);
    assert_false(stats_of_scheduler(scheduler).calibrated);
    end_clean(&rig);

    rig = begin_with(&kinds[1], kinds[1].library);
    scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_DEVICE);
    float *query = matrix_of(QUERIES * DIM, VRAM_PRECISION_FP32, 1);
    float *corpus = matrix_of(VECTORS * DIM, VRAM_PRECISION_FP32, 2), best[QUERIES];
    uint64_t at[QUERIES];
    memcpy(corpus + 7 * DIM, query + 1 * DIM, DIM * sizeof *corpus);
    vram_distance distance = {.size = sizeof distance,
                              .queries = QUERIES,
                              .vectors = VECTORS,
                              .dim = DIM,
                              .query = query,
                              .corpus = corpus,
                              .k = 1,
                              .best = best,
                              .best_at = at};
    vram_error_clear();
    assert_ok(vram_distance_run(scheduler, &distance));
    assert_int_equal(at[1], 7);
    assert_true(stats_of_scheduler(scheduler).device_products > 0);
    distance.precision = VRAM_PRECISION_FP16; /* hipBLAS is asked for single precision only */
    assert_int_equal(vram_distance_run(scheduler, &distance), VRAM_ERR_UNSUPPORTED);
    free(query);
    free(corpus);
    end_clean(&rig);
}

/* No memory for the library itself: the CPU's turn where the rule decides, else an error; the next
   product asks again. */
TEST(no_memory_to_begin_with) {
    static const int codes[KINDS] = {3, 2}; /* allocation failed, in their words */
    for (int i = 0; i < KINDS; i++) {
        struct rig rig = begin_with(&kinds[i], kinds[i].library);
        vram_scheduler_options any = {.size = sizeof any, .threshold = 1};
        vram_scheduler *scheduler;
        vram_matmul product = product_of(40, 20, 30, 0);
        assert_ok(vram_scheduler_create(pool_of(&rig, 0), &any, &scheduler));
        blas->refuse("create", 1, codes[i], true);
        assert_ok(vram_matmul_run(scheduler, &product));
        assert_right(&product);
        assert_int_equal(stats_of_scheduler(scheduler).last_reason, VRAM_REASON_MEMORY);
        product.place = VRAM_PLACE_DEVICE;
        assert_int_equal(vram_matmul_run(scheduler, &product), VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(vram_error_get()->native_code, codes[i]);
        blas->refuse(NULL, 0, 0, false);
        assert_ok(vram_matmul_run(scheduler, &product));
        expect_by(scheduler, kinds[i].library);
        product_end(&product);
        end_clean(&rig);
    }
}
