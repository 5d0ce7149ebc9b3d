#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_distance.py: what `vram bench distance` is held against: 10,000 queries, a million vectors of 128
numbers, the ten nearest by squared L2, as a product of matrices and torch.topk, tile by tile, from host memory to
host memory. Prints one JSON object: milliseconds for each precision, the best of five."""
import json
import time

import torch

QUERIES, VECTORS, DIM, NEAREST, TILE = 10_000, 1_000_000, 128, 10, 50_000


def nearest(query, corpus, dtype):
    q = query.cuda().to(dtype)
    lengths = (q.float() ** 2).sum(1, keepdim=True)
    best = at = None
    for first in range(0, VECTORS, TILE):
        c = corpus[first:first + TILE].cuda().to(dtype)
        found = lengths + (c.float() ** 2).sum(1) - 2 * (q @ c.T).float()
        values, places = torch.topk(found, NEAREST, dim=1, largest=False)
        places = places + first
        if best is not None:
            values, places = torch.cat((best, values), 1), torch.cat((at, places), 1)
            values, pick = torch.topk(values, NEAREST, dim=1, largest=False)
            places = places.gather(1, pick)
        best, at = values, places
    return best.cpu(), at.cpu()


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    query, corpus = torch.rand(QUERIES, DIM) * 2 - 1, torch.rand(VECTORS, DIM) * 2 - 1
    result = {"torch": torch.__version__}
    for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16)):
        times = []
        for _ in range(6):
            begin = time.perf_counter()
            nearest(query, corpus, dtype)
            times.append((time.perf_counter() - begin) * 1e3)
        result[f"{name}_ms"] = min(times[1:])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
