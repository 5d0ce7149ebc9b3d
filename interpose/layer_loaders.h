/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_loaders.h: whether the loaders of OpenCL and Vulkan took this library as a layer.
 */
#ifndef LAYER_LOADERS_H
#define LAYER_LOADERS_H

#include "run_page.h"

#include <stdbool.h>

/* Called when a loader loads the layer. */
void layer_loaded(enum run_api api);

/* At the end of the process: counts the loaders that are there and did not load the layer. Either
   the program never called them, or they have no layers. */
void layer_loaders_count(struct run_page *page);

#endif
