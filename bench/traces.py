#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes up allocation traces, so that a policy found on the recorded ones is tried on others.

    bench/traces.py FOLDER [--seeds N]     one KIND-SEED.csv for each kind and seed

Each kind is a program in miniature; sizes, lengths and order come from the seed, and the same seed gives
the same trace everywhere. The format is that of traces/ (op,id,bytes,stream,t_us).
"""

import argparse
import pathlib
import random

KIB, MIB = 1 << 10, 1 << 20


class Program:
    """Allocations and frees on a clock: work takes 6 us for each MB it touches, and some for itself."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.rows, self.sizes, self.clock = [], {}, 0.0

    def alloc(self, size):
        name = len(self.sizes)
        size = max(1, int(size))
        self.sizes[name] = size
        self.clock += self.random.uniform(15, 60) + size * 6e-6
        self.rows.append(f"a,{name},{size},0,{int(self.clock)}")
        return name

    def free(self, name):
        self.clock += 1
        self.rows.append(f"f,{name},,,{int(self.clock)}")

    def free_all(self, names):
        for name in names:
            self.free(name)
        names.clear()

    def pause(self, us):
        self.clock += us


def parameters(program, layers, width):
    """Weights of a transformer: four square matrices and two wide ones for each layer."""
    return [
        program.alloc(size * 2)
        for _ in range(layers)
        for size in [width * width] * 4 + [width * width * 4] * 2 + [width] * 2
    ]


def train(program, checkpoint=False, vocabulary=32000):
    """Steps with sequences of every length; gradients in backward, optimiser state after the first."""
    rng = program.random
    layers, width = rng.choice([12, 16, 24]), rng.choice([768, 1024, 1536])
    weights = parameters(program, layers, width)
    state = []
    for _ in range(30):
        tokens = rng.randrange(16, 129) * 64
        row = tokens * width * 2
        kept, gradients = [], []
        for _ in range(layers):
            inner = [program.alloc(row * k) for k in (1, 3, 1, 4, 4, 1)]
            if checkpoint:
                kept.append(program.alloc(row))
                program.free_all(inner)
            else:
                kept += inner
                program.free(program.alloc(row))
        logits = program.alloc(tokens * vocabulary * 2)
        wide = program.alloc(tokens * vocabulary * 4)
        loss = program.alloc(tokens * vocabulary * 4)
        program.free(wide)
        program.free(logits)
        back = program.alloc(tokens * vocabulary * 2)
        program.free(loss)
        flow = program.alloc(row)
        program.free(back)
        for layer in range(layers):
            if checkpoint:
                again = [program.alloc(row * k) for k in (1, 3, 1, 4, 4, 1)]
            for weight in weights[layer * 8 : layer * 8 + 8]:
                gradients.append(program.alloc(program.sizes[weight]))
            following = program.alloc(row)
            program.free(flow)
            flow = following
            if checkpoint:
                program.free_all(again)
                program.free(kept.pop())
            else:
                for _ in range(6):
                    program.free(kept.pop())
        program.free(flow)
        if not state:
            state = [program.alloc(program.sizes[w] * 2) for w in weights for _ in range(2)]
        program.free_all(gradients)


def convolution(program):
    """A U-Net on images of several sizes: down, up, and workspaces as large as layers."""
    rng = program.random
    weights = [program.alloc((64 << min(i, 4)) ** 2 * 9 * 4) for i in range(9)]
    for _ in range(40):
        side = rng.choice([256, 320, 384, 448, 512, 640])
        batch = rng.randrange(2, 9)
        kept = []
        for level in [0, 1, 2, 3, 4, 3, 2, 1, 0]:
            size = batch * (side >> level) ** 2 * (64 << level) * 2
            kept.append(program.alloc(size))
            workspace = program.alloc(rng.randrange(8, 257) * MIB)
            kept.append(program.alloc(size))
            program.free(workspace)
        while kept:
            gradient = program.alloc(program.sizes[kept[-1]])
            program.free(kept.pop())
            program.free(gradient)
        program.free_all([program.alloc(program.sizes[w]) for w in weights])


