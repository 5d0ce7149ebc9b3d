# SPDX-License-Identifier: Apache-2.0
"""The live block table and leak reports, of a pool, a device or a context."""
from __future__ import annotations

from typing import Any, Dict, List, Optional

from ._lifetime import c_text
from ._library import lib, written
from ._values import MEMORY, choose, integer, plain, timeout_ns
from .generated import api

ORDERS = {"any": api.VRAM_LIVE_ANY, "largest": api.VRAM_LIVE_LARGEST, "oldest": api.VRAM_LIVE_OLDEST}
_KIND_NAMES = {number: name for name, number in MEMORY.items()}


class LiveTable:
    """What Context, Device and Pool say about the blocks of tracked pools."""

    def _query(self) -> Any:
        raise NotImplementedError

    def live_blocks(self, order: str = "largest", tag: Optional[str] = None, older: float = 0.0,
                    most: int = 0) -> List[Dict[str, Any]]:
        """Every live block of tracked pools: address, bytes, tag, age, kind. `tag` also names the tags below it, ""
        those without one; `older` is in seconds, `most` the number of rows (0: all).

        >>> import vram
        >>> with vram.Context(backends="sim", sim="memory=1G") as context, context.device() as device:
        ...     pool = device.pool(tracked=True)
        ...     block = pool.alloc("3MiB", tag="weights")
        ...     [(row["tag"], row["requested_bytes"]) for row in pool.live_blocks()]
        [('weights', 3145728)]
        """
        query = self._query()
        query.order = choose(order, ORDERS, "order")
        query.tag = c_text(tag)
        query.older_ns, query.most = timeout_ns(older), integer(most, "a number of rows", 0, 2**32 - 1)
        found: List[Dict[str, Any]] = []

        @api.vram_live_fn
        def visit(user: Any, block: Any) -> bool:
            row = plain(block.contents)
            row["kind"] = _KIND_NAMES.get(row["kind"], "unknown")
            found.append(row)
            return True

        lib.vram_live_visit(query, visit, None)
        return found

    def leaks(self) -> Dict[str, Any]:
        """Every live block as a report of leaks, by tag and stack (schema vram.leaks/1)."""
        return written(lib.vram_leaks_write, self._query(), after=(None,))
