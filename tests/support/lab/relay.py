"""Takes the frames of one cable out of the kernel, and hands them on later, or not at all: this kernel has no netem.

A program of its own, without anything but Python: NAMESPACE-OF-HOST NAMESPACE-OF-SWITCH PORT TAP DELAY-MS LOSS-PERCENT.
It says `ok` when frames go through it, and works until it is killed.
"""

from __future__ import annotations

import ctypes
import errno
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
from pathlib import Path

_NEW_NET = 0x40000000
_ETHTOOL, _TUN_SET_IFF, _TAP_WITHOUT_HEADER = 0x8946, 0x400454CA, 0x1002
_SWITCHED_OFF = (0x17, 0x1F, 0x24, 0x2C)  # checksums left to the device, and the three kinds of oversized frames
_EVERY_PROTOCOL = 3
_FRAME_BYTES = 65_536
_FRAMES_AT_ONCE = 64
_NOT_NOW = {errno.EAGAIN, errno.ENETDOWN}


def _enter(namespace: str) -> None:
    with (Path("/run/netns") / namespace).open() as file:
        if ctypes.CDLL(None).setns(file.fileno(), _NEW_NET):
            sys.exit(f"the namespace {namespace} cannot be entered")


def _whole_frames(device: str) -> None:
    """Make the device send frames as a wire carries them, since nobody mends them behind us."""
    with socket.socket() as any_socket:
        for command in _SWITCHED_OFF:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP8x", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, _ETHTOOL, request)


def _tap(name: str) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUN_SET_IFF, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
    return tap


def _relay(tap: int, wire: socket.socket, *, delay_s: float, loss: float) -> None:
    waiting: list[tuple[float, int, bytes, bool]] = []
    number = 0
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([tap, wire.fileno()], [], [], pause)
        for source in ready:
            for frame in _frames(source):
                if random.random() >= loss:  # noqa: S311 - no secret hangs on it
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + delay_s, number, frame, source != tap))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, frame, to_tap = heapq.heappop(waiting)
            try:
                os.write(tap if to_tap else wire.fileno(), frame)
            except OSError:
                continue  # A wire that is pulled or full loses frames.


def _frames(source: int) -> list[bytes]:
    frames: list[bytes] = []
    while len(frames) < _FRAMES_AT_ONCE:
        try:
            frames.append(os.read(source, _FRAME_BYTES))
        except OSError as error:
            if error.errno not in _NOT_NOW:
                raise
            break
    return frames


def main() -> None:
    """Put ourselves between the port and the switch, and relay."""
    host, switch, port, tap_name, delay_ms, loss_percent = sys.argv[1:]
    _enter(host)
    _whole_frames("eth0")
    _enter(switch)
    _whole_frames(port)
    tap = _tap(tap_name)
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    wire.bind((port, _EVERY_PROTOCOL))
    wire.settimeout(0)
    subprocess.run(["ip", "link", "set", port, "nomaster"], check=True)
    subprocess.run(["ip", "link", "set", tap_name, "master", "br0", "up"], check=True)
    os.write(1, b"ok")
    os.close(1)
    _relay(tap, wire, delay_s=float(delay_ms) / 1000, loss=float(loss_percent) / 100)


if __name__ == "__main__":
    main()
