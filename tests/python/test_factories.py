# SPDX-License-Identifier: Apache-2.0
import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("function", [torch.tril_indices, torch.triu_indices])
def test_indices_of_triangles_equal_cpu(function, dtype, no_fallback):
    for row, col, offset in [
        (3, 4, 0),
        (4, 3, 1),
        (4, 4, -2),
        (0, 3, 0),
        (2, 5, 7),
        (5, 2, -9),
    ]:
        wanted = function(row, col, offset, dtype=dtype)
        actual = function(row, col, offset, dtype=dtype, device="neuron")
        assert actual.stride() == wanted.stride()
        torch.testing.assert_close(actual.cpu(), wanted, rtol=0, atol=0)


def test_forward_derivatives_of_constants_need_no_host(no_fallback):
    x = torch.randn(3, 4)
    _, tangent = torch.func.jvp(torch.sgn, (x.to("neuron"),), (x.to("neuron"),))
    assert torch.equal(tangent.cpu(), torch.zeros(3, 4))
