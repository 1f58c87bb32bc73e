# SPDX-License-Identifier: Apache-2.0
"""Calls that stand for the operators of language models, CNNs and their training."""

import torch

from cases import linalg, optim, special
from cases.layers import layers
from samples import f, ints, mask, positive, unit

aten = torch.ops.aten


def unary() -> list:
    cases = []
    for name in (
        "neg abs sign ceil floor round trunc frac exp expm1 sin cos tan tanh sinh "
        "cosh atan asinh erf erfc sigmoid relu gelu silu mish elu softplus hardtanh "
        "hardswish hardsigmoid leaky_relu isnan isinf signbit reciprocal exp2"
    ).split():
        cases.append((getattr(aten, name).default, (f(3, 5),)))
    for name in "log log2 log10 log1p sqrt rsqrt lgamma digamma".split():
        cases.append((getattr(aten, name).default, (positive(3, 5),)))
    for name in "asin acos atanh erfinv".split():
        cases.append((getattr(aten, name).default, (unit(3, 5),)))
    cases.append((aten.acosh.default, (positive(3, 5) + 1,)))
    cases.append((aten.bitwise_not.default, (ints(3, 5),)))
    cases.append((aten.logical_not.default, (ints(3, 5),)))
    cases.append((aten.neg.default, (ints(3, 5),)))
    cases.append((aten.exp.default, (ints(3, 5),)))
    cases.append((aten.gelu.default, (f(3, 5),), {"approximate": "tanh"}))
    return cases


def binary() -> list:
    cases = []
    for name in "add sub mul div eq ne lt le gt ge remainder fmod".split():
        op = getattr(aten, name).Tensor
        cases += [(op, (f(3, 5), f(5))), (op, (f(3, 1), f(4, 1, 5)))]
    for name in "add sub mul eq lt".split():
        op = getattr(aten, name).Tensor
        cases += [(op, (ints(3, 5), ints(5))), (op, (ints(3, 5), f(3, 5)))]
    for name in "remainder fmod".split():
        op = getattr(aten, name).Tensor
        cases.append((op, (ints(3, 5), ints(3, 5, low=1))))
    for name in "gcd lcm".split():
        op = getattr(aten, name).default
        cases.append((op, (ints(3, 5, low=-50, high=50), ints(5))))
        cases.append((op, (ints(3, 5).int(), ints(3, 1).int())))
    for name in "maximum minimum atan2".split():
        cases.append((getattr(aten, name).default, (f(3, 5), f(3, 5))))
    for name in "bitwise_and bitwise_or bitwise_xor".split():
        cases.append((getattr(aten, name).Tensor, (ints(3, 5), ints(3, 5))))
        cases.append((getattr(aten, name).Tensor, (mask(3, 5), mask(3, 5))))
    for name in "logical_and logical_or logical_xor".split():
        cases.append((getattr(aten, name).default, (mask(3, 5), ints(3, 5))))
    for mode in (None, "floor", "trunc"):
        cases.append(
            (aten.div.Tensor_mode, (f(3, 5), positive(5)), {"rounding_mode": mode})
        )
    cases += [
        (aten.div.Tensor_mode, (ints(9), ints(9, low=1)), {"rounding_mode": "floor"}),
        (aten.add.Tensor, (f(3, 5), f(3, 5)), {"alpha": 2.5}),
        (aten.pow.Tensor_Scalar, (f(3, 5), 2)),
        (aten.pow.Tensor_Scalar, (positive(3, 5), 1.7)),
        (aten.pow.Tensor_Scalar, (positive(3, 5), -0.5)),
        (aten.pow.Tensor_Tensor, (positive(3, 5), f(3, 5))),
        (aten.pow.Scalar, (2.0, f(3, 5))),
        (aten.rsub.Scalar, (f(3, 5), 2.0)),
        (aten.eq.Scalar, (ints(3, 5), 1)),
        (aten.gt.Scalar, (f(3, 5), 0.5)),
        (aten.clamp.default, (f(3, 5), -0.5, 0.5)),
        (aten.clamp.default, (f(3, 5), None, 0.5)),
        (aten.where.self, (mask(3, 5), f(3, 5), f(5))),
        (aten.masked_fill.Scalar, (f(3, 5), mask(3, 5), -2.0)),
        (aten.addcmul.default, (f(3, 5), f(3, 5), f(5)), {"value": 0.5}),
        (aten.addcdiv.default, (f(3, 5), f(3, 5), positive(5)), {"value": 0.5}),
        (aten.lerp.Scalar, (f(3, 5), f(3, 5), 0.3)),
    ]
    return cases


