# SPDX-License-Identifier: Apache-2.0
"""Calls of factorisations and solvers."""

import torch
from torch import Tensor

aten = torch.ops.aten


def f(*shape: int) -> Tensor:
    return torch.randn(*shape)


def regular(*shape: int) -> Tensor:
    """Well conditioned, and in need of pivoting: a permuted near-identity."""
    n = shape[-1]
    return (torch.eye(n)[torch.randperm(n)] * 2 + 0.3 * f(*shape)).contiguous()


def definite(*shape: int) -> Tensor:
    x = f(*shape)
    return x @ x.mT / shape[-1] + torch.eye(shape[-1])


def triangle(*shape: int) -> Tensor:
    """Both triangles are full: the other one must not be read."""
    return f(*shape) / shape[-1] + 2 * torch.eye(shape[-1])


def factored(*shape: int) -> tuple[Tensor, Tensor]:
    lu, pivots, _ = torch.linalg.lu_factor_ex(regular(*shape))
    return lu.contiguous(), pivots


def cholesky() -> list:
    cases = []
    for upper in (False, True):
        factor = torch.linalg.cholesky(definite(2, 4, 4), upper=upper).contiguous()
        cases += [
            (aten.linalg_cholesky_ex.default, (x,), {"upper": upper})
            for x in (definite(5, 5), definite(2, 3, 4, 4), definite(1, 1))
        ]
        cases.append((aten._cholesky_solve_helper.default, (f(2, 4, 3), factor, upper)))
    return cases


def triangular() -> list:
    cases = []
    for upper in (False, True):
        for left in (False, True):
            for unit in (False, True):
                b = f(2, 4, 3) if left else f(2, 3, 4)
                kwargs = {"upper": upper, "left": left, "unitriangular": unit}
                op = aten.linalg_solve_triangular.default
                cases.append((op, (triangle(2, 4, 4), b), kwargs))
                # `left` is here `transpose`.
                args = (f(4, 3), triangle(4, 4), upper, left, unit)
                cases.append((aten.triangular_solve.default, args))
    cases += [
        (
            aten.linalg_solve_triangular.default,
            (triangle(3, 1, 4, 4), f(2, 4, 5)),
            {"upper": False},
        ),
        (aten.triangular_solve.default, (f(2, 4, 1), triangle(3, 1, 4, 4))),
    ]
    return cases


def lu() -> list:
    singular = regular(4, 4)
    singular[:, 2] = 0
    cases = []
    for x in (regular(5, 5), f(2, 5, 3), f(3, 5), regular(2, 3, 4, 4), f(1, 1)):
        cases += [
            (aten.linalg_lu_factor_ex.default, (x,)),
            (aten.linalg_lu.default, (x,)),
        ]
    cases.append((aten.linalg_lu_factor_ex.default, (singular,)))
    for shape in ((5, 5), (2, 5, 3), (3, 5)):
        data, pivots, _ = torch.linalg.lu_factor_ex(f(*shape))
        cases.append((aten.lu_unpack.default, (data.contiguous(), pivots)))
    for left in (False, True):
        for adjoint in (False, True):
            kwargs = {"left": left, "adjoint": adjoint}
            b = f(2, 4, 3) if left else f(2, 3, 4)
            op = aten.linalg_lu_solve.default
            cases += [
                (op, (*factored(2, 4, 4), b), kwargs),
                (op, (*factored(3, 1, 4, 4), b), kwargs),
            ]
    for x in (regular(5, 5), regular(2, 3, 4, 4), regular(1, 1)):
        cases += [
            (aten._linalg_det.default, (x,)),
            (aten._linalg_slogdet.default, (x,)),
            (aten.linalg_inv_ex.default, (x,)),
            (aten._linalg_solve_ex.default, (x, f(x.shape[-1], 2))),
            (aten._linalg_solve_ex.default, (x, f(*x.shape[:-1]))),
        ]
    cases += [
        (aten._linalg_det.default, (singular,)),
        (aten._linalg_slogdet.default, (singular,)),
        (aten._linalg_solve_ex.default, (regular(4, 4), f(3, 4)), {"left": False}),
        (aten._linalg_solve_ex.default, (regular(4, 4), f(2, 4, 3))),
    ]
    return cases


def householder() -> list:
    cases = []
    dependent = f(4, 4)
    dependent[:, 1] = 0
    for x in (f(5, 5), f(2, 5, 3), f(2, 3, 5), f(1, 1), dependent, 1e30 * f(4, 3)):
        cases += [
            (aten.linalg_qr.default, (x, mode)) for mode in ("reduced", "complete")
        ]
    for shape in ((5, 5), (2, 5, 3)):
        a, tau = torch.geqrf(f(*shape))
        a = a.contiguous()
        cases.append((aten.linalg_householder_product.default, (a, tau)))
        for transpose in (False, True):
            batch = shape[:-2]
            right = (a, tau, f(*batch, 2, 5), False, transpose)
            cases += [
                (aten.ormqr.default, (a, tau, f(*batch, 5, 2), True, transpose)),
                (aten.ormqr.default, right),
            ]
    a, tau = torch.geqrf(f(4, 3))
    cases.append((aten.linalg_householder_product.default, (a.contiguous(), tau[:2])))
    return cases


def functions() -> list:
    skew = f(4, 4)
    op = aten.linalg_matrix_exp.default
    return [
        (op, (0.1 * f(3, 3),)),
        (op, (f(2, 3, 4, 4) * torch.logspace(-4, 0, 2)[:, None, None, None],)),
        (op, (4 * (skew - skew.mT),)),
        (op, (torch.zeros(2, 2),)),
    ]


def cases() -> list:
    return cholesky() + triangular() + lu() + householder() + functions()
