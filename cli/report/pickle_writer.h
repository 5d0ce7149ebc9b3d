/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle_writer.h: writes the operations of a pickle, protocol 4, that PyTorch's viewer reads too.
 * Its reader knows no others: no texts above 4 GiB, and whole numbers above 31 bits as LONG1.
 */
#ifndef REPORT_PICKLE_WRITER_H
#define REPORT_PICKLE_WRITER_H

#include <stdint.h>
#include <stdio.h>

void pickle_write_begin(FILE *to);
void pickle_write_end(FILE *to);

void pickle_write_dict(FILE *to); /* an empty one; then a mark, keys and values, and items */
void pickle_write_list(FILE *to);
void pickle_write_mark(FILE *to);
void pickle_write_items(FILE *to);   /* what is behind the mark goes into the dictionary */
void pickle_write_appends(FILE *to); /* and into the list */
void pickle_write_pair(FILE *to);    /* the last two values become a tuple */

void pickle_write_number(FILE *to, uint64_t number);
void pickle_write_false(FILE *to);
/* What is not UTF-8 becomes '?'. */
void pickle_write_text(FILE *to, const char *text);

/* The last value goes into the memo; one comes from there. */
void pickle_write_put(FILE *to, uint32_t memo);
void pickle_write_get(FILE *to, uint32_t memo);

#endif
