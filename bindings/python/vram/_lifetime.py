# SPDX-License-Identifier: Apache-2.0
"""Who keeps what alive.

Every object of the package has a node: the C handle, how it is destroyed, and the node of its parent. A handle may be
destroyed at any moment, because the library checks every handle. Memory may not: a view of it (a memoryview, a numpy
array, a DLPack tensor) is a plain pointer. So

 (1) a view is a token in the exports of its node and of all nodes above it;
 (2) a node that is closed while it has exports refuses every call from then on, and is destroyed when the last of them
     ends;
 (3) there are no locks: the collector may end a view at any moment, on any thread, inside any of these functions.
     Adding to a set, removing from it and popping from a list are each one step of the interpreter. Whoever removes
     the last export and whoever closes both look afterwards whether the node is to be destroyed, and `_claim` has one
     element, which only one of them gets.

At the interpreter's exit nothing is destroyed: the system takes everything back, and the library knows that.
"""
from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Callable, List, Optional, Set, TypeVar

from . import _fork
from .errors import StaleError, invalid, stale


class Node:
    """One C handle. `destroy` is NULL for handles that belong to the process (vram/shared.h)."""

    __slots__ = ("_value", "what", "destroy", "parent", "exports", "closed", "_claim", "__weakref__")

    def __init__(self, value: int, what: str, destroy: Optional[Callable[[int], Any]], parent: Optional[Node]) -> None:
        self._value, self.what, self.destroy, self.parent = value, what, destroy, parent
        self.exports: Set[object] = set()
        self.closed = False
        self._claim: List[bool] = [True]

    @property
    def handle(self) -> int:
        """The handle for a call of the library."""
        node: Optional[Node] = self
        while node is not None:
            if node.closed:
                raise stale(node.what)
            node = node.parent
        return self._value

    def close(self) -> None:
        """Ends the object, or has it end with the last view of its memory; a second call does nothing."""
        self.closed = True
        self._settle()

    def _settle(self) -> None:
        """Destroys it if it was closed and nothing of it is exported. Keeps (3)."""
        if not self.closed or self.exports:
            return
        try:
            self._claim.pop()
        except IndexError:
            return
        if self.destroy is not None:
            try:
                self.destroy(self._value)
            except StaleError:
                pass  # it has ended with its parent

    def export(self, ended: Optional[Callable[[], Any]] = None) -> Callable[[], None]:
        """Begins an export; the result ends it, once. `ended` is called first."""
        token = object()
        nodes = []
        node: Optional[Node] = self
        while node is not None:
            node.exports.add(token)
            nodes.append(node)
            node = node.parent
        again = [True]

        def end() -> None:
            try:
                again.pop()
            except IndexError:
                return
            if ended is not None:
                ended()
            for each in nodes:
                each.exports.discard(token)
            for each in nodes:
                each._settle()

        closed = next((each for each in nodes if each.closed), None)
        if closed is not None:
            end()
            raise stale(closed.what)
        return end


def _nothing() -> None:
    pass


before_close: Callable[[], None] = _nothing  # vram.queue sets it: waits for transfers


_Self = TypeVar("_Self", bound="Handle")


class Handle:
    """Base of Context, Device, Queue, Pool, Buffer and Scope: closed by `close`, by `with`, or by the collector."""

    _node = Node(0, "object (its __init__ did not run)", None, None)  # until _begin: closed
    _node.closed = True
    _finalizer: Any = None
    _parent: Any = None  # the Handle that it belongs to

    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise TypeError(f"a {type(self).__name__} is made by a method of the object that it belongs to")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled: it belongs to this process")

    def _begin(self, value: Optional[int], what: str, destroy: Optional[Callable[[int], Any]],
               parent: Optional[Handle]) -> None:
        assert value is not None
        self._parent = parent  # which is not collected before its children
        self._node = Node(value, what, destroy, None if parent is None else parent._node)
        self._finalizer = weakref.finalize(self, _close_quietly, self._node)
        self._finalizer.atexit = False

    @property
    def handle(self) -> int:
        """The number by which the C library knows the object. vram.StaleError after `close`."""
        return self._node.handle

    @property
    def closed(self) -> bool:
        """Whether it, or an object that it belongs to, was closed."""
        node: Optional[Node] = self._node
        while node is not None and not node.closed:
            node = node.parent
        return node is not None

    def close(self) -> None:
        """Ends the object. A second call does nothing. Memory of which a view is in use is freed with the view."""
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._node.exports and not self._node.closed:
            before_close()
        self._node.close()

    def __enter__(self: _Self) -> _Self:
        self._node.handle
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            about = "closed" if self.closed else self._about()
        except Exception:  # it was closed meanwhile, or its device is lost: a repr tells what it can
            about = "of which nothing can be told"
        return f"<vram.{type(self).__name__} {about}>"

    def _about(self) -> str:
        """What it is, for people."""
        raise NotImplementedError


def _close_quietly(node: Node) -> None:
    """For the collector: an exception would reach nobody."""
    try:
        node.close()
    except Exception:
        pass


def host_view(end: Callable[[], Any], address: int, nbytes: int) -> Any:
    """An object with the buffer protocol over host memory, whose export `end` ends with it and all views of it."""

    class HostMemory(ctypes.c_ubyte * nbytes):  # type: ignore[misc]
        """An instance of a class of its own can be referred to weakly."""

    memory = HostMemory.from_address(address)
    token = object()
    _fork.shown[token] = (address, nbytes)
    weakref.finalize(memory, _fork.shown.pop, token, None).atexit = False
    weakref.finalize(memory, end).atexit = False
    return memory


def c_path(path: Any) -> bytes:
    """The name of a file for C: a str, bytes or a path object."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise invalid(f"the name of a file has no 0 in it: {path!r}")
    return name


def c_text(text: Optional[str]) -> Optional[bytes]:
    """Text for C, which ends at a 0."""
    if text is not None and not isinstance(text, str):
        raise invalid(f"a text for the library is a str, not {type(text).__name__}")
    if text is not None and "\0" in text:
        raise invalid(f"a text for the library has no 0 in it: {text!r}")
    return None if text is None else text.encode()
