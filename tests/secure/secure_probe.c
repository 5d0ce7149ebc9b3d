/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secure_probe: uses the library as a program does and tells, as JSON, what of its environment had
 * an effect: where each option's value comes from, and which files are loaded as libraries.
 * secure_test.py makes it set-uid, or gives it a capability.
 *
 * secure_probe POOL NAME TAG MS: uses these names, whatever they are, for a pool, blocks and tags,
 * has a request refused, and prints the reports of the library. The memory stays live for MS.
 * names_test.py reads what all of it becomes.
 */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <vram/vram.h>

static int print_library(struct dl_phdr_info *info, size_t bytes, void *user) {
    int *count = user;
    (void)bytes;
    printf("%s\"%s\"", (*count)++ > 0 ? ", " : "", info->dlpi_name);
    return 0;
}

/* Memory that stays allocated: what reports leaks has one to report. */
static vram_status use_memory(void) {
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_addr addr;
    vram_status status = vram_context_create(NULL, &context);
    if (status != VRAM_OK) {
        return status;
    }
    uint32_t best = 0;
    status = vram_device_best(context, &best);
    if (status == VRAM_OK && (status = vram_device_open(context, best, &device)) == VRAM_OK &&
        (status = vram_pool_create(device, NULL, &pool)) == VRAM_OK) {
        status = vram_alloc(pool, 1000, NULL, &addr);
        usleep(300000); /* a live page has time to appear */
    }
    vram_context_destroy(context);
    return status;
}

/* -------------------------------------------------------------------------- names */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "secure_probe: %s: %s\n", vram_status_name(status), vram_error_get()->text);
        exit(2);
    }
}

static bool print_report(void *user, const char *text, size_t bytes) {
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes;
}

static int use_names(char **argv) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 8 << 20};
    vram_pool_options options = {.size = sizeof options, .name = argv[1], .limits = &limits};
    vram_alloc_options named = {.size = sizeof named, .name = argv[2], .tag = argv[3]};
    vram_oom_report report = {.size = sizeof report};
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_addr addr;
    must(vram_context_create(NULL, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_pool_create(device, &options, &pool));
    vram_status status = vram_alloc_with(pool, 1000, NULL, &named, &addr);
    if (status == VRAM_ERR_INVALID) { /* a tag has rules; the name has none */
        named.tag = NULL;
        status = vram_alloc_with(pool, 1000, NULL, &named, &addr);
    }
    must(status);
    if (vram_alloc_with(pool, 64 << 20, NULL, &named, &addr) == VRAM_OK) {
        return 2;
    }
    must(vram_oom_report_get(pool, &report));
    for (int format = VRAM_REPORT_TEXT; format <= VRAM_REPORT_JSON; format++) {
        must(vram_oom_report_write(&report, (vram_report_format)format, print_report, NULL));
        printf("\n=====\n");
    }
    fflush(stdout);
    usleep((useconds_t)strtoul(argv[4], NULL, 10) * 1000);
    vram_context_destroy(context);
    return 0;
}

int main(int argc, char **argv) {
    int libraries = 0;
    if (argc == 5) {
        return use_names(argv);
    }
    printf("{\"secure\": %lu, \"euid\": %lu, \"status\": \"%s\"", getauxval(AT_SECURE),
           (unsigned long)geteuid(), vram_status_name(use_memory()));
    printf(", \"problems\": %zu, \"options\": {", vram_option_problem(0, NULL, 0));
    for (size_t i = 0; i < vram_option_count(); i++) {
        vram_option_source source = VRAM_OPTION_FROM_DEFAULT;
        char text[256];
        vram_option_get(vram_option_at(i)->name, text, sizeof text, &source);
        printf("%s\"%s\": %d", i > 0 ? ", " : "", vram_option_at(i)->name, (int)source);
    }
    printf("}, \"libraries\": [");
    dl_iterate_phdr(print_library, &libraries);
    printf("]}\n");
    return 0;
}
