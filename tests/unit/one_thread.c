/* SPDX-License-Identifier: Apache-2.0 */
/*
 * one_thread.c: holds the tests that are ONE_THREAD in CMakeLists.txt to it. The build with
 * ThreadSanitizer leaves them out: nobody would look at a thread that one of them starts, or its
 * child, or a driver.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* In the place of the C library's, for libraries and drivers too. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *argument) {
    static const char text[] = "this test is ONE_THREAD in tests/unit/CMakeLists.txt and starts a "
                               "thread: take the word out\n";
    (void)thread;
    (void)attributes;
    (void)run;
    (void)argument;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        perror("write");
    }
    _exit(1);
}
