/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nontemporal_copy.c: copies whose target is not read soon. Ordinary stores read each line of the
 * target before they write it, which is a third of the memory traffic of a large copy; streaming
 * stores do not. On processors without portable intrinsics for them it is memcpy.
 */
#include "base/os/os.h"

#include <string.h>

#if defined(__SSE2__)

#include <emmintrin.h>

enum { LINE = 64 };

/* Streaming stores are not ordered with others before the fence: a release after this call also
   publishes what the call wrote. */
void vr_os_copy_nontemporal(void *to, const void *from, size_t bytes) {
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

void vr_os_copy_nontemporal(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

#endif
