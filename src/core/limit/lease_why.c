/* SPDX-License-Identifier: Apache-2.0 */
/* lease_why.c: why other processes gave less than they were asked for, in words. */
#include "core/limit/limit.h"

static const struct {
    const char *name, *text;
} whys[] = {
#define ROW(NAME, value, name, text) [value] = {name, text},
    VRAM_LEASE_WHY_MAP(ROW)
#undef ROW
};

enum { WHY_COUNT = sizeof whys / sizeof whys[0] };

const char *vr_lease_why_name(vram_lease_why why) {
    return (unsigned)why < WHY_COUNT ? whys[why].name : "unknown";
}

const char *vr_lease_why_text(vram_lease_why why) {
    return (unsigned)why < WHY_COUNT ? whys[why].text : "unknown";
}

const char *vram_lease_why_name(vram_lease_why why) {
    return vr_lease_why_name(why);
}

const char *vram_lease_why_text(vram_lease_why why) {
    return vr_lease_why_text(why);
}
