# SPDX-License-Identifier: Apache-2.0
"""Calls that stand for pooling, resampling, padding, embedding bags, distances, losses
and convolutions, with their gradients."""

import itertools

import torch

from samples import f, ints, positive

aten = torch.ops.aten


def pooling() -> list:
    cases = []
    for sizes, outs in (
        ((7, 9), ([3, 4], [1, 9], [10, 2])),
        ((8, 6), ([4, 3],)),
        ((5, 6, 7), ([2, 3, 4], [1, 1, 1], [6, 2, 7])),
    ):
        n = len(sizes)
        average = getattr(aten, f"_adaptive_avg_pool{n}d")
        average_backward = getattr(aten, f"_adaptive_avg_pool{n}d_backward")
        maximum = getattr(aten, f"adaptive_max_pool{n}d")
        maximum_backward = getattr(aten, f"adaptive_max_pool{n}d_backward")
        for out, lead in itertools.product(outs, ((2, 3), (3,))):
            x, grad = f(*lead, *sizes), f(*lead, *out)
            position = maximum(x, out)[1]
            cases += [
                (average.default, (x, out)),
                (average_backward.default, (grad, x)),
                (maximum.default, (x, out)),
                (maximum_backward.default, (grad, x, position)),
            ]
    for n, lead in itertools.product((2, 3), ((2, 3), (3,))):
        x = f(*lead, *(8, 9, 7)[:n])
        kernel, out = [2, 3, 2][:n], [3, 2, 4][:n]
        samples = torch.rand(lead[0] if len(lead) > 1 else 1, 3, n)
        fractional = getattr(aten, f"fractional_max_pool{n}d").default
        backward = getattr(aten, f"fractional_max_pool{n}d_backward").default
        y, position = fractional(x, kernel, out, samples)
        cases += [
            (fractional, (x, kernel, out, samples)),
            (fractional, (x, kernel, [1] * n, samples)),
            (backward, (torch.randn_like(y), x, kernel, out, position)),
        ]
    for kernel, stride, padding, ceil, include, divisor in (
        ([3, 2, 3], [2, 1, 2], [1, 1, 0], False, True, None),
        ([3, 3, 3], [2, 2, 2], [1, 1, 1], True, True, None),
        ([3, 3, 3], [2, 3, 2], [1, 1, 1], True, False, None),
        ([2, 3, 2], [], [0, 1, 0], False, True, 5),
    ):
        x = f(2, 3, 7, 8, 9)
        arguments = (kernel, stride, padding, ceil, include, divisor)
        y = aten.avg_pool3d(x, *arguments)
        cases += [
            (aten.avg_pool3d.default, (x, *arguments)),
            (aten.avg_pool3d_backward.default, (torch.randn_like(y), x, *arguments)),
        ]
    for kernel, stride, padding, dilation, ceil in (
        ([3, 2, 3], [2, 1, 2], [1, 0, 1], [1, 2, 1], False),
        ([2, 3, 3], [], [1, 1, 1], [1, 1, 1], True),
    ):
        x = f(2, 3, 6, 7, 8)
        arguments = (kernel, stride, padding, dilation, ceil)
        y, position = aten.max_pool3d_with_indices(x, *arguments)
        grad = torch.randn_like(y)
        cases += [
            (aten.max_pool3d_with_indices.default, (x, *arguments)),
            (
                aten.max_pool3d_with_indices_backward.default,
                (grad, x, *arguments, position),
            ),
        ]
    y, position = aten.max_pool2d_with_indices(f(2, 3, 6, 8), [2, 2])
    cases.append((aten.max_unpool2d.default, (y, position, [6, 8])))
    y, position = aten.max_pool3d_with_indices(f(2, 3, 4, 6, 8), [2, 2, 2])
    sizes = ([4, 6, 8], [2, 2, 2], [0, 0, 0])
    cases.append((aten.max_unpool3d.default, (y, position, *sizes)))
    return cases


