/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delay.h: places where a test may delay a thread, so that another thread runs between two of its
 * steps.
 *
 * Debug builds (VR_DEBUG) have such a place before every atomic change that other threads depend on
 * (base/atomic.h), before each lock and after each unlock (base/lock.c), around each driver call
 * (device/ops.c) and before each short sleep (base/clock.c). That is every step of publishing,
 * retiring and ending an object. VR_DELAY_POINT marks further places by hand. Release builds have
 * none of it.
 */
#ifndef VR_DELAY_H
#define VR_DELAY_H

/* Called on any thread of the process, perhaps with locks of the library held: it may sleep, and
   calls nothing of the library. `place` is static text. */
typedef void vr_delay_fn(const char *place);

/* Calls `hook` at every place from now on; NULL: no hook. Does nothing in release builds. */
void vr_delay_hook_set(vr_delay_fn *hook);

#ifdef VR_DEBUG
void vr_delay_point(const char *place);
#define VR_DELAY_POINT(place) vr_delay_point(place)
#else
#define VR_DELAY_POINT(place) ((void)0)
#endif

#endif
