# SPDX-License-Identifier: Apache-2.0
"""Prints csrc/lowering/special_tables.h: Chebyshev series, good to float32, of the
smooth parts of special functions. Computed with mpmath from their definitions; how
a function splits into such parts follows Cephes (S. L. Moshier, netlib.org/cephes)
and M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of
(1 + 2x) exp(x^2) erfc(x)", 1981.
"""

from collections.abc import Callable

import mpmath as mp
from mpmath import mpf

mp.mp.dps = 40

PRECISION = mpf(2) ** -28


def series(f: Callable, low: float, high: float) -> list:
    """Coefficients c of sum c[i] T_i(t), t from -1 to 1 as x from low to high,
    up to PRECISION of the largest; c[0] enters as it is."""
    n = 48
    middle, half = (mpf(high) + low) / 2, (mpf(high) - low) / 2
    nodes = [mp.cos(mp.pi * (k + mpf(1) / 2) / n) for k in range(n)]
    values = [f(middle + half * t) for t in nodes]
    coefficients = []
    for i in range(n):
        total = mp.fsum(
            v * mp.cos(mp.pi * i * (k + mpf(1) / 2) / n) for k, v in enumerate(values)
        )
        coefficients.append(total * (1 if i == 0 else 2) / n)
    largest = max(abs(c) for c in coefficients)
    while abs(coefficients[-1]) < PRECISION * largest:
        coefficients.pop()
    if len(coefficients) > 32:
        raise ValueError(f"the series does not converge: {len(coefficients)} terms")
    return coefficients


def modulus(order: int) -> tuple[Callable, Callable]:
    """Of z = 25 / x^2: P and Q of Hankel's form, J = sqrt(2 / pi x) (P cos c -
    Q / x sin c) and Y = sqrt(2 / pi x) (P sin c + Q / x cos c), c = x - shift."""
    shift = mp.pi / 4 if order == 0 else 3 * mp.pi / 4

    def parts(z: mpf) -> tuple[mpf, mpf]:
        x = 5 / mp.sqrt(z)
        c, scale = x - shift, mp.sqrt(mp.pi * x / 2)
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        return (
            scale * (j * mp.cos(c) + y * mp.sin(c)),
            scale * x * (y * mp.cos(c) - j * mp.sin(c)),
        )

    return (lambda z: parts(z)[0]), (lambda z: parts(z)[1])


def airy_negative(w: mpf) -> tuple[mpf, mpf]:
    """Of w = 1 / zeta^2: Ai(-t) = t^-1/4 / sqrt(pi) (P sin c - Q / zeta cos c), c =
    zeta + pi / 4, zeta = 2/3 t^3/2."""
    zeta = 1 / mp.sqrt(w)
    t = (3 * zeta / 2) ** (mpf(2) / 3)
    c, scale = zeta + mp.pi / 4, mp.sqrt(mp.pi) * t ** (mpf(1) / 4)
    a, b = mp.airyai(-t), mp.airybi(-t)
    return (
        scale * (a * mp.sin(c) + b * mp.cos(c)),
        scale * zeta * (b * mp.sin(c) - a * mp.cos(c)),
    )


def airy_positive(w: mpf) -> mpf:
    """Of w = 1 / zeta: Ai(x) = x^-1/4 exp(-zeta) times it."""
    x = (3 / w / 2) ** (mpf(2) / 3)
    return mp.airyai(x) * x ** (mpf(1) / 4) * mp.exp(1 / w)


def normal_quantile(p: mpf) -> mpf:
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def normal_tail(z: mpf) -> mpf:
    """Of z = 1 / s, s = sqrt(-2 log p): (s - log(s) / s - quantile of 1 - p) / z."""
    s = 1 / z
    p = mp.exp(-s * s / 2)
    x = mp.findroot(
        lambda v: mp.log(mp.erfc(v / mp.sqrt(2)) / 2) - mp.log(p),
        s - (mp.log(s) + mp.log(2 * mp.pi) / 2) / s,
    )
    return (s - mp.log(s) / s - x) / z


def small_k0(w: mpf) -> mpf:
    x = mp.sqrt(w)
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


