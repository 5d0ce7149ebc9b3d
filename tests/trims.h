/* SPDX-License-Identifier: Apache-2.0 */
/* trims.h: the options of a trim as tests write them: TRIM(.flags = VRAM_TRIM_CACHES). */
#ifndef TEST_TRIMS_H
#define TEST_TRIMS_H

#include <vram/pool.h>

#define TRIM(...) (&(vram_trim_options){.size = sizeof(vram_trim_options), __VA_ARGS__})

#endif
