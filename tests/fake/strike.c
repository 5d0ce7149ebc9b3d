/* SPDX-License-Identifier: Apache-2.0 */
/* strike.c: see strike.h. */
#include "fake/strike.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The process that called first, and whether it is past the handlers of its exit that came
   later. */
static pid_t process;
static bool exiting;

static void exit_begins(void) {
    __atomic_store_n(&exiting, true, __ATOMIC_RELEASE);
}

static void trap(const char *what) {
    static const char words[] = ": a call of the driver\n";
    if (write(STDERR_FILENO, what, strlen(what)) > 0 &&
        write(STDERR_FILENO, words, sizeof words - 1) > 0) {
        _exit(STRIKE_TRAPPED);
    }
    _exit(STRIKE_TRAPPED);
}

void strike_guard(void) {
    pid_t none = 0;
    if (!getenv("STRIKE_TRAP")) {
        return;
    }
    if (__atomic_compare_exchange_n(&process, &none, getpid(), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        atexit(exit_begins);
    } else if (none != getpid()) {
        trap("in a forked child");
    } else if (__atomic_load_n(&exiting, __ATOMIC_ACQUIRE)) {
        trap("at exit");
    }
}

unsigned strike_call(const struct strike *strike, const char *name) {
    unsigned call = 0;
    while (call < strike->count &&
           (!strike->names[call] || strcmp(strike->names[call], name) != 0)) {
        call++;
    }
    return call;
}

void strike_set(struct strike *strike, const char *name, uint64_t nth, int code, int lie,
                bool for_ever) {
    *strike = (struct strike){.names = strike->names,
                              .count = strike->count,
                              .set = name != NULL,
                              .call = name ? strike_call(strike, name) : 0,
                              .nth = nth,
                              .for_ever = for_ever,
                              .code = code,
                              .lie = lie,
                              .last = ""};
}

bool strike_set_text(struct strike *strike, const char *text) {
    char name[64] = "", rest[16] = "";
    unsigned long long nth = 0;
    int code = 0;
    if (!text || sscanf(text, "%63[^:]:%llu:%d:%15s", name, &nth, &code, rest) < 3) {
        return false;
    }
    strike_set(strike, name, nth, code, 0, strcmp(rest, "forever") == 0);
    return true;
}

bool strike_now(struct strike *strike, unsigned call) {
    strike->counts[call]++;
    strike->total++;
    if (!strike->set || (strike->call != strike->count && strike->call != call)) {
        return false;
    }
    strike->matching++;
    if (strike->matching != strike->nth && !(strike->for_ever && strike->matching > strike->nth)) {
        return false;
    }
    strike->struck++;
    strike->last = strike->names[call];
    return true;
}
