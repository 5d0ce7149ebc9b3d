/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What newer compilers and C libraries take from libraries that are newer than those PyTorch asks for. Compiled into
 * the adapters of a release (tools/torch-adapters), whose symbols have to be in glibc 2.28 and in the libstdc++ that
 * PyTorch's own libraries need. All of it is local to the adapter.
 */
#include <new>

#define LOCAL __attribute__((visibility("hidden")))

/* glibc 2.34 moved dlsym from libdl into libc, under a version of its own; the older one stayed. With RTLD_DEFAULT,
   the only use here, it does not matter who calls it. */
#if defined(__x86_64__)
#define FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_GLIBC "GLIBC_2.17"
#else
#error "PyTorch has no CUDA for this architecture"
#endif
extern "C" void *vr_first_dlsym(void *library, const char *name);
__asm__(".symver vr_first_dlsym, dlsym@" FIRST_GLIBC);
extern "C" LOCAL void *dlsym(void *library, const char *name) {
    return vr_first_dlsym(library, name);
}

/* glibc 2.32. With 0, shared_ptr counts atomically, as it did before. */
extern "C" {
LOCAL char __libc_single_threaded = 0;
}

/* GLIBCXX_3.4.29. What `new T[n]` and allocators throw when n is too large. */
namespace std {
LOCAL void __throw_bad_array_new_length() {
    throw bad_array_new_length();
}
} // namespace std
