# SPDX-License-Identifier: Apache-2.0
"""What a page of `vram report --html` carries; cli/viewer/page.h has the layout."""
import base64
import gzip
import json
import re
import struct

FORMS = {"f32": ("f", 4), "f64": ("d", 8), "u32": ("I", 4)}


def payload_of(html):
    return re.search(r'<script type="text/plain" id="payload">([A-Za-z0-9+/=\n]*)</script>', html).group(1)


def read(html):
    """The JSON and the arrays by name, of the first trace."""
    return read_all(html)[0]


def read_all(html):
    return [read_line(line) for line in payload_of(html).split()]


def read_line(line):
    data = base64.b64decode(line, validate=True)
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    length, zero = struct.unpack_from("<II", data)
    assert zero == 0
    meta = json.loads(data[8:8 + length])
    at, arrays = 8 + (length + 7) // 8 * 8, {}
    for entry in meta["arrays"]:
        letter, width = FORMS[entry["type"]]
        arrays[entry["name"]] = struct.unpack_from(f"<{entry['count']}{letter}", data, at)
        at += (entry["count"] * width + 7) // 8 * 8
    assert at == len(data), (at, len(data))
    return meta, arrays
