/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secure_probe: uses the library as a program does and tells, as JSON, what of its environment had
 * an effect: where each option's value comes from, and which files are loaded as libraries.
 * secure_test.py makes it set-uid, or gives it a capability.
 */
#include <link.h>
#include <stdio.h>
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

int main(void) {
    int libraries = 0;
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
