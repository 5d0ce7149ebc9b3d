/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_litmus.c: small programs whose outcomes under C11 are known. Each scenario collects its
 * outcomes over all executions; explore_main.c compares them with those that must be found, and
 * those alone. So a model that is too strong, or too weak, shows.
 */
#include "explore_litmus.h"

static vr_atomic_u32 x, y, z;
static unsigned plain;
static unsigned seen[4];

static void outcome_note(void) {
    explore_outcome(seen[0] | seen[1] << 2 | seen[2] << 4 | seen[3] << 6);
}

/* --------------------------------------------- storing, then loading the other */

static void relaxed_store_load_x(void) {
    vr_store(&x, 1, VR_RELAXED);
    seen[0] = vr_load(&y, VR_RELAXED);
}

static void relaxed_store_load_y(void) {
    vr_store(&y, 1, VR_RELAXED);
    seen[1] = vr_load(&x, VR_RELAXED);
}

static void sequential_store_load_x(void) {
    vr_store(&x, 1, VR_SEQ_CST);
    seen[0] = vr_load(&y, VR_SEQ_CST);
}

static void sequential_store_load_y(void) {
    vr_store(&y, 1, VR_SEQ_CST);
    seen[1] = vr_load(&x, VR_SEQ_CST);
}

/* A thread without a barrier of its own, and one that makes it for both. */
static void barrier_store_load_y(void) {
    vr_store(&y, 1, VR_RELAXED);
    explore_barrier();
    seen[1] = vr_load(&x, VR_RELAXED);
}

/* ------------------------------------------------------------------ a message */

static void message_send(void) {
    vr_store(&x, 1, VR_RELAXED);
    vr_store(&y, 1, VR_RELEASE);
}

static void message_send_relaxed(void) {
    vr_store(&x, 1, VR_RELAXED);
    vr_store(&y, 1, VR_RELAXED);
}

static void message_receive(void) {
    seen[0] = vr_load(&y, VR_ACQUIRE);
    seen[1] = vr_load(&x, VR_RELAXED);
}

/* A third thread changes the flag: what it carries is passed on. */
static void message_change(void) {
    uint32_t one = 1;
    if (vr_cas(&y, &one, 2, VR_RELAXED)) {
        seen[2] = 1;
    }
}

/* ------------------------------------------------- two stores each, crosswise */

static void crosswise_x_y(void) {
    vr_store(&x, 1, VR_RELAXED);
    vr_store(&y, 2, VR_RELAXED);
}

static void crosswise_y_x(void) {
    vr_store(&y, 1, VR_RELAXED);
    vr_store(&x, 2, VR_RELAXED);
}

static void crosswise_y_x_release(void) {
    vr_store(&y, 1, VR_RELAXED);
    vr_store(&x, 2, VR_RELEASE);
}

static void last_values_note(void) {
    seen[0] = vr_load(&x, VR_RELAXED);
    seen[1] = vr_load(&y, VR_RELAXED);
    outcome_note();
}

/* -------------------------------------------------------------- one location */

static void coherent_write(void) {
    vr_store(&x, 1, VR_RELAXED);
    vr_store(&x, 2, VR_RELAXED);
}

static void coherent_read(void) {
    seen[0] = vr_load(&x, VR_RELAXED);
    seen[1] = vr_load(&x, VR_RELAXED);
}

static void counter_add(void) {
    vr_fetch_add(&x, 1, VR_RELAXED);
}

static void counter_note(void) {
    seen[0] = vr_load(&x, VR_RELAXED);
    outcome_note();
}

/* ------------------------------------------------------- a store that is late */

static void late_flag_send(void) {
    vr_store(&x, 2, VR_RELAXED);
    vr_store(&y, 1, VR_RELAXED);
}

static void late_flag_change(void) {
    seen[0] = vr_load(&y, VR_RELAXED);
    seen[1] = vr_fetch_add(&x, 1, VR_RELAXED);
}

/* ------------------------------------------------------------ three threads */

static void chain_first(void) {
    vr_store(&x, 1, VR_RELAXED);
}

static void chain_second(void) {
    seen[0] = vr_load(&x, VR_RELAXED);
    vr_store(&y, seen[0], VR_RELEASE);
}