def graphs(program):
    """Subgraphs of wildly different sizes: few blocks, some of them a third of everything."""
    rng = program.random
    fixed = [program.alloc(rng.randrange(20, 200) * MIB) for _ in range(4)]
    for _ in range(60):
        nodes = int(rng.lognormvariate(12.5, 0.6))
        edges = nodes * rng.randrange(8, 20)
        batch = [program.alloc(nodes * 512), program.alloc(edges * 16)]
        for _ in range(3):
            messages = program.alloc(edges * 256)
            batch.append(program.alloc(nodes * 1024))
            batch.append(program.alloc(edges * 4))
            program.free(messages)
        rng.shuffle(batch)
        program.free_all(batch)
    program.free_all(fixed)


def serve(program, layers=None, together=24, step=1.15):
    """Requests come and go; each holds keys and values for every layer, copied to grow."""
    rng = program.random
    layers = layers or rng.choice([8, 16, 32])
    token = rng.choice([1, 2, 4]) * KIB
    weights = parameters(program, layers, 1024)
    live = []
    for _ in range(400):
        while not live or (len(live) < together and rng.random() < 0.7):
            length = rng.randrange(64, 2048)
            live.append([length, [program.alloc(length * token) for _ in range(2 * layers)]])
        request = rng.choice(live)
        if rng.random() < 0.3:
            live.remove(request)
            program.free_all(request[1])
            continue
        request[0] = int(request[0] * step) + 1
        if rng.random() < 0.5:  # layer by layer, as a cache that concatenates does
            for i, old in enumerate(request[1]):
                request[1][i] = program.alloc(request[0] * token)
                program.free(old)
        else:  # all at once
            grown = [program.alloc(request[0] * token) for _ in request[1]]
            program.free_all(request[1])
            request[1] = grown
        work = [program.alloc(request[0] * token * k) for k in (1, 4, 4)]
        program.free_all(work)
    program.free_all(weights)


def experts(program):
    """Mixture of experts: every layer's tokens fall into parts of random sizes."""
    rng = program.random
    weights = [program.alloc(rng.choice([16, 32, 48]) * MIB) for _ in range(64)]
    for _ in range(12):
        kept = []
        for _ in range(16):
            cuts = sorted(rng.random() for _ in range(7))
            parts = [b - a for a, b in zip([0] + cuts, cuts + [1])]
            inner = [program.alloc(part * 160 * MIB) for part in parts]
            kept.append(program.alloc(40 * MIB))
            program.free_all(inner)
        program.free_all(kept)
    program.free_all(weights)


def vectors(program):
    """Buffers that grow by half: tables, queues, results."""
    rng = program.random
    live = {}
    for _ in range(900):
        slot = rng.randrange(24)
        if slot in live and rng.random() < 0.12:
            program.free(live.pop(slot))
        elif slot in live and program.sizes[live[slot]] < 512 * MIB:
            old = live[slot]
            live[slot] = program.alloc(program.sizes[old] * 1.5)
            program.free(old)
        elif slot not in live:
            live[slot] = program.alloc(rng.randrange(1, 64) * MIB)
        program.pause(2000)


def mixed(program):
    """Batches of every size beside long-lived blocks of every size, in no order at all."""
    rng = program.random
    lasting, passing = [], []
    for _ in range(5000):
        size = int(2 ** rng.uniform(9, 27))
        if rng.random() < 0.06:
            lasting.append(program.alloc(size))
            if len(lasting) > 160:
                program.free(lasting.pop(rng.randrange(len(lasting))))
        else:
            passing.append(program.alloc(size))
        while len(passing) > 60 + rng.randrange(40):
            program.free(passing.pop(rng.randrange(len(passing))))


KINDS = {
    "train": train,
    "checkpoint": lambda program: train(program, checkpoint=True),
    "vocabulary": lambda program: train(program, vocabulary=128000),
    "convolution": convolution,
    "graphs": graphs,
    "serve": serve,
    "servefine": lambda program: serve(program, layers=16, together=60, step=1.03),
    "experts": experts,
    "vectors": vectors,
    "mixed": mixed,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for kind, run in KINDS.items():
        for seed in range(1, arguments.seeds + 1):
            program = Program(seed)
            run(program)
            text = "op,id,bytes,stream,t_us\n" + "\n".join(program.rows) + "\n"
            (arguments.folder / f"{kind}-{seed}.csv").write_text(text)


if __name__ == "__main__":
    main()