def reductions() -> list:
    cases = [
        (aten.sum.default, (f(3, 4),)),
        (aten.sum.default, (ints(3, 4),)),
        (aten.sum.dim_IntList, (f(3, 4, 5), [1, -1])),
        (aten.sum.dim_IntList, (f(3, 4, 5), [0], True)),
        (aten.mean.default, (f(3, 4),)),
        (aten.mean.dim, (f(3, 4), [-1], True)),
        (aten.prod.default, (f(3, 4),)),
        (aten.prod.dim_int, (f(3, 4), 1)),
        (aten.amax.default, (f(3, 4), [1])),
        (aten.amin.default, (f(3, 4), [0], True)),
        (aten.max.default, (f(3, 4),)),
        (aten.min.default, (ints(3, 4),)),
        (aten.max.dim, (f(3, 4), 1)),
        (aten.min.dim, (f(3, 4), 0, True)),
        (aten.argmax.default, (f(3, 4),)),
        (aten.argmax.default, (f(3, 4), -1)),
        (aten.argmin.default, (f(3, 4), 0, True)),
        (aten.any.default, (mask(3, 4),)),
        (aten.any.dim, (mask(3, 4), 1)),
        (aten.all.default, (mask(3, 4),)),
        (aten.var.correction, (f(3, 4), [1]), {"correction": 1}),
        (aten.std.correction, (f(3, 4), [1]), {"correction": 0}),
        (aten.linalg_vector_norm.default, (f(3, 4),)),
        (aten.cumsum.default, (f(3, 4), 1)),
        (aten.cumsum.default, (ints(7), 0)),
        (aten._softmax.default, (f(3, 4), -1, False)),
        (aten._log_softmax.default, (f(3, 4), 0, False)),
        (
            aten._softmax_backward_data.default,
            (f(3, 4), f(3, 4).softmax(1), 1, torch.float32),
        ),
        (
            aten._log_softmax_backward_data.default,
            (f(3, 4), f(3, 4).log_softmax(1), 1, torch.float32),
        ),
        (aten.sort.default, (f(3, 7), -1)),
        (aten.sort.default, (f(3, 7), 0, True)),
        (aten.topk.default, (f(3, 7), 3)),
    ]
    return cases


def shapes() -> list:
    x = f(2, 3, 4)
    return [
        (aten.view.default, (x, [6, 4])),
        (aten.expand.default, (f(3, 1), [2, 3, 4])),
        (aten.permute.default, (x, [2, 0, 1])),
        (aten.transpose.int, (x, 0, -1)),
        (aten.t.default, (f(3, 4),)),
        (aten.slice.Tensor, (x, 2, 1, 4, 2)),
        (aten.select.int, (x, 1, -1)),
        (aten.unsqueeze.default, (x, 1)),
        (aten.squeeze.dim, (f(3, 1), 1)),
        (aten.cat.default, ([f(2, 3), f(4, 3)],)),
        (aten.stack.default, ([f(2, 3), f(2, 3)], 1)),
        (aten.split_with_sizes.default, (f(5, 3), [2, 3])),
        (aten.constant_pad_nd.default, (f(2, 3), [1, 2, 0, -1], 0.5)),
        (aten.flip.default, (x, [0, 2])),
        (aten.roll.default, (x, [1], [2])),
        (aten.repeat.default, (f(2, 3), [2, 1, 3])),
        (aten.clone.default, (x,)),
        (aten.tril.default, (f(4, 4), 1)),
        (aten.triu.default, (f(4, 4),)),
        (aten.diagonal.default, (f(4, 5), 1)),
        (aten.slice_backward.default, (f(2, 2), [2, 5], 1, 1, 5, 2)),
        (aten.select_backward.default, (f(3), [2, 3], 0, 1)),
        (aten.slice_scatter.default, (f(5, 3), f(2, 3), 0, 1, 5, 2)),
        (aten.select_scatter.default, (f(5, 3), f(3), 0, 2)),
        (aten.zeros_like.default, (x,)),
        (aten.ones_like.default, (x,)),
        (aten.full_like.default, (x, 2.5)),
    ]