static void chain_third(void) {
    seen[1] = vr_load(&y, VR_ACQUIRE);
    seen[2] = vr_load(&x, VR_RELAXED);
}

/* ------------------------------------------------------------------- waiting */

static void flag_set(void) {
    plain = 3;
    vr_store(&z, 1, VR_RELEASE);
}

static void flag_wait(void) {
    while (!vr_load(&z, VR_ACQUIRE)) {
        explore_yield();
    }
    seen[0] = plain;
}

#define OUTCOME(a, b, c) (UINT64_C(1) << ((a) | (b) << 2 | (c) << 4))

const struct litmus litmus_tests[] = {
    {{"litmus",
      "store buffering",
      NULL,
      {relaxed_store_load_x, relaxed_store_load_y},
      outcome_note,
      0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 1, 0) | OUTCOME(1, 0, 0) | OUTCOME(1, 1, 0)},
    {{"litmus",
      "store buffering, seq_cst",
      NULL,
      {sequential_store_load_x, sequential_store_load_y},
      outcome_note,
      0},
     OUTCOME(0, 1, 0) | OUTCOME(1, 0, 0) | OUTCOME(1, 1, 0)},
    {{"litmus",
      "store buffering, seq_cst in one",
      NULL,
      {sequential_store_load_x, relaxed_store_load_y},
      outcome_note,
      0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 1, 0) | OUTCOME(1, 0, 0) | OUTCOME(1, 1, 0)},
    {{"litmus",
      "store buffering, barrier",
      NULL,
      {relaxed_store_load_x, barrier_store_load_y},
      outcome_note,
      0},
     OUTCOME(0, 1, 0) | OUTCOME(1, 0, 0) | OUTCOME(1, 1, 0)},
    {{"litmus", "message passing", NULL, {message_send, message_receive}, outcome_note, 0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 1, 0) | OUTCOME(1, 1, 0)},
    {{"litmus",
      "message passing, relaxed",
      NULL,
      {message_send_relaxed, message_receive},
      outcome_note,
      0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 1, 0) | OUTCOME(1, 0, 0) | OUTCOME(1, 1, 0)},
    {{"litmus",
      "message passing, release sequence",
      NULL,
      {message_send, message_receive, message_change},
      outcome_note,
      0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 1, 0) | OUTCOME(1, 1, 0) | OUTCOME(0, 0, 1) | OUTCOME(0, 1, 1) |
         OUTCOME(1, 1, 1) | OUTCOME(2, 1, 1)},
    {{"litmus", "two stores each", NULL, {crosswise_x_y, crosswise_y_x}, last_values_note, 0},
     OUTCOME(1, 1, 0) | OUTCOME(1, 2, 0) | OUTCOME(2, 1, 0) | OUTCOME(2, 2, 0)},
    {{"litmus",
      "two stores each, release",
      NULL,
      {crosswise_x_y, crosswise_y_x_release},
      last_values_note,
      0},
     OUTCOME(1, 1, 0) | OUTCOME(1, 2, 0) | OUTCOME(2, 1, 0) | OUTCOME(2, 2, 0)},
    {{"litmus", "coherence", NULL, {coherent_write, coherent_read}, outcome_note, 0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 1, 0) | OUTCOME(0, 2, 0) | OUTCOME(1, 1, 0) | OUTCOME(1, 2, 0) |
         OUTCOME(2, 2, 0)},
    {{"litmus", "counter", NULL, {counter_add, counter_add, counter_add}, counter_note, 0},
     OUTCOME(3, 0, 0)},
    {{"litmus", "a late store", NULL, {late_flag_send, late_flag_change}, outcome_note, 0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 2, 0) | OUTCOME(1, 0, 0) | OUTCOME(1, 2, 0)},
    {{"litmus", "causality", NULL, {chain_first, chain_second, chain_third}, outcome_note, 0},
     OUTCOME(0, 0, 0) | OUTCOME(0, 0, 1) | OUTCOME(1, 0, 0) | OUTCOME(1, 0, 1) | OUTCOME(1, 1, 1)},
    {{"litmus", "waiting", NULL, {flag_set, flag_wait}, outcome_note, 0}, OUTCOME(3, 0, 0)},
    {{.name = NULL}, 0}};
