/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_reader.h: traces from files: the library's own (docs/trace-format.md), told by their first
 * bytes, and CSV text.
 *
 *   op,id,bytes,stream,t_us[,thread]      the header; the column thread may be left out
 *   a,ID,BYTES,STREAM,T                   allocates
 *   f,ID,,[STREAM],T                      frees, on the block's own stream or on another
 *   u,ID,[BYTES],STREAM,T                 STREAM writes the block's first BYTES, or all of it
 *
 * All are whole numbers; ids, streams and threads are names and may be any. Lines end with \n or
 * \r\n; empty ones are skipped. An id may be used again once its block was freed. What was not
 * freed is live at the end.
 */
#ifndef REPLAY_TRACE_READER_H
#define REPLAY_TRACE_READER_H

#include "trace_ops.h"
#include "trace_source.h"

/*
 * Reads a file, or standard input for "-". False, nothing to free, and one line in `problem` that
 * names the file, the line or offset, and what is wrong with it.
 */
bool trace_read(const char *path, struct trace *trace, char problem[TRACE_PROBLEM_MAX]);

/* The same of one GPU of a snapshot alone, numbered from 1; 0 is all. trace->gpus says which there
   are. */
bool trace_read_gpu(const char *path, uint32_t gpu, struct trace *trace,
                    char problem[TRACE_PROBLEM_MAX]);

/* The same from a source that is open and of which nothing was read; it is closed in either
   case. */
bool trace_read_source(const char *name, struct trace_source *source, struct trace *trace,
                       char problem[TRACE_PROBLEM_MAX]);

/* The same from memory; `name` stands for the path. */
bool trace_read_memory(const char *name, const void *text, size_t bytes, struct trace *trace,
                       char problem[TRACE_PROBLEM_MAX]);

#endif