def interpolation() -> list:
    cases = []
    sizes = {
        1: [((7,), [14]), ((7,), [5]), ((3,), [8]), ((5,), [5]), ((4,), [1])],
        2: [((4, 5), [8, 15]), ((7, 6), [3, 11]), ((5, 6), [5, 4])],
        3: [((3, 4, 5), [6, 8, 10]), ((4, 5, 3), [3, 7, 3])],
    }
    modes = [(f"upsample_nearest{n}d", n, False) for n in (1, 2, 3)]
    modes += [(f"_upsample_nearest_exact{n}d", n, False) for n in (1, 2, 3)]
    modes += [
        ("upsample_linear1d", 1, True),
        ("upsample_bilinear2d", 2, True),
        ("upsample_trilinear3d", 3, True),
        ("upsample_bicubic2d", 2, True),
        ("_upsample_bilinear2d_aa", 2, True),
        ("_upsample_bicubic2d_aa", 2, True),
        ("_upsample_lanczos2d_aa", 2, True),
    ]
    for name, n, takes_corners in modes:
        forward = getattr(aten, name).default
        backward = getattr(aten, f"{name}_backward").default
        for (small, out), corners in itertools.product(
            sizes[n], ((False,), (True,)) if takes_corners else ((),)
        ):
            shape = [2, 3, *small]
            cases += [
                (forward, (f(*shape), out, *corners)),
                (backward, (f(2, 3, *out), out, shape, *corners)),
            ]
        # Scale factors that are not the ratio of the sizes.
        scales = (1.7, 0.6, 2.3)[:n]
        small = (5, 8, 4)[:n]
        out = [int(size * scale) for size, scale in zip(small, scales, strict=True)]
        corners = (False,) if takes_corners else ()
        shape = [1, 2, *small]
        cases += [
            (forward, (f(*shape), out, *corners, *scales)),
            (backward, (f(1, 2, *out), out, shape, *corners, *scales)),
        ]
    return cases


def padding() -> list:
    cases = []
    for n, amounts in (
        (1, ([2, 3], [0, 1], [-1, 2], [3, -2])),
        (2, ([1, 2, 3, 0], [-1, 2, 1, -1])),
        (3, ([1, 2, 0, 3, 2, 1], [2, -1, 1, 0, -1, 2])),
    ):
        for amount, lead in itertools.product(amounts, ((2, 3), (3,))):
            x = f(*lead, *(5, 6, 4)[3 - n :])
            op = getattr(aten, f"replication_pad{n}d")
            replicated = op(x, amount)
            backward = getattr(aten, f"replication_pad{n}d_backward").default
            cases += [
                (op.default, (x, amount)),
                (backward, (torch.randn_like(replicated), x, amount)),
            ]
    for n, amount in ((1, [2, 3]), (2, [1, 2, 3, 0]), (3, [1, 2, 0, 3, 2, 1])):
        x = f(2, 3, *(5, 6, 4)[3 - n :])
        op = getattr(aten, f"reflection_pad{n}d")
        reflected = op(x, amount)
        backward = getattr(aten, f"reflection_pad{n}d_backward").default
        cases += [
            (op.default, (x, amount)),
            (backward, (torch.randn_like(reflected), x, amount)),
        ]
    return cases


def grids() -> list:
    cases = []
    for n, modes in ((2, (0, 1, 2)), (3, (0, 1))):
        forward = getattr(aten, f"grid_sampler_{n}d").default
        backward = getattr(aten, f"grid_sampler_{n}d_backward").default
        for mode, pad, corners in itertools.product(modes, (0, 1, 2), (False, True)):
            x = f(2, 3, *(5, 6, 4)[:n])
            grid = torch.rand(2, *(4, 3, 2)[:n], n) * 3 - 1.5
            y = forward(x, grid, mode, pad, corners)
            arguments = (x, grid, mode, pad, corners)
            cases += [
                (forward, arguments),
                (backward, (torch.randn_like(y), *arguments, [True, True])),
            ]
        x, grid = f(1, 2, *(1, 3, 2)[:n]), torch.rand(1, *(2, 2, 2)[:n], n) * 2 - 1
        grad = f(1, 2, *(2, 2, 2)[:n])
        cases.append((backward, (grad, x, grid, 0, 2, True, [False, True])))
    return cases


def bags() -> list:
    cases = []
    weight = f(6, 4)
    starts = torch.tensor([0, 2, 2, 5])  # one bag is empty
    ends = torch.tensor([0, 2, 2, 8])
    for mode, last, padding, weighted, by_frequency in (
        *itertools.product((0,), (False, True), (-1, 3), (False, True), (False,)),
        *itertools.product((1, 2), (False, True), (-1, 3), (False,), (False,)),
        *itertools.product((0, 1), (False,), (-1, 3), (False,), (True,)),
    ):
        indices = torch.tensor([1, 2, 0, 3, 3, 5, 1, 0])
        if by_frequency:
            # The CPU divides by the frequency of another index: make them equal.
            indices = torch.tensor([1, 3, 0, 5, 3, 5, 1, 0])
        offsets = ends if last else starts
        samples = torch.rand(8) if weighted else None
        options = (by_frequency, mode, False, samples, last, padding)
        # The gradient needs the sizes of bags that only training keeps.
        trained = weight.clone().requires_grad_()
        y, _, size, maximum = aten._embedding_bag(trained, indices, offsets, *options)
        y, size, maximum = y.detach(), size.detach(), maximum.detach()
        first = ends[:-1] if last else starts
        bag = torch.bucketize(torch.arange(8), first, right=True) - 1
        grad = torch.randn_like(y)
        saved = (size, maximum, 6, by_frequency, mode)
        cases += [
            (aten._embedding_bag.default, (weight, indices, offsets, *options)),
            (
                aten._embedding_bag_forward_only.default,
                (weight, indices, offsets, *options),
            ),
            (
                aten._embedding_bag_backward.default,
                (grad, indices, offsets, bag, *saved, False, samples, padding),
            ),
            (
                aten._embedding_bag_dense_backward.default,
                (grad, indices, bag, *saved, samples, padding),
            ),
        ]
        if weighted:
            cases.append(
                (
                    aten._embedding_bag_per_sample_weights_backward.default,
                    (grad, weight, indices, offsets, bag, mode, padding),
                )
            )
    return cases


