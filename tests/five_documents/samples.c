/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples BACKEND [PART]: every block of code of the five documents, as a program of today writes
 * it, one after the other, each on a device of its own; with PART only those whose features or
 * title it is a part of. README.md here says which block is which. Exit code 1 at the first that
 * does not hold, or that leaves anything behind.
 */
#include "sample.h"

_Noreturn void sample_failed(const char *file, int line, const char *what) {
    const vram_error *error = vram_error_get();
    printf("FAILED\n%s:%d: %s\n", file, line, what);
    if (error->status != VRAM_OK) {
        printf("last error: %s: %s\n", vram_status_name(error->status), error->text);
    }
    exit(1);
}

/* The usual start of a program. Work of the simulated devices is late, so that nobody relies on its
   being done. */
static struct sample_world sample_begin(const char *backend) {
    struct sample_world world = {.simulated = strcmp(backend, "sim") == 0};
    vram_context_options options = {.size = sizeof options,
                                    .backends = backend,
                                    .sim = "devices=2,memory=1G,real=on,lag=3,seed=5"};
    must(vram_context_create(&options, &world.context));
    must(vram_device_best(world.context, &world.index));
    must(vram_device_open(world.context, world.index, &world.device));
    must(vram_queue_create(world.device, NULL, &world.queue));
    must(vram_pool_create(world.device, NULL, &world.pool));
    return world;
}

/* No block, no breach of the driver's protocol, and no byte of bookkeeping is left. */
static void sample_end(struct sample_world *world) {
    must(vram_queue_wait(world->queue, WAIT));
    hold(sample_stats(world->pool).live_blocks == 0);
    if (world->simulated) {
        vram_sim_state state = {.size = sizeof state};
        must(vram_sim_state_get(world->context, &state));
        hold(state.violations == 0);
    }
    vram_context_destroy(world->context);
}

int main(int argc, char **argv) {
    static const struct sample *const documents[] = {s0_samples, s1_samples, s2_samples, s3_samples,
                                                     s4_samples};
    unsigned shown = 0;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: samples BACKEND [PART]\n");
        return 2;
    }
    for (size_t i = 0; i < COUNT(documents); i++) {
        for (const struct sample *sample = documents[i]; sample->run; sample++) {
            if (argc == 3 && !strstr(sample->features, argv[2]) &&
                !strstr(sample->title, argv[2])) {
                continue;
            }
            printf("%-48s %s: ", sample->title, sample->features);
            fflush(stdout);
            struct sample_world world = sample_begin(argv[1]);
            sample->run(&world);
            sample_end(&world);
            hold(vram_host_bytes() == 0);
            printf("ok\n");
            shown++;
        }
    }
    printf("%u samples on %s\n", shown, argv[1]);
    return shown == 0;
}
