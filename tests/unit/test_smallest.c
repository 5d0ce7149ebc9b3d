/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_smallest.c: the suite of `vram check` on a backend that does what it must and no more.
 */
#include "check/suite.h"
#include "rig/rig.h"
#include "vram/vram.h"

#include <stdio.h>

TEST(what_a_backend_must_do_is_enough) {
    vram_context_options options = {.size = sizeof options, .backends = "smallest"};
    const struct check_target target = {.options = &options};
    const struct check_case *which;
    int passed = 0, failed = 0;
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        struct check_result result;
        check_run(which, &target, &result);
        passed += result.outcome == CHECK_PASSED;
        if (result.outcome == CHECK_FAILED || result.outcome == CHECK_ERRORED) {
            printf("%s: %s\n", which->name, result.reason);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
    assert_true(passed > 0);
}