def distances() -> list:
    cases = []
    for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")):
        x, y = f(2, 5, 3), f(2, 4, 3)
        x[0, 1] = y[0, 2]  # a distance of zero
        d = aten._cdist_forward(x, y, p, None)
        pairs = aten._pdist_forward(x[0].contiguous(), p)
        cases += [
            (aten._cdist_forward.default, (x, y, p, None)),
            (aten._cdist_backward.default, (torch.randn_like(d), x, y, p, d)),
            (aten._pdist_forward.default, (x[0].contiguous(), p)),
            (
                aten._pdist_backward.default,
                (torch.randn_like(pairs), x[0].contiguous(), p, pairs),
            ),
        ]
    cases += [
        (aten._cdist_forward.default, (f(30, 3), f(4, 3), 2.0, None)),
        (aten._cdist_forward.default, (f(3, 3), f(4, 3), 2.0, 1)),
        (aten._cdist_forward.default, (f(30, 3), f(4, 3), 2.0, 2)),
        (aten._pdist_forward.default, (f(40, 3), 2.0)),
        (
            aten._trilinear.default,
            (f(5, 3), f(2, 3, 4), f(5, 4), [1, 3], [0], [1, 2], [2, 3], 1),
        ),
        (aten._trilinear.default, (f(2, 3), f(2, 3), f(2, 3), [], [], [], [1], 0)),
    ]
    return cases


