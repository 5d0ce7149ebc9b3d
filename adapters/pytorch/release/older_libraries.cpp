/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What newer compilers and C libraries take from libraries that are newer than those PyTorch asks for. Compiled into
 * the adapters of a release (tools/torch-adapters), whose symbols have to be in glibc 2.28 and in the libstdc++ that
 * PyTorch's own libraries need. All of it is local to the adapter; names are mangled where namespace std is exported.
 */
#include <new>
#include <sstream>

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

/* GLIBCXX_3.4.26: the constructor without arguments, where it is not inlined. */
extern "C" LOCAL void _ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev(void *self) {
    new (self) std::ostringstream(std::ios_base::out);
}

/* GLIBCXX_3.4.29: str() of a stream that is moved from. A method's object is passed as a first argument is. */
extern "C" LOCAL std::string
_ZNOSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv(std::stringbuf *self) {
    std::string text = self->str();
    self->str(std::string());
    return text;
}

/* GLIBCXX_3.4.29. What `new T[n]` and allocators throw when n is too large. */
extern "C" LOCAL void _ZSt28__throw_bad_array_new_lengthv() {
    throw std::bad_array_new_length();
}
