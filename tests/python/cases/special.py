# SPDX-License-Identifier: Apache-2.0
"""Calls of special functions, over their whole domains."""

import math

import torch
from torch import Tensor

aten = torch.ops.aten

ENDS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, 0.5, 1e-30]


def line(low: float, high: float, count: int = 200) -> Tensor:
    """Evenly spaced, and the values at which functions are special."""
    return torch.cat([torch.linspace(low, high, count), torch.tensor(ENDS)])


def pairs(xs: Tensor, ys: Tensor) -> tuple[Tensor, Tensor]:
    return xs[:, None], ys[None, :]


# Where each function has something to show: not where float32 has no relative
# precision left, as in the tail of a sine.
LINES = {
    "i0": [(-9, 9), (8, 80)],
    "special_i0e": [(-9, 9), (-1e4, 1e4)],
    "special_i1": [(-9, 9), (-80, 80)],
    "special_i1e": [(-9, 9), (-1e4, 1e4)],
    "special_modified_bessel_i0": [(-9, 9), (8, 80)],
    "special_modified_bessel_i1": [(-9, 9), (-80, 80)],
    "special_modified_bessel_k0": [(-1, 3), (2, 80)],
    "special_modified_bessel_k1": [(-1, 3), (2, 80)],
    "special_scaled_modified_bessel_k0": [(-1, 3), (2, 1e4)],
    "special_scaled_modified_bessel_k1": [(-1, 3), (2, 1e4)],
    "special_bessel_j0": [(-6, 6), (-50, 50)],
    "special_bessel_j1": [(-6, 6), (-50, 50)],
    "special_bessel_y0": [(-1, 6), (5, 50)],
    "special_bessel_y1": [(-1, 6), (5, 50)],
    "special_spherical_bessel_j0": [(-1, 1), (-50, 50)],
    "special_airy_ai": [(-3, 3), (-20, 20), (20, 200)],
    "special_erfcx": [(-3, 3), (-8, 30), (30, 1e5)],
    "special_log_ndtr": [(-6, 6), (-100, 20)],
    "special_ndtri": [(-0.5, 1.5), (1e-6, 0.2), (0.8, 0.9999)],
    "angle": [(-2, 2)],
    "frexp": [(-20, 20), (-1e36, 1e36)],
    "lgamma": [(-4.9, 4.9), (3, 100)],
    "digamma": [(-4.9, 4.9), (3, 100)],
    "erfinv": [(-1.2, 1.2)],
    "sinc": [(-5, 5)],
    "special_entr": [(-1, 5)],
    "logit": [(-0.5, 1.5)],
}


def unary() -> list:
    cases = []
    for name, lines in LINES.items():
        packet = getattr(aten, name)
        op = packet.Tensor if name == "frexp" else packet.default
        cases += [(op, (line(low, high),)) for low, high in lines]
        if name != "frexp":
            cases.append((op, (torch.arange(-3, 4),)))
    cases.append((aten.special_ndtri.default, (torch.logspace(-37, -1, 100),)))
    for dtype in (torch.bfloat16, torch.float16):
        half = line(-9, 9).to(dtype)
        for name in ("i0", "angle"):
            cases.append((getattr(aten, name).default, (half,)))
        cases.append((aten.frexp.Tensor, (half,)))
    return cases


def incomplete_gamma() -> list:
    ends = torch.tensor(ENDS)
    small = torch.tensor([1e-3, 0.02, 0.3, 0.7, 1.0, 1.5, 3.0, 9.0, 11.0])
    cases = []
    for op in (aten.igamma.default, aten.igammac.default):
        cases += [
            (op, pairs(ends, ends)),
            (op, pairs(small, torch.linspace(0.01, 3, 40))),
            (op, pairs(small, torch.linspace(0.5, 40, 40))),
            (op, pairs(torch.linspace(10, 60, 20), torch.linspace(5, 80, 40))),
            (op, pairs(torch.linspace(150, 1000, 9), torch.linspace(100, 1e3, 40))),
            (op, (small.bfloat16(), small.flip(0).bfloat16())),
        ]
    return cases


def sums_of_powers() -> list:
    """Below zero, between the poles, and above."""
    below = -torch.arange(1.0, 40) - 0.37
    points = torch.cat([below, torch.linspace(0.05, 30, 60)])
    powers = torch.tensor([2.0, 3.0, 7.0])
    ends = torch.tensor([0.0, -0.0, 0.5, 1.0, 1.5, 2.0, -1.0, -2.5, math.nan])
    cases = [
        (aten.special_zeta.default, pairs(powers, points)),
        (aten.special_zeta.default, pairs(ends, ends)),
    ]
    return cases + [(aten.polygamma.default, (n, points)) for n in range(1, 5)]


def polynomials() -> list:
    degrees = torch.cat([torch.arange(-1.0, 13), torch.tensor([2.5, math.nan])])
    inside = torch.cat([torch.linspace(-1, 1, 21), torch.tensor([0.999, -0.999])])
    outside = torch.tensor([-9.0, -3.0, -1.5, -1.001, 1.001, 1.5, 4.0, 20.0, math.nan])
    cases = []
    for letter in "tuvw":
        name = f"chebyshev_polynomial_{letter}"
        op = getattr(aten, f"special_{name}").default
        shifted = getattr(aten, f"special_shifted_{name}").default
        cases += [
            (op, pairs(inside, degrees)),
            (op, pairs(outside, degrees)),
            (shifted, pairs((inside + 1) / 2, degrees)),
            (shifted, pairs((outside + 1) / 2, degrees)),
            (op, (torch.arange(-2, 3), torch.arange(5))),
        ]
    for name in (
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    ):
        op = getattr(aten, f"special_{name}").default
        cases += [
            (op, pairs(inside, degrees)),
            (op, pairs(outside, degrees)),
            (op, pairs(inside, torch.tensor([20.0, 60.0]))),
            (op, (torch.arange(-2, 3), torch.arange(5))),
        ]
    op = aten.special_hermite_polynomial_h.default
    cases.append((op, (torch.ones(3), torch.tensor([8.0, 129.0, 1e9]))))
    return cases


def cases() -> list:
    return unary() + incomplete_gamma() + sums_of_powers() + polynomials()