def losses() -> list:
    x, target = f(4, 5), torch.tensor([0, 4, 2, 2])
    labels = torch.tensor(
        [[1, 3, -1, 0, 2], [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [2, -1, 2, -1, 0]]
    )
    cases = [
        (aten.hardshrink_backward.default, (f(3, 5), f(3, 5), 0.5)),
        (aten.softshrink_backward.default, (f(3, 5), f(3, 5), 0.5)),
    ]
    for reduction in (0, 1, 2):
        grad = f(4) if reduction == 0 else torch.tensor(1.5)
        _, is_target = aten.multilabel_margin_loss_forward(x, labels, reduction)
        cases.append(
            (
                aten.multilabel_margin_loss_backward.default,
                (grad, x, labels, reduction, is_target),
            )
        )
        cases += [
            (
                aten.multi_margin_loss_backward.default,
                (grad, x, target, p, margin, weight, reduction),
            )
            for p, margin, weight in ((1, 1, None), (2, 0.5, positive(5)))
        ]
    one = (torch.tensor(1.5), f(5), torch.tensor(3), 1, 1.0)
    return [*cases, (aten.multi_margin_loss_backward.default, one)]


def index_reductions() -> list:
    cases = []
    index = torch.tensor([[0, 2, 2], [1, 1, 2], [2, 2, 2]])
    rows = torch.tensor([2, 0, 2])
    for reduce, include in itertools.product(
        ("sum", "prod", "mean", "amax", "amin"), (True, False)
    ):
        option = {"include_self": include}
        for make in (f, ints):
            x, source = make(3, 4), make(3, 5)
            for dim in (0, 1):
                op = aten.scatter_reduce.two
                cases.append((op, (x, dim, index, source, reduce), option))
            if reduce != "sum":
                op = aten.index_reduce.default
                cases.append((op, (x, 0, rows, make(3, 4), reduce), option))
                cases.append((op, (x, -1, rows, make(3, 3), reduce), option))
    lengths, offsets = torch.tensor([2, 0, 3, 1]), torch.tensor([0, 2, 2, 5, 6])
    x = f(6, 3)
    x[1, 0], x[4, 1], x[2, 2], x[4, 2] = 0, 0, 0, 0
    x[3, 0] = x[2, 0]  # ties
    for reduce, initial in itertools.product(
        ("sum", "prod", "mean", "max", "min"), (None, 0.5)
    ):
        for where in ({"lengths": lengths}, {"offsets": offsets}):
            option = {**where, "axis": 0, "initial": initial}
            y = aten.segment_reduce(x, reduce, **option, unsafe=False)
            cases += [
                (aten.segment_reduce.default, (x, reduce), option),
                (
                    aten._segment_reduce_backward.default,
                    # The CPU divides only positive gradients among equals.
                    (torch.rand_like(y), y, x, reduce),
                    option,
                ),
            ]
    each = {"lengths": torch.tensor([[2, 2], [3, 1]]), "axis": 1}
    y = aten.segment_reduce(f(2, 4, 3), "mean", **each)
    return [
        *cases,
        (aten.segment_reduce.default, (f(2, 4, 3), "mean"), each),
        (
            aten._segment_reduce_backward.default,
            (torch.randn_like(y), y, f(2, 4, 3), "sum"),
            each,
        ),
    ]


def convolutions() -> list:
    cases = []
    everything = [True, True, True]
    for n, stride, pad, dilation, transposed, out_pad, groups in (
        (1, 2, 1, 1, False, 0, 1),
        (1, 3, 2, 2, True, 2, 2),
        (2, 1, 0, 2, False, 0, 2),
        (2, 2, 1, 1, True, 1, 1),
        (2, 1, 1, 2, True, 1, 1),
        (2, 3, 2, 1, True, 2, 2),
        (3, 2, 1, 1, False, 0, 1),
        (3, 2, 1, 1, True, 1, 2),
    ):
        x = f(2, 4, *(7, 6, 5)[:n])
        weight = f(4, 6 // groups, *(3, 2, 3)[:n])
        if not transposed:
            weight = f(6, 4 // groups, *(3, 2, 3)[:n])
        arguments = (
            [stride] * n,
            [pad] * n,
            [dilation] * n,
            transposed,
            [out_pad] * n,
            groups,
        )
        y = aten.convolution(x, weight, None, *arguments)
        grad = torch.randn_like(y)
        cases += [
            (aten.convolution.default, (x, weight, f(6), *arguments)),
            (
                aten.convolution_backward.default,
                (grad, x, weight, [6], *arguments, everything),
            ),
        ]
    return cases


def normalisation() -> list:
    x = f(2, 3, 5)
    statistics = (f(3), positive(3))
    return [
        (
            aten._native_batch_norm_legit.no_stats,
            (x, f(3), f(3), True, 0.1, 1e-5),
        ),
        (
            aten._native_batch_norm_legit_no_training.default,
            (x, f(3), f(3), *statistics, 0.1, 1e-5),
        ),
        (
            aten.native_batch_norm_backward.default,
            (x, x, f(3), *statistics, None, None, False, 1e-5, [True] * 3),
        ),
    ]


def shapes() -> list:
    return [
        (aten.rot90.default, (f(3, 4, 5), 1, [0, 2])),
        (aten.rot90.default, (f(3, 4), 3)),
        (aten.as_strided_scatter.default, (f(4, 5), f(2, 3), [2, 3], [5, 1], 6)),
        (aten.channel_shuffle.default, (f(2, 6, 3), 3)),
        (aten.pixel_shuffle.default, (f(2, 12, 3, 4), 2)),
        (aten.pixel_unshuffle.default, (f(2, 3, 4, 6), 2)),
    ]


def products() -> list:
    offsets = torch.tensor([2, 2, 6, 8], dtype=torch.int32)

    def b(*shape: int) -> torch.Tensor:
        return f(*shape).to(torch.bfloat16)

    def float8(*shape: int) -> torch.Tensor:
        return f(*shape).to(torch.float8_e4m3fn)

    int8 = torch.int8
    scale = torch.tensor(0.5), torch.tensor(0.25)
    return [
        (aten._grouped_mm.default, (b(8, 16), b(4, 16, 24), offsets)),
        (aten._grouped_mm.default, (b(4, 16, 8), b(4, 8, 24))),
        (aten._grouped_mm.default, (b(16, 8), b(8, 24), offsets)),
        (aten._grouped_mm.default, (b(4, 16, 8), b(8, 8), offsets)),
        (aten._int_mm.default, (ints(17, 8).to(int8), ints(8, 16).to(int8))),
        (
            aten._scaled_mm.default,
            (float8(16, 32), float8(16, 32).t(), *scale),
            {"out_dtype": torch.float32},
        ),
    ]


def layers() -> list:
    tables = (
        pooling,
        interpolation,
        padding,
        grids,
        bags,
        distances,
        losses,
        index_reductions,
        convolutions,
        normalisation,
        shapes,
        products,
    )
    return [case for table in tables for case in table()]
