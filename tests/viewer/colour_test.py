#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""colour_test.py ROOT: the twelve colours of viewer/src/theme.ts can be told apart, also by readers with one of the three
colour blindnesses, as the matrices of Machado, Oliveira and Fernandes (2009, severity 1) simulate them. The distance is
CIEDE2000; CIE76 would call two blues far apart that are not."""
import itertools
import math
import os
import re
import sys
import unittest

LEAST = 12.0

SIGHTS = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def lab(colour, sight):
    """CIELAB (D65) of "#rrggbb" as someone with that sight sees it."""
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    seen = [min(1, max(0, c)) for c in times(sight, linear)]
    white = [sum(row) for row in XYZ]
    ratios = [value / most for value, most in zip(times(XYZ, seen), white)]
    x, y, z = (r ** (1 / 3) if r > 216 / 24389 else (24389 / 27 * r + 16) / 116 for r in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one, other):
    """Sharma, Wu and Dalal (2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    seven = ((math.hypot(a1, b1) + math.hypot(a2, b2)) / 2) ** 7
    stretch = 1 + 0.5 * (1 - math.sqrt(seven / (seven + 25 ** 7)))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360
    grey = c1 * c2 == 0
    turn = 0 if grey else (h2 - h1 + 180) % 360 - 180
    middle = h1 + h2 if grey else (h1 + turn / 2) % 360
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    t = (1 - 0.17 * math.cos(math.radians(middle - 30)) + 0.24 * math.cos(math.radians(2 * middle)) +
         0.32 * math.cos(math.radians(3 * middle + 6)) - 0.20 * math.cos(math.radians(4 * middle - 63)))
    by_l = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2))
    by_c = (c2 - c1) / (1 + 0.045 * chroma)
    by_h = hue / (1 + 0.015 * chroma * t)
    seven = chroma ** 7
    rotation = (-math.sin(math.radians(60 * math.exp(-((middle - 275) / 25) ** 2))) *
                2 * math.sqrt(seven / (seven + 25 ** 7)))
    return math.sqrt(by_l ** 2 + by_c ** 2 + by_h ** 2 + rotation * by_c * by_h)


def theme():
    """The twelve, and the greys and papers beside which they lie."""
    with open(os.path.join(sys.argv[1], "viewer", "src", "theme.ts"), encoding="utf-8") as file:
        text = file.read()
    colour = r'"(#[0-9a-f]{6})"'
    named = re.findall(colour, re.search(r"const named = \[(.*?)\]", text, re.S).group(1))
    beside = re.findall(rf"(?:rest|paper): {colour}", text)
    return named, beside


class Colours(unittest.TestCase):
    def test_the_distance_is_the_published_one(self):
        for one, other, distance in (((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
                                     ((50, 2.5, 0), (61, -5, 29), 22.8977),
                                     ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
                                     ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373)):
            self.assertAlmostEqual(ciede2000(one, other), distance, places=4)

    def test_any_two_can_be_told_apart(self):
        named, beside = theme()
        self.assertEqual((len(named), len(beside)), (12, 4))
        for sight, matrix in SIGHTS.items():
            for one, other in [*itertools.combinations(named, 2), *itertools.product(named, beside)]:
                distance = ciede2000(lab(one, matrix), lab(other, matrix))
                self.assertGreaterEqual(distance, LEAST, f"{one} and {other}, {sight}")

    def test_other_colours_would_be_found(self):
        for one, other, sight in (("#7f6ab8", "#0072b2", "protanopia"), ("#6ba6cc", "#56b4e9", "full")):
            self.assertLess(ciede2000(lab(one, SIGHTS[sight]), lab(other, SIGHTS[sight])), LEAST)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
