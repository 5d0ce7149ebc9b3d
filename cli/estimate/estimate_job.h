/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate_job.h: what `vram estimate` was asked and what came out, as its parts share it.
 */
#ifndef ESTIMATE_JOB_H
#define ESTIMATE_JOB_H

#include "survey.h"
#include "verb.h"

#include <vram/model.h>

enum { ESTIMATE_DEVICES_MAX = VRAM_ESTIMATE_DEVICES_MAX, ESTIMATE_LABEL_MAX = 48 };

struct estimate_job {
    const char *path;                   /* of the model; NULL with --params */
    vram_model model;                   /* read from the path */
    vram_inference_shape shape;         /* --params */
    vram_inference_memory shape_memory; /* and what it comes to */
    vram_estimate_options options;      /* the question; devices points to the array below */
    vram_estimate_device devices[ESTIMATE_DEVICES_MAX];
    char labels[ESTIMATE_DEVICES_MAX][ESTIMATE_LABEL_MAX]; /* "cuda:0", "memory:0" */
    char names[ESTIMATE_DEVICES_MAX][128];                 /* for people; "" where there is none */
    bool free_guessed;   /* a driver does not tell what is free: four fifths of its memory */
    bool simulated;      /* a device is */
    bool fit_wanted;     /* --fit */
    bool flash;          /* for the text */
    bool guess_accepted; /* --guess */
    bool weights_given;  /* --weights */
    bool split_given;    /* --tensor-split */
    uint64_t batch;      /* -b, which changes no device's memory */
    vram_estimate estimate;
    vram_fit fit; /* solved when wanted, or when it does not fit */
    bool fit_known;
};

/* Whether the whole answer is yes. */
bool estimate_answer(const struct estimate_job *job);

/* Whether it rests on a guess: the model's family is unknown. */
bool estimate_is_guess(const struct estimate_job *job);

/* The exit code: a guess is an answer only with --guess. */
int estimate_exit(const struct estimate_job *job);

/* With --params: the device that has room, device_count: none. */
uint32_t estimate_shape_place(const struct estimate_job *job);

/* Fills devices, labels and names from --memory, or from the devices of this machine. EXIT_YES, or
   EXIT_MISUSE after one line on stderr. */
int estimate_devices_find(const struct invocation *invocation, struct estimate_job *job);

/* "2.1 GiB free on cuda:0 ..."; the line that the text ends with, without colours. */
#define ESTIMATE_VERDICT_MAX 640
const char *estimate_verdict(const struct estimate_job *job, char text[ESTIMATE_VERDICT_MAX]);

/* Assumption `index`; false past the last. */
#define ESTIMATE_ASSUMPTION_MAX 320
bool estimate_assumption(const struct estimate_job *job, size_t index,
                         char text[ESTIMATE_ASSUMPTION_MAX]);

/* Warning `index`; false past the last. */
bool estimate_warning(const struct estimate_job *job, size_t index,
                      char text[ESTIMATE_ASSUMPTION_MAX]);

void estimate_print(const struct terminal *terminal, const struct estimate_job *job);
bool estimate_write(const struct estimate_job *job);

#endif
