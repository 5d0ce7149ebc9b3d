/* SPDX-License-Identifier: Apache-2.0 */
/*
 * past_cache.c: copies whose target nobody reads soon. Ordinary stores read each line of the target
 * before they write it, which is a third of the memory traffic of a large copy; streaming stores do
 * not. Where the processor has none that C can reach without further ado, it is memcpy.
 */
#include "base/os/os.h"

#include <string.h>

#if defined(__SSE2__)

#include <emmintrin.h>

enum { LINE = 64 };

/* Streaming stores are in no order with others until the fence: what is released after this call is
   so with all it wrote. */
void vr_os_copy_past_cache(void *to, const void *from, size_t bytes) {
    char *target = to;
    const char *source = from;
    size_t head = (size_t)(-(uintptr_t)target & (LINE - 1));
    head = head < bytes ? head : bytes;
    memcpy(target, source, head);
    size_t lines = (bytes - head) / LINE;
    target += head;
    source += head;
    for (size_t i = 0; i < lines; i++, target += LINE, source += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)source);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(source + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(source + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(source + 48));
        _mm_stream_si128((__m128i *)(void *)target, a);
        _mm_stream_si128((__m128i *)(void *)(target + 16), b);
        _mm_stream_si128((__m128i *)(void *)(target + 32), c);
        _mm_stream_si128((__m128i *)(void *)(target + 48), d);
    }
    _mm_sfence();
    memcpy(target, source, bytes - head - lines * LINE);
}

#else

void vr_os_copy_past_cache(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

#endif