def indexing() -> list:
    i = torch.tensor([2, 0, 1, 2])
    return [
        (aten.embedding.default, (f(5, 3), torch.tensor([[1, 4], [0, 1]]))),
        (
            aten.embedding_dense_backward.default,
            (f(2, 2, 3), torch.tensor([[1, 4], [0, 1]]), 5, 0, False),
        ),
        (aten.index_select.default, (f(3, 4), 0, i)),
        (aten.index_select.default, (f(4, 3), 1, i)),
        (aten.gather.default, (f(3, 4), 1, torch.tensor([[0, 3], [1, 1], [2, 0]]))),
        (aten.index.Tensor, (f(3, 4), [i])),
        (aten.index.Tensor, (f(3, 4, 5), [None, torch.tensor([-1, 0])])),
        (aten.index.Tensor, (f(3, 4, 5), [i, None, torch.tensor([0, 1, 2, 3])])),
        (aten.index_put.default, (f(3, 4), [torch.tensor([0, 2])], f(2, 4))),
        (aten.index_put.default, (f(3, 4), [i], f(4), True)),
        (aten.index_put.default, (f(3, 4), [mask(3, 4)], torch.tensor(2.0))),
        (
            aten.scatter.src,
            (f(3, 4), 1, torch.tensor([[0, 3], [1, 2], [2, 0]]), f(3, 2)),
        ),
        (aten.scatter.value, (f(3, 4), 0, torch.tensor([[0, 1, 2, 0]]), 1.5)),
        (
            aten.scatter_add.default,
            (f(3, 4), 0, torch.tensor([[0, 1, 2, 0], [0, 0, 1, 1]]), f(2, 4)),
        ),
        (aten.index_add.default, (f(3, 4), 0, i, f(4, 4))),
        (aten.index_copy.default, (f(3, 4), 0, torch.tensor([2, 0]), f(2, 4))),
        (aten.nonzero_static.default, (mask(3, 4),), {"size": 5}),
        (aten.nonzero_static.default, (mask(7),), {"size": 9, "fill_value": -3}),
        (aten.isin.Tensor_Tensor, (ints(3, 4), torch.tensor([1, 2]))),
    ]


