/* SPDX-License-Identifier: Apache-2.0 */
/* memory_leaver.c: an example that leaves a context behind, for memory_left.c to find. */
#include <vram/vram.h>

static vram_context *context; /* reachable: no leak to LeakSanitizer */

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    return vram_context_create(&options, &context) == VRAM_OK ? 0 : 2;
}
