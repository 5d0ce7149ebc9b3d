/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.h: the command's only way to a variable of the environment. A command that is
 * set-uid, set-gid or has file capabilities runs with rights that whoever set its variables may not
 * have: it finds none of them set, as the library does.
 */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include <stdlib.h>
#include <unistd.h>

static inline const char *environment_get(const char *name) {
#ifdef __APPLE__
    return issetugid() ? NULL : getenv(name);
#else
    return secure_getenv(name);
#endif
}

#endif
