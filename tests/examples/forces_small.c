/* SPDX-License-Identifier: Apache-2.0 */
/* forces_small.c: examples/forces as small as it gets, for example_faults.c. */
#include "forces/forces.h"

int example_forces_small(void);

int example_forces_small(void) {
    struct forces_options options = {.nodes = FORCES_NODES_MIN + 500, .steps = 2};
    return forces_run(&options);
}