def networks() -> list:
    x, w = f(2, 4, 7, 7), f(6, 2, 3, 3)
    conv = (None, [2, 2], [1, 1], [1, 1], False, [0, 0], 2)
    deconv = (None, [2, 2], [1, 1], [1, 1], True, [1, 1], 2)
    y = aten.convolution.default(x, w, *conv)
    pooled, position = aten.max_pool2d_with_indices.default(x, [3, 3], [2, 2], [1, 1])
    norm, mean, rstd = aten.native_layer_norm.default(f(2, 3, 5), [5], None, None, 1e-5)
    _q, _k, _v = f(1, 2, 5, 8), f(1, 2, 6, 8), f(1, 2, 6, 8)
    return [
        (aten.mm.default, (f(3, 4), f(4, 5))),
        (aten.bmm.default, (f(2, 3, 4), f(2, 4, 5))),
        (aten.mv.default, (f(3, 4), f(4))),
        (aten.dot.default, (f(4), f(4))),
        (aten.addmm.default, (f(5), f(3, 4), f(4, 5)), {"beta": 0.5, "alpha": 2.0}),
        (aten.baddbmm.default, (f(2, 3, 5), f(2, 3, 4), f(2, 4, 5))),
        (aten.convolution.default, (x, w, *conv)),
        (aten.convolution.default, (x, f(4, 3, 3, 3), *deconv)),
        (
            aten.convolution.default,
            (f(2, 4, 9), f(6, 4, 3), f(6), [1], [2], [2], False, [0], 1),
        ),
        (
            aten.convolution_backward.default,
            (torch.randn_like(y), x, w, [6], *conv[1:], [True, True, True]),
        ),
        (aten.max_pool2d_with_indices.default, (x, [3, 3], [2, 2], [1, 1])),
        (
            aten.max_pool2d_with_indices_backward.default,
            (
                torch.randn_like(pooled),
                x,
                [3, 3],
                [2, 2],
                [1, 1],
                [1, 1],
                False,
                position,
            ),
        ),
        (aten.avg_pool2d.default, (x, [3, 3], [2, 2], [1, 1], True)),
        (
            aten.avg_pool2d_backward.default,
            (f(2, 4, 4, 4), x, [3, 3], [2, 2], [1, 1], False, False, None),
        ),
        (aten._adaptive_avg_pool2d.default, (x, [3, 2])),
        (aten._adaptive_avg_pool2d_backward.default, (f(2, 4, 3, 2), x)),
        (aten.native_layer_norm.default, (f(2, 3, 5), [5], f(5), f(5), 1e-5)),
        (
            aten.native_layer_norm_backward.default,
            (f(2, 3, 5), f(2, 3, 5), [5], mean, rstd, f(5), f(5), [True, True, True]),
        ),
        (aten.native_group_norm.default, (x, f(4), f(4), 2, 4, 49, 2, 1e-5)),
        (
            aten._native_batch_norm_legit_functional.default,
            (x, f(4), f(4), f(4), positive(4), True, 0.1, 1e-5),
        ),
        (
            aten.native_batch_norm_backward.default,
            (
                torch.randn_like(x),
                x,
                f(4),
                f(4),
                positive(4),
                f(4),
                positive(4),
                True,
                1e-5,
                [True, True, True],
            ),
        ),
        (
            aten.nll_loss_forward.default,
            (f(4, 5), torch.tensor([0, 1, -100, 3]), None, 1, -100),
        ),
        (
            aten.nll_loss_forward.default,
            (f(5), torch.tensor(3), positive(5), 0, -100),
        ),
        (
            aten.nll_loss_backward.default,
            (
                torch.tensor(1.0),
                f(4, 5),
                torch.tensor([0, 1, -100, 3]),
                None,
                1,
                -100,
                torch.tensor(3.0),
            ),
        ),
        (aten.mse_loss.default, (f(3, 4), f(3, 4))),
        (aten.gelu_backward.default, (f(3, 4), f(3, 4))),
        (aten.silu_backward.default, (f(3, 4), f(3, 4))),
        (aten.sigmoid_backward.default, (f(3, 4), unit(3, 4))),
        (aten.tanh_backward.default, (f(3, 4), unit(3, 4))),
        (aten.threshold_backward.default, (f(3, 4), f(3, 4), 0)),
        (aten._foreach_add.List, ([f(3), f(2, 2)], [f(3), f(2, 2)]), {"alpha": 0.5}),
        (aten._foreach_mul.Scalar, ([f(3), f(2, 2)], 2.5)),
        (
            aten._foreach_addcdiv.ScalarList,
            ([f(3), f(2)], [f(3), f(2)], [positive(3), positive(2)], [0.5, 2.0]),
        ),
        (aten._foreach_lerp.Scalar, ([f(3)], [f(3)], 0.1)),
        (aten._foreach_sqrt.default, ([positive(3), positive(2)],)),
    ]


def all_cases() -> list:
    torch.manual_seed(0)
    cases = unary() + binary() + reductions() + shapes() + indexing() + networks()
    cases += layers() + linalg.cases() + special.cases()
    cases += optim.cases()
    return [case if len(case) == 3 else (*case, {}) for case in cases]
