/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"
bool serve_alloc(cuda_addr *addr, size_t bytes, void *pool, void *stream, const void *caller,
                 int *code) {
    (void)addr;
    (void)bytes;
    (void)pool;
    (void)stream;
    (void)caller;
    (void)code;
    return false;
}
bool serve_free_async(cuda_addr addr, void *stream, int *code) {
    (void)addr;
    (void)stream;
    (void)code;
    return false;
}
bool serve_free(cuda_addr addr, int *code) {
    (void)addr;
    (void)code;
    return false;
}
void serve_pool_created(void *pool, const void *props) {
    (void)pool;
    (void)props;
}
void serve_pool_ends(void *pool) {
    (void)pool;
}
bool serve_pool_trim(void *pool, size_t keep, int *code) {
    (void)pool;
    (void)keep;
    (void)code;
    return false;
}
bool serve_pool_attribute(void *pool, int attribute, void *value, bool set, int *code) {
    (void)pool;
    (void)attribute;
    (void)value;
    (void)set;
    (void)code;
    return false;
}
void serve_stream_ends(void *stream) {
    (void)stream;
}
