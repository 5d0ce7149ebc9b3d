#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""link_test.py PROGRAM SECONDS: two processes in two network namespaces, with a network between them that delays, loses
and stops.

Each namespace has a TUN interface; this script carries the packets between them, since few kernels have tc's netem. Its
rules change about twice a second: clean, delay, loss, both, cut. PROGRAM is remote_link, which checks what arrives. Some
transfers must have succeeded, and some failed, or the test has shown nothing.
Exit code 77 (skipped) where namespaces or TUN cannot be used.
"""
import array
import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWNS = 0x40000000, 0x10000000, 0x20000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MTU = 9000
# delay and its jitter in seconds, part of packets that is lost, whether nothing passes
RULES = {"clean": (0, 0, 0, False), "delay": (0.01, 0.005, 0, False), "loss": (0, 0, 0.02, False),
         "both": (0.005, 0.002, 0.01, False), "cut": (0, 0, 0, True)}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def namespace_enter():
    """A network namespace of our own, with its /sys, where UCX looks for interfaces; of a user namespace, too, where we
    are not root."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNET | CLONE_NEWNS | (0 if os.geteuid() == 0 else CLONE_NEWUSER)
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "no network namespace")
    if flags & CLONE_NEWUSER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) or libc.mount(b"none", b"/sys", b"sysfs", 0, None):
        raise OSError(ctypes.get_errno(), "no /sys for the network namespace")


def side_main(channel, number, command):
    """A child: makes its namespace and interface, passes the interface to the parent, becomes the program."""
    try:
        namespace_enter()
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"link0", IFF_TUN | IFF_NO_PI))
        for line in (f"addr add 10.77.0.{number}/24 dev link0", f"link set link0 mtu {MTU} up", "link set lo up"):
            subprocess.run(["ip", *line.split()], check=True, capture_output=True)
        channel.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [tun]))])
    except (OSError, subprocess.CalledProcessError) as error:
        channel.send(b"-" + str(error).encode())
        os._exit(0)
    text = channel.recv(65536).decode()  # what is added to the command
    os.execv(command[0], command + text.split())


class Side:
    """A process in a namespace of its own, and the interface to it."""

    def __init__(self, number, command):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.input, self.output = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(self.input[0], 0)
            os.dup2(self.output[1], 1)
            os.close(self.input[1])
            os.close(self.output[0])
            side_main(theirs, number, command)
        os.close(self.input[0])
        os.close(self.output[1])
        text, extra, _, _ = self.channel.recvmsg(4096, socket.CMSG_SPACE(4))
        if text[:1] != b"+":
            skip(text[1:].decode())
        self.tun = struct.unpack("i", extra[0][2][:4])[0]

    def start(self, *words):
        self.channel.send(" ".join(words).encode())


class Link:
    """Carries packets between two interfaces under the rule in force."""

    def __init__(self, sides, seed):
        self.sides, self.random = sides, random.Random(seed)
        self.waiting, self.number = [], 0
        self.rule, self.seen = "clean", set()
        self.carried = self.lost = 0
        self.next_change = 0

    def change(self):
        """The next rule: first a cut that lasts longer than any deadline, then any of them."""
        first = not self.seen
        self.rule = "cut" if first else self.random.choice([rule for rule in RULES if rule != self.rule])
        self.seen.add(self.rule)
        self.next_change = time.monotonic() + (0.9 if first else self.random.choice([0.2, 0.5, 0.9]))

    def take(self, side):
        delay, jitter, loss, cut = RULES[self.rule]
        for _ in range(64):
            try:
                packet = os.read(side.tun, MTU + 64)
            except BlockingIOError:
                return
            if cut or self.random.random() < loss:
                self.lost += 1
                continue
            self.number += 1
            when = time.monotonic() + delay + jitter * self.random.random()
            heapq.heappush(self.waiting, (when, self.number, self.sides[1 - self.sides.index(side)], packet))

    def deliver(self):
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, _, side, packet = heapq.heappop(self.waiting)
            try:
                os.write(side.tun, packet)
                self.carried += 1
            except OSError:  # its process has ended
                self.lost += 1

    def turn(self, others):
        """One round; which of the other descriptors can be read."""
        if time.monotonic() >= self.next_change:
            self.change()
        wait = max(0, min([0.05] + [self.waiting[0][0] - time.monotonic()] if self.waiting else [0.05]))
        ready = select.select([self.sides[0].tun, self.sides[1].tun, *others], [], [], wait)[0]
        for side in self.sides:
            if side.tun in ready:
                self.take(side)
        self.deliver()
        return [one for one in others if one in ready]


def line_of(link, descriptor):
    """A line of a program's output; the link works meanwhile. "" at its end."""
    text = b""
    while not text.endswith(b"\n"):
        if link.turn([descriptor]):
            more = os.read(descriptor, 65536)
            if not more:
                break
            text += more
    return text.decode().strip()


def code_of(side):
    return os.waitstatus_to_exitcode(os.waitpid(side.pid, 0)[1])


def main():
    program, seconds = sys.argv[1], sys.argv[2]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    owner = Side(1, [program, "own"])
    asker = Side(2, [program, "ask"])
    link = Link([owner, asker], seed)
    link.next_change = float("inf")
    owner.start("link0")
    place = line_of(link, owner.output[0])
    asker.start("link0", place, seconds, str(seed))
    link.next_change = time.monotonic() + 0.5
    said = line_of(link, asker.output[0])
    code = code_of(asker)
    os.close(owner.input[1])
    owner_code = code_of(owner)
    print(f"link_test: {said}; packets {link.carried}, lost {link.lost}, rules {' '.join(sorted(link.seen))}")
    words = said.split()
    numbers = dict(zip(words[::2], map(int, words[1::2]))) if code == 0 else {}
    if code or owner_code or not numbers.get("good") or not numbers.get("failed"):
        sys.exit(f"link_test: exit codes {code} and {owner_code}; there must be transfers that succeed and that fail")


if __name__ == "__main__":
    main()