def small_k1(w: mpf) -> mpf:
    x = mp.sqrt(w)
    return x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))


def small_y0(w: mpf) -> mpf:
    x = mp.sqrt(w)
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def small_y1(w: mpf) -> mpf:
    x = mp.sqrt(w)
    regular = mp.log(x) * mp.besselj(1, x) - 1 / x
    return (mp.bessely(1, x) - 2 / mp.pi * regular) / x


def scaled_i(order: int) -> Callable:
    return lambda z: mp.besseli(order, 8 / z) * mp.exp(-8 / z) * mp.sqrt(8 / z)


def scaled_k(order: int) -> Callable:
    return lambda z: mp.besselk(order, 2 / z) * mp.exp(2 / z) * mp.sqrt(2 / z)


def scaled_erfc(t: mpf) -> mpf:
    """Of t = (x - 3.75) / (x + 3.75): (1 + 2x) exp(x^2) erfc(x)."""
    x = mpf("3.75") * (1 + t) / (1 - t)
    if x > 1000:
        tail = mp.fsum(
            (-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(8)
        )
        return (1 + 2 * x) / x / mp.sqrt(mp.pi) * tail
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def temme(rows: int, columns: int) -> list[list]:
    """Taylor coefficients of c_k(eta) of DLMF 8.12.8, k < rows, by 8.12.10 and
    8.12.12: what remains of the incomplete gamma functions beside erfc."""
    n = columns + 2 * rows + 4
    stirling = [mpf(1), mpf(1) / 12, mpf(1) / 288, -mpf(139) / 51840]
    # mu = lambda - 1 = sum alpha[i] eta^i.
    alpha = [mpf(0), mpf(1)]
    for i in range(2, n + 2):
        total = alpha[i - 1] - mp.fsum(
            j * alpha[j] * alpha[i - j + 1] for j in range(2, i)
        )
        alpha.append(total / (i + 1))
    # eta / mu, by division of series.
    inverse = [mpf(1)]
    for i in range(1, n):
        inverse.append(-mp.fsum(alpha[j + 1] * inverse[i - j] for j in range(1, i + 1)))
    # c[0] = 1 / mu - 1 / eta; c[k] = c[k - 1]' / eta + (-1)^k g[k] / mu.
    c = [inverse[1:]]
    for k in range(1, rows):
        last = c[-1]
        derivative = [(i + 1) * last[i + 1] for i in range(len(last) - 1)]
        whole = [
            derivative[i] + (-1) ** k * stirling[k] * inverse[i]
            for i in range(len(derivative))
        ]
        if abs(whole[0]) > mpf(10) ** -25:
            raise ValueError("the poles do not cancel")
        c.append(whole[1:])
    return [row[:columns] for row in c]


SERIES = [
    (
        "I0Small",
        "exp(-x) I0(x) of x in [0, 8]",
        lambda x: mp.exp(-x) * mp.besseli(0, x),
        0,
        8,
    ),
    ("I0Large", "sqrt(x) exp(-x) I0(x) of 8 / x in [0, 1]", scaled_i(0), 0, 1),
    (
        "I1Small",
        "exp(-x) I1(x) / x of x in [0, 8]",
        lambda x: mp.exp(-x) * mp.besseli(1, x) / x,
        0,
        8,
    ),
    ("I1Large", "sqrt(x) exp(-x) I1(x) of 8 / x in [0, 1]", scaled_i(1), 0, 1),
    ("K0Small", "K0(x) + log(x / 2) I0(x) of x^2 in [0, 4]", small_k0, 0, 4),
    ("K0Large", "sqrt(x) exp(x) K0(x) of 2 / x in [0, 1]", scaled_k(0), 0, 1),
    ("K1Small", "x (K1(x) - log(x / 2) I1(x)) of x^2 in [0, 4]", small_k1, 0, 4),
    ("K1Large", "sqrt(x) exp(x) K1(x) of 2 / x in [0, 1]", scaled_k(1), 0, 1),
    (
        "J0Small",
        "J0(x) of x^2 in [0, 25]",
        lambda w: mp.besselj(0, mp.sqrt(w)),
        0,
        25,
    ),
    (
        "J1Small",
        "J1(x) / x of x^2 in [0, 25]",
        lambda w: mp.besselj(1, mp.sqrt(w)) / mp.sqrt(w),
        0,
        25,
    ),
    ("Y0Small", "Y0(x) - 2/pi log(x) J0(x) of x^2 in [0, 25]", small_y0, 0, 25),
    (
        "Y1Small",
        "(Y1(x) - 2/pi (log(x) J1(x) - 1 / x)) / x of x^2 in [0, 25]",
        small_y1,
        0,
        25,
    ),
    ("P0", "P of Hankel's form of J0, Y0; of 25 / x^2 in [0, 1]", modulus(0)[0], 0, 1),
    ("Q0", "Q of Hankel's form of J0, Y0; of 25 / x^2 in [0, 1]", modulus(0)[1], 0, 1),
    ("P1", "P of Hankel's form of J1, Y1; of 25 / x^2 in [0, 1]", modulus(1)[0], 0, 1),
    ("Q1", "Q of Hankel's form of J1, Y1; of 25 / x^2 in [0, 1]", modulus(1)[1], 0, 1),
    ("AiryMiddle", "Ai(x) of x in [-2.1, 2.1]", mp.airyai, -2.1, 2.1),
    (
        "AiryPositive",
        "x^1/4 exp(zeta) Ai(x) of 1 / zeta in [0, 0.5], zeta = 2/3 x^3/2",
        airy_positive,
        0,
        0.5,
    ),
    (
        "AiryP",
        "P of Ai(-t) = t^-1/4 / sqrt(pi) (P sin c - Q / zeta cos c), c = zeta + "
        "pi / 4; of 1 / zeta^2 in [0, 0.25]",
        lambda w: airy_negative(w)[0],
        0,
        0.25,
    ),
    ("AiryQ", "Q of the same", lambda w: airy_negative(w)[1], 0, 0.25),
    (
        "Erfcx",
        "(1 + 2x) exp(x^2) erfc(x) of (x - 3.75) / (x + 3.75) in [-1, 1]",
        scaled_erfc,
        -1,
        1,
    ),
    (
        "QuantileMiddle",
        "quantile(1/2 + u) / u of u^2 in [0, 0.1369], of the normal distribution",
        lambda w: normal_quantile(mpf(1) / 2 + mp.sqrt(w)) / mp.sqrt(w),
        0,
        0.1369,
    ),
    (
        "QuantileTail",
        "s (s - log(s) / s + quantile(p)) of 1 / s in [0.068, 0.5], s = sqrt(-2 log p)",
        normal_tail,
        0.068,
        0.5,
    ),
]


def wrapped(text: str) -> str:
    lines, line = [], "//"
    for word in text.split():
        if len(line) + 1 + len(word) > 80:
            lines.append(line)
            line = "//"
        line += " " + word
    return "\n".join([*lines, line])


def main() -> None:
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Written by tools/special_tables.py: Chebyshev series, good to float32.")
    print("#pragma once\n\n#include <span>\n\nnamespace neuronx::lowering {\n")
    print("// sum c[i] T_i(t), where t goes from -1 to 1 as the variable from low to")
    print("// high.")
    print("struct Series {\n  double low, high;\n  std::span<const double> c;\n};")
    for name, text, function, low, high in SERIES:
        coefficients = series(function, low, high)
        print(f"\n{wrapped(text + '.')}")
        print(f"inline constexpr double k{name}Terms[] = {{")
        for c in coefficients:
            print(f"    {mp.nstr(c, 12, min_fixed=1, max_fixed=1)},")
        print("};")
        print(f"inline constexpr Series k{name}{{{low}, {high}, k{name}Terms}};")
    rows = temme(4, 8)
    print("\n// Taylor coefficients of c_k(eta) in DLMF 8.12.8, k the row.")
    print(f"inline constexpr double kTemme[{len(rows)}][{len(rows[0])}] = {{")
    for row in rows:
        print("    {")
        for c in row:
            print(f"        {mp.nstr(c, 12, min_fixed=1, max_fixed=1)},")
        print("    },")
    print("};\n\n}  // namespace neuronx::lowering")


if __name__ == "__main__":
    main()
