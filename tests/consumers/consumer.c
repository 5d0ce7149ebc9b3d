/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's program: everything it knows of libvram is the installed headers. It is compiled as
   C and as C++. */
#include <vram/vram.h>

#include <stdio.h>

int main(void) {
    vram_context_options options = {sizeof options, "host", NULL};
    vram_context *context;
    if (vram_version() != VRAM_VERSION || vram_context_create(&options, &context) != VRAM_OK) {
        printf("%s\n", vram_error_get()->text);
        return 1;
    }
    printf("libvram %s, devices: %u\n", vram_version_text(), vram_device_count(context));
    vram_context_destroy(context);
    return 0;
}
