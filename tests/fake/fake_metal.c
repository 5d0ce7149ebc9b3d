/* SPDX-License-Identifier: Apache-2.0 */
/* fake_metal.c: the runtime: classes, selectors, the way of a message, autorelease pools, the fault
   plan. */
#include "fake/fake_metal.h"
#include "fake/strike.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

pthread_mutex_t fake_metal_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_metal_changed = PTHREAD_COND_INITIALIZER;

/* ------------------------------------------------------------------- tables */

static const char *const selectors[VR_METAL_MESSAGE_COUNT] = {
#define SELECTOR(name, selector, returns, parameters) selector,
    VR_METAL_MESSAGES(SELECTOR)
#undef SELECTOR
};

static void (*const functions[VR_METAL_MESSAGE_COUNT])(void) = {
#define FUNCTION(name, selector, returns, parameters) (void (*)(void)) fake_metal_##name,
    VR_METAL_MESSAGES(FUNCTION)
#undef FUNCTION
};

/* Messages, then functions; what a plan may name. */
static const char *const names[] = {
#define NAME(name, selector, returns, parameters) #name,
    VR_METAL_MESSAGES(NAME)
#undef NAME
#define NAME(symbol, returns, parameters) #symbol,
        VR_METAL_FUNCTIONS(NAME)
#undef NAME
};

enum { NAME_COUNT = sizeof names / sizeof names[0] };

/* --------------------------------------------------------------------- plan */

static struct strike plan = {.names = names, .count = NAME_COUNT, .last = ""};
static uint64_t violations;
static const char *first_violation = "";
static long live;
/* Static storage of threads: what a library that was loaded late has otherwise is freed behind the
   back of checkers of races. */
#define THREAD _Thread_local __attribute__((tls_model("initial-exec")))

static THREAD int commit_code;

uint64_t fake_metal_setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

void fake_metal_violation(const char *text) {
    if (!violations++) {
        first_violation = text;
    }
}

int fake_metal_commit_code(void) {
    return commit_code;
}

/* What counts references, looks on, or gives nothing back cannot fail. */
static bool may_fail(unsigned call) {
    static const char *const safe[] = {
        "retain",
        "release",
        "responds",
        "utf8",
        "error_code",
        "error_text",
        "set_size",
        "set_storage",
        "set_type",
        "set_hazards",
        "encode_signal",
        "encode_wait",
        "add_completed",
        "buffer_error",
        "copy_buffer",
        "fill_buffer",
        "set_pipeline",
        "set_buffer",
        "set_bytes",
        "dispatch",
        "end_encoding",
        "objc_msgSend",
        "objc_autoreleasePoolPush",
        "objc_autoreleasePoolPop",
    };
    for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++) {
        if (strcmp(safe[i], names[call]) == 0) {
            return false;
        }
    }
    return true;
}

static bool struck(unsigned call) {
    static bool read;
    strike_guard();
    pthread_mutex_lock(&fake_metal_lock);
    if (!read) {
        read = true;
        strike_set_text(&plan, getenv("FAKE_METAL_FAIL"));
    }
    bool hit = may_fail(call) && strike_now(&plan, call);
    commit_code = 0;
    if (hit && call == VR_METAL_commit) {
        commit_code = plan.code ? plan.code : VR_MTL_INTERNAL;
        hit = false; /* it is made, and ends badly */
    }
    pthread_mutex_unlock(&fake_metal_lock);
    return hit;
}

static unsigned function_number(const char *name) {
    return strike_call(&plan, name);
}

/* ------------------------------------------------------------------ objects */

struct fake_object *fake_metal_object(enum fake_kind kind, size_t bytes,
                                      void (*end)(struct fake_object *)) {
    struct fake_object *object = calloc(1, bytes);
    object->kind = kind;
    object->refs = 1;
    object->end = end;
    pthread_mutex_lock(&fake_metal_lock);
    live++;
    pthread_mutex_unlock(&fake_metal_lock);
    return object;
}

void fake_metal_keep(void *pointer) {
    struct fake_object *object = pointer;
    pthread_mutex_lock(&fake_metal_lock);
    object->refs++;
    pthread_mutex_unlock(&fake_metal_lock);
}

void fake_metal_drop(void *pointer) {
    struct fake_object *object = pointer;
    pthread_mutex_lock(&fake_metal_lock);
    bool last = --object->refs == 0;
    live -= last;
    pthread_mutex_unlock(&fake_metal_lock);
    if (last) {
        if (object->end) {
            object->end(object);
        }
        object->kind = FAKE_GONE;
        free(object);
    }
}

