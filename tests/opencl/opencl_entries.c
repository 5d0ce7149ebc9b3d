/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_entries.c: the exported symbols, and the plan of calls that fail; see opencl_entries.h. */
#include "opencl/opencl_entries.h"

#include "fake/strike.h"

#include <pthread.h>
#include <stdlib.h>

static const char *const names[] = {
#define NAME(name, need, parameters, arguments)            #name,
#define NAME_MAKE(name, need, type, parameters, arguments) #name,
#define NAME_PLAIN(name)                                   #name,
    VR_OPENCL_FUNCTIONS(NAME, NAME_MAKE, NAME, NAME) OPENCL_EXTENSIONS(NAME_PLAIN)
#undef NAME
#undef NAME_MAKE
#undef NAME_PLAIN
};
_Static_assert(OPENCL_CALL_COUNT <= STRIKE_CALLS_MAX, "every call has its count");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct strike strike = {.names = names, .count = OPENCL_CALL_COUNT, .last = ""};

/* SHIM_FAIL=NAME:N:CODE[:forever] plans from outside. */
static void wake_up(void) {
    strike_set_text(&strike, getenv("SHIM_FAIL"));
}

bool opencl_strike(enum opencl_call call, vr_cl_int *code) {
    strike_guard();
    pthread_once(&once, wake_up);
    pthread_mutex_lock(&lock);
    bool struck = strike_now(&strike, call);
    *code = strike.code;
    pthread_mutex_unlock(&lock);
    return struck;
}

/* ------------------------------------------------------------------ symbols */

/* A driver that lacks an optional symbol is asked for it all the same; it then has no such
   thing. */
#define CALL(name, need, parameters, arguments)                                                    \
    OPENCL_API vr_cl_int name parameters;                                                          \
    OPENCL_API vr_cl_int name parameters {                                                         \
        vr_cl_int answer;                                                                          \
        if (opencl_strike(OPENCL_CALL_##name, &answer)) {                                          \
            return answer;                                                                         \
        }                                                                                          \
        return opencl_target()->name ? opencl_target()->name arguments : VR_CL_INVALID_OPERATION;  \
    }
#define MAKE(name, need, type, parameters, arguments)                                              \
    OPENCL_API type *name parameters;                                                              \
    OPENCL_API type *name parameters {                                                             \
        vr_cl_int answer;                                                                          \
        bool struck = opencl_strike(OPENCL_CALL_##name, &answer);                                  \
        if (struck || !opencl_target()->name) {                                                    \
            *code = struck ? answer : VR_CL_INVALID_OPERATION;                                     \
            return NULL;                                                                           \
        }                                                                                          \
        return opencl_target()->name arguments;                                                    \
    }
#define GIVE(name, need, parameters, arguments)                                                    \
    OPENCL_API void *name parameters;                                                              \
    OPENCL_API void *name parameters {                                                             \
        vr_cl_int answer;                                                                          \
        if (opencl_strike(OPENCL_CALL_##name, &answer) || !opencl_target()->name) {                \
            return NULL;                                                                           \
        }                                                                                          \
        return opencl_target()->name arguments;                                                    \
    }
/* What gives back and answers nothing cannot be seen to fail. */
#define TAKE(name, need, parameters, arguments)                                                    \
    OPENCL_API void name parameters;                                                               \
    OPENCL_API void name parameters {                                                              \
        vr_cl_int answer;                                                                          \
        (void)opencl_strike(OPENCL_CALL_##name, &answer);                                          \
        opencl_target()->name arguments;                                                           \
    }
VR_OPENCL_FUNCTIONS(CALL, MAKE, GIVE, TAKE)

/* ------------------------------------------------------------------ control */

static void control_refuse(const char *name, uint64_t nth, int code, bool for_ever) {
    pthread_mutex_lock(&lock);
    strike_set(&strike, name, nth, code, 0, for_ever);
    pthread_mutex_unlock(&lock);
}

static uint64_t control_struck(void) {
    pthread_mutex_lock(&lock);
    uint64_t struck = strike.struck;
    pthread_mutex_unlock(&lock);
    return struck;
}

static const char *control_last_call(void) {
    return strike.last;
}

static uint64_t control_calls(const char *name) {
    pthread_mutex_lock(&lock);
    unsigned call = strike_call(&strike, name);
    uint64_t calls = call == strike.count ? strike.total : strike.counts[call];
    pthread_mutex_unlock(&lock);
    return calls;
}

const struct opencl_control *opencl_control(void) {
    static const struct opencl_control control = {.refuse = control_refuse,
                                                  .struck = control_struck,
                                                  .last_call = control_last_call,
                                                  .calls = control_calls};
    return &control;
}
