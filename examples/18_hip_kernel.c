/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 18_hip_kernel: y = a * x + y on an AMD GPU, with memory from a pool. A code object is made for
 * one kind of GPU, so this program reads the one for yours:
 *
 *     hipcc --genco --offload-arch=gfx942 examples/shaders/saxpy.hip -o saxpy.co
 *     build/examples/18_hip_kernel saxpy.co
 *
 * Addresses are device pointers as they are. Not run on hardware yet.
 */
#include "saxpy.h"

int main(int argc, char **argv) {
    static char code[1 << 20];
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: 18_hip_kernel CODE_OBJECT\n");
        return 2;
    }
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_HSACO,
                                       .code = code,
                                       .code_bytes = fread(code, 1, sizeof code, file),
                                       .entry = "saxpy"};
    fclose(file);
    return saxpy("hip", &source);
}
