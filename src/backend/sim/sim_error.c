/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_error.c: the one table from the simulated driver's codes to statuses, contract (4) of
 * backend.h. VR_SIM_CODE_MAP (sim_config.h) is the list.
 */
#include "backend/sim/sim_backend.h"

static const struct {
    int32_t code;
    const char *text;
    vram_status status;
} codes[] = {
#define ROW(NAME, name, status) {VRAM_SIM_##NAME, name, status},
    VR_SIM_CODE_MAP(ROW)
#undef ROW
};

enum { CODE_COUNT = sizeof codes / sizeof codes[0] };

vram_status vr_sim_status_of(int32_t code) {
    for (unsigned i = 0; i < CODE_COUNT; i++) {
        if (codes[i].code == code) {
            return codes[i].status;
        }
    }
    return VRAM_ERR_BACKEND;
}

const char *vr_sim_code_text(int32_t code) {
    for (unsigned i = 0; i < CODE_COUNT; i++) {
        if (codes[i].code == code) {
            return codes[i].text;
        }
    }
    return "an unknown code";
}
