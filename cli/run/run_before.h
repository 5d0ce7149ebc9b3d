/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_before.h: how much device memory other processes use before a program starts, by NVML.
 */
#ifndef RUN_BEFORE_H
#define RUN_BEFORE_H

#include "run_page.h"

/* Fills settings.before; leaves it empty where there is no NVML. */
void run_before_read(struct run_page *page);

#endif
