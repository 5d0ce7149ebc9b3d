/* SPDX-License-Identifier: Apache-2.0 */
/* asserts.c: how a failure is told. */
#include "rig/asserts.h"

#include <inttypes.h>
#include <string.h>

void test_ints(uintmax_t is, uintmax_t other, bool equal, const char *what, const char *than,
               const char *file, int line) {
    if ((is == other) != equal) {
        test_fail(file, line,
                  "%s is %" PRIdMAX " (0x%" PRIxMAX "), %s is %" PRIdMAX " (0x%" PRIxMAX ")", what,
                  (intmax_t)is, is, than, (intmax_t)other, other);
    }
}

void test_range(uintmax_t is, uintmax_t from, uintmax_t to, const char *what, const char *file,
                int line) {
    if (is < from || is > to) {
        test_fail(file, line, "%s is %" PRIuMAX ", not between %" PRIuMAX " and %" PRIuMAX, what,
                  is, from, to);
    }
}

void test_floats(double is, double wanted, double within, const char *what, const char *file,
                 int line) {
    double above = is - wanted;
    if (!(above <= within && -above <= within)) { /* so that NaN fails */
        test_fail(file, line, "%s is %.17g, not within %g of %.17g", what, is, within, wanted);
    }
}

void test_strings(const char *is, const char *other, bool equal, const char *what, const char *file,
                  int line) {
    bool same = is == other || (is && other && strcmp(is, other) == 0);
    if (same != equal) {
        test_fail(file, line, "%s is \"%s\", %s \"%s\"", what, is ? is : "(null)",
                  equal ? "not" : "as", other ? other : "(null)");
    }
}

void test_bytes(const void *is, const void *wanted, size_t bytes, const char *what,
                const char *file, int line) {
    const unsigned char *a = is, *b = wanted;
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i]) {
            test_fail(file, line, "%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, bytes, a[i],
                      b[i]);
        }
    }
}
