/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forces.c: lays out a graph that grows, on any device that runs kernels, and holds every frame
 * against a reference. See README.md beside it.
 */
#include "forces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: forces [--nodes N] [--steps N] [--backend NAME] [--code FILE] [--careless]\n"
    "              [--report]\n"
    "  --nodes N       nodes at the end, 1000 to 4194304 (16000)\n"
    "  --steps N       steps at each size, and as many frames, 1 to 1000000 (6)\n"
    "  --backend NAME  host, sim, cuda, hip, opencl, vulkan or metal (the best device)\n"
    "  --code FILE     the code object for hip\n"
    "  --careless      read frames back too early, to see that this is found\n"
    "  --report        also times, buffers and the tracker's peak\n";

/* A number within its limits, or 0. */
static uint32_t number(const char *text, uint32_t low, uint32_t high) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && value >= low && value <= high ? (uint32_t)value
                                                                                  : 0;
}

/* The whole file, or NULL. */
static void *read_file(const char *path, size_t *bytes) {
    enum { FILE_MAX = 1 << 22 };
    FILE *file = fopen(path, "rb");
    void *code = file ? malloc(FILE_MAX) : NULL;
    if (code) {
        *bytes = fread(code, 1, FILE_MAX, file);
    }
    if (file) {
        fclose(file);
    }
    return code;
}

int main(int argc, char **argv) {
    struct forces_options options = {.nodes = 16000, .steps = 6};
    if (!getenv("VRAM_SIM")) {
        options.sim = "real=on"; /* kernels need memory that the host can touch */
    }
    void *code = NULL;
    bool good = true;
    for (int i = 1; good && i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--report") == 0) {
            options.report = true;
            continue;
        }
        if (strcmp(argv[i], "--careless") == 0) {
            options.careless = true;
            continue;
        }
        if (strcmp(argv[i], "--nodes") == 0) {
            good = (options.nodes = number(value, FORCES_NODES_MIN, FORCES_NODES_MAX)) > 0;
        } else if (strcmp(argv[i], "--steps") == 0) {
            good = (options.steps = number(value, 1, 1000000)) > 0;
        } else if (strcmp(argv[i], "--backend") == 0) {
            good = *(options.backend = value) != 0;
        } else if (strcmp(argv[i], "--code") == 0) {
            free(code);
            good = (options.code = code = read_file(value, &options.code_bytes)) != NULL;
        } else {
            good = false;
        }
        i++;
    }
    if (!good) {
        fputs(usage, stderr);
    }
    int exit_code = good ? forces_run(&options) : 2;
    free(code);
    return exit_code;
}
