/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h: what our declarations of an interface and its owner's have in common, for the compiler. */
#ifndef TEST_LINT_ABI_H
#define TEST_LINT_ABI_H

#include <stdbool.h>
#include <stddef.h>

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)

/* Structs of one size, with so many pairs of fields. */
#define LAYOUT(ours, theirs, ...)                                                                  \
    SAME(sizeof(struct ours), sizeof(theirs));                                                     \
    LAYOUT_FIELDS(ours, theirs, __VA_ARGS__, )
#define LAYOUT_FIELDS(ours, theirs, count, ...) FIELDS_##count(ours, theirs, __VA_ARGS__)

/* So many pairs of fields, ours and theirs, each at the same place and of the same size. What comes
   behind them is left. */
#define FIELDS_0(ours, theirs, ...) SAME(0, 0)
#define FIELDS_1(ours, theirs, our_field, their_field, ...)                                        \
    SAME(offsetof(struct ours, our_field), offsetof(theirs, their_field));                         \
    SAME(sizeof((struct ours *)0)->our_field, sizeof((theirs *)0)->their_field)
#define FIELDS_2(ours, theirs, a, b, ...)                                                          \
    FIELDS_1(ours, theirs, a, b);                                                                  \
    FIELDS_1(ours, theirs, __VA_ARGS__)
#define FIELDS_3(ours, theirs, a, b, ...)                                                          \
    FIELDS_1(ours, theirs, a, b);                                                                  \
    FIELDS_2(ours, theirs, __VA_ARGS__)
#define FIELDS_4(ours, theirs, a, b, ...)                                                          \
    FIELDS_1(ours, theirs, a, b);                                                                  \
    FIELDS_3(ours, theirs, __VA_ARGS__)
#define FIELDS_5(ours, theirs, a, b, ...)                                                          \
    FIELDS_1(ours, theirs, a, b);                                                                  \
    FIELDS_4(ours, theirs, __VA_ARGS__)
#define FIELDS_6(ours, theirs, a, b, ...)                                                          \
    FIELDS_1(ours, theirs, a, b);                                                                  \
    FIELDS_5(ours, theirs, __VA_ARGS__)
#define FIELDS_7(ours, theirs, a, b, ...)                                                          \
    FIELDS_1(ours, theirs, a, b);                                                                  \
    FIELDS_6(ours, theirs, __VA_ARGS__)

#endif
