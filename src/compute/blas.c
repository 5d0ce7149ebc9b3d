/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c: the CPU's library for products, if there is one. */
#include "compute/gemm.h"

#include "base/error.h"
#include "base/loader.h"
#include "base/text.h"
#include "compute/setting.h"

#include <string.h>

static const char *const names[] = {"libopenblas.so.0", "libopenblas.so",    "libblis.so.4",
                                    "libblis.so.3",     "libopenblas.dylib", NULL};

static const struct vr_symbol symbols[] = {
    {"cblas_sgemm", NULL, offsetof(struct vr_blas, sgemm), false}};

void vr_blas_open(struct vr_blas *blas) {
    char path[VR_SETTING_MAX];
    const char *const chosen[] = {path, NULL};
    struct vr_library library = {0};
    struct vram_error error;
    memset(blas, 0, sizeof *blas);
    vr_setting_text("blas_library", path);
    if (strcmp(path, "none") == 0) {
        (void)vr_text_copy(blas->name, sizeof blas->name, "none, as the option blas_library asks");
        return;
    }
    vr_error_save(&error);
    vram_status status =
        vr_library_open(&library, "blas", *path ? chosen : names, symbols, 1, blas);
    (void)vr_text_copy(blas->name, sizeof blas->name,
                       status == VRAM_OK ? library.name : vram_error_get()->text);
    vr_error_restore(&error);
}