bool fake_metal_is(const void *pointer, enum fake_kind kind) {
    const struct fake_object *object = pointer;
    if (!object || object->kind != kind) {
        pthread_mutex_lock(&fake_metal_lock);
        fake_metal_violation("an object of another kind than the message needs");
        pthread_mutex_unlock(&fake_metal_lock);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ messages */

/* What nobody receives, or was struck, gives nothing: 0 in both registers that a result may be
   in. */
static struct vr_mtl_size_and_align nothing(void) {
    return (struct vr_mtl_size_and_align){0, 0};
}

/* Called by objc_msgSend with its first two arguments; what it answers is jumped to. */
void (*fake_metal_lookup(void *receiver, const char *const *selector))(void);
void (*fake_metal_lookup(void *receiver, const char *const *selector))(void) {
    unsigned message = (unsigned)(selector - selectors);
    if (!receiver || struck(message)) {
        return (void (*)(void))nothing;
    }
    return functions[message];
}

/* The registers of all arguments are kept, so that the function finds them, and what lies on the
   stack stays where it is. */
#if defined(__x86_64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, @function\nobjc_msgSend:\n"
        "  endbr64\n"
        "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push %rax\n"
        "  call fake_metal_lookup@PLT\n"
        "  mov %rax, %r11\n"
        "  pop %rax\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
        "  jmp *%r11\n.size objc_msgSend, .-objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, %function\nobjc_msgSend:\n"
        "  stp x0, x1, [sp, #-96]!\n  stp x2, x3, [sp, #16]\n  stp x4, x5, [sp, #32]\n"
        "  stp x6, x7, [sp, #48]\n  stp x8, x30, [sp, #64]\n"
        "  bl fake_metal_lookup\n"
        "  mov x16, x0\n"
        "  ldp x8, x30, [sp, #64]\n  ldp x6, x7, [sp, #48]\n  ldp x4, x5, [sp, #32]\n"
        "  ldp x2, x3, [sp, #16]\n  ldp x0, x1, [sp], #96\n"
        "  br x16\n.size objc_msgSend, .-objc_msgSend\n");
#else
#error "objc_msgSend is a few instructions of assembly; add those of this processor"
#endif

EXPORT vr_mtl_selector sel_registerName(const char *name);
vr_mtl_selector sel_registerName(const char *name) {
    if (struck(function_number("sel_registerName"))) {
        return NULL;
    }
    for (int i = 0; i < VR_METAL_MESSAGE_COUNT; i++) {
        if (strcmp(selectors[i], name) == 0) {
            return (vr_mtl_selector)(uintptr_t)&selectors[i];
        }
    }
    return NULL;
}

EXPORT vr_mtl_id objc_getClass(const char *name);
vr_mtl_id objc_getClass(const char *name) {
    static struct fake_object classes[2] = {{FAKE_CLASS, 1, NULL}, {FAKE_CLASS, 1, NULL}};
    static const char *const known[2] = {"MTLHeapDescriptor", "NSString"};
    for (int i = 0; !struck(function_number("objc_getClass")) && i < 2; i++) {
        if (strcmp(known[i], name) == 0) {
            return &classes[i];
        }
    }
    return NULL;
}

EXPORT vr_mtl_id MTLCopyAllDevices(void);
vr_mtl_id MTLCopyAllDevices(void) {
    return struck(function_number("MTLCopyAllDevices")) ? NULL : fake_metal_devices();
}

EXPORT void *_NSConcreteStackBlock[32];
void *_NSConcreteStackBlock[32];

vr_mtl_id fake_metal_retain(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    fake_metal_keep(receiver);
    return receiver;
}

void fake_metal_release(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    fake_metal_drop(receiver);
}

bool fake_metal_responds(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_selector asked) {
    (void)message;
    const struct fake_object *object = receiver;
    switch ((const char *const *)asked - selectors) {
    case VR_METAL_gpu_address:
        return fake_metal_tells_addresses();
    case VR_METAL_queue_create:
        return object->kind == FAKE_DEVICE;
    case VR_METAL_command_buffer:
        return object->kind == FAKE_QUEUE;
    default:
        return true;
    }
}

/* --------------------------------------------------------- autorelease pools */

struct waiting {
    struct waiting *next;
    void *object; /* NULL: here a pool begins */
};

static THREAD struct waiting *pools;

static void push(void *object) {
    struct waiting *waiting = malloc(sizeof *waiting);
    *waiting = (struct waiting){pools, object};
    pools = waiting;
}

EXPORT void *objc_autoreleasePoolPush(void);
void *objc_autoreleasePoolPush(void) {
    push(NULL);
    return pools;
}

EXPORT void objc_autoreleasePoolPop(void *pool);
void objc_autoreleasePoolPop(void *pool) {
    for (bool last = false; !last && pools;) {
        struct waiting *waiting = pools;
        pools = waiting->next;
        last = waiting == pool;
        if (waiting->object) {
            fake_metal_drop(waiting->object);
        }
        free(waiting);
    }
}

vr_mtl_id fake_metal_later(vr_mtl_id object) {
    if (!pools) {
        pthread_mutex_lock(&fake_metal_lock);
        fake_metal_violation("an object was autoreleased outside all pools: it leaks");
        pthread_mutex_unlock(&fake_metal_lock);
    }
    push(object);
    return object;
}

/* ------------------------------------------------------------------ control */

static void set_plan(const char *name, uint64_t nth, int code, bool for_ever) {
    pthread_mutex_lock(&fake_metal_lock);
    strike_set(&plan, name, nth, code, 0, for_ever);
    pthread_mutex_unlock(&fake_metal_lock);
}

static uint64_t get_struck(void) {
    pthread_mutex_lock(&fake_metal_lock);
    uint64_t count = plan.struck;
    pthread_mutex_unlock(&fake_metal_lock);
    return count;
}

static const char *get_last_call(void) {
    return plan.last;
}

static uint64_t get_calls(const char *name) {
    pthread_mutex_lock(&fake_metal_lock);
    unsigned call = strike_call(&plan, name);
    uint64_t count = call == plan.count ? plan.total : plan.counts[call];
    pthread_mutex_unlock(&fake_metal_lock);
    return count;
}

static long get_live(void) {
    pthread_mutex_lock(&fake_metal_lock);
    long count = live;
    pthread_mutex_unlock(&fake_metal_lock);
    return count;
}

static uint64_t get_violations(const char **text) {
    pthread_mutex_lock(&fake_metal_lock);
    uint64_t count = violations;
    *text = first_violation;
    pthread_mutex_unlock(&fake_metal_lock);
    return count;
}

void fake_metal_hold(bool held);

EXPORT extern const struct fake_metal_control fake_metal_control;
const struct fake_metal_control fake_metal_control = {
    set_plan, get_struck, get_last_call, get_calls, get_live, get_violations, fake_metal_hold,
};
