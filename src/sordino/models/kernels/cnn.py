"""One forward and backward pass of the convolutional network, for one run and one batch.

Compiled: what torch does with grouped convolutions, five times slower, for all runs at once. The
tests hold the two together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sordino.models.kernels import convolution as conv
from sordino.models.kernels.compile import compiled
from sordino.types import Array


class Layers(NamedTuple):
    """Parameters of one run (or their gradients), in the order of the weight vector."""

    kernel1: Array
    bias1: Array
    kernel2: Array
    bias2: Array
    kernel3: Array
    bias3: Array
    hidden: Array
    hidden_bias: Array
    output: Array
    output_bias: Array


class _Maps(NamedTuple):
    """Working memory: feature maps, who won each pooling, and gradients with padding before."""

    plane: Array
    map1: Array
    map2: Array
    map3: Array
    which1: Array
    which2: Array
    which3: Array
    back1: Array
    back2: Array
    back3: Array
    full2: Array
    full3: Array
    units: Array
    logits: Array


def maps(layers: Layers, height: int, width: int, batch: int) -> _Maps:
    """Allocate working memory for images of this size."""
    dtype, filters = layers.bias1.dtype, layers.bias1.shape[-1]
    sides = [(height >> n, width >> n) for n in range(4)]

    def floats(n: int, pad: int, of: int = filters) -> Array:
        rows, columns = sides[n]
        return np.zeros((of, rows + pad, (columns + pad) * batch), dtype=dtype)

    def winners(n: int) -> Array:
        return np.zeros((filters, sides[n][0], sides[n][1] * batch), dtype=np.int8)

    return _Maps(
        plane=floats(0, 0, of=2).ravel(),
        **{"map1": floats(1, 1), "map2": floats(2, 1), "map3": floats(3, 0)},
        **{f"which{n}": winners(n) for n in (1, 2, 3)},
        **{f"back{n}": floats(n, 0) for n in (1, 2, 3)},
        **{"full2": floats(1, 1), "full3": floats(2, 1)},
        units=np.zeros((layers.hidden.shape[-2], batch), dtype=dtype),
        logits=np.zeros((layers.output.shape[-2], batch), dtype=dtype),
    )


@compiled
def add_gradients(
    total: Array, layers: Layers, m: _Maps, X: Array, y: Array, weight: Array
) -> None:
    """Add to total [group, run, parameter]; X [group, ...], y and weight [group, example]."""
    for g in range(total.shape[0]):
        for r in range(total.shape[1]):
            run = _of(layers, g, r)
            _add_gradient(_views(total[g, r], run), run, m, X[g], y[g], weight[g])


@compiled
def add_clipped_gradients(
    total: Array, layers: Layers, m: _Maps, X: Array, y: Array, weight: Array, clip: Array
) -> None:
    """The same with each example's gradient clipped to clip [group, example]; X likewise."""
    one, unit = np.empty_like(total[0, 0]), np.ones_like(weight[0, :1])
    for g in range(total.shape[0]):
        for r in range(total.shape[1]):
            run = _of(layers, g, r)
            for e in range(y.shape[1]):
                one[:] = 0
                _add_gradient(_views(one, run), run, m, X[g, e], y[g, e : e + 1], unit)
                norm = np.sqrt((one * one).sum())
                factor = weight[g, e] * (min(1.0, clip[g, e] / norm) if norm > 0 else 1.0)
                for j in range(len(one)):
                    total[g, r, j] += factor * one[j]


@compiled
def _of(a: Layers, g: int, r: int) -> Layers:
    """Layers of one run."""
    return Layers(
        a.kernel1[g, r], a.bias1[g, r], a.kernel2[g, r], a.bias2[g, r], a.kernel3[g, r],
        a.bias3[g, r], a.hidden[g, r], a.hidden_bias[g, r], a.output[g, r], a.output_bias[g, r],
    )  # fmt: skip


@compiled
def _views(flat: Array, like: Layers) -> Layers:
    """A weight vector seen as layers of these shapes; nothing is copied."""
    a = like.kernel1.size
    b = a + like.bias1.size
    c = b + like.kernel2.size
    d = c + like.bias2.size
    e = d + like.kernel3.size
    f = e + like.bias3.size
    g = f + like.hidden.size
    h = g + like.hidden_bias.size
    i = h + like.output.size
    return Layers(
        flat[:a].reshape(like.kernel1.shape),
        flat[a:b],
        flat[b:c].reshape(like.kernel2.shape),
        flat[c:d],
        flat[d:e].reshape(like.kernel3.shape),
        flat[e:f],
        flat[f:g].reshape(like.hidden.shape),
        flat[g:h],
        flat[h:i].reshape(like.output.shape),
        flat[i:],
    )


@compiled
def _add_gradient(
    gradient: Layers, layers: Layers, m: _Maps, X: Array, y: Array, weight: Array
) -> None:
    """Add the gradient of sum_i weight_i loss_i to `gradient`.

    X [channel, row + 2, 2, ...] is padded by one on every side and in halves (`convolution`); y
    and weight are [example].
    """
    batch = len(y)
    _forward(layers, m, X, batch)
    _softmax_gradient(m.logits, y, weight)
    flat = m.map3.reshape(layers.hidden.shape[1], batch)
    back = m.back3.reshape(layers.hidden.shape[1], batch)
    _dense_backward(gradient.output, gradient.output_bias, layers.output, m.units, m.logits)
    _into_units(m.units, layers.output, m.logits)
    _dense_backward(gradient.hidden, gradient.hidden_bias, layers.hidden, flat, m.units)
    back[:] = 0
    for u in range(len(m.units)):
        for f in range(len(flat)):
            for i in range(batch):
                back[f, i] += layers.hidden[u, f] * m.units[u, i]
    _conv_backward(
        gradient.kernel3, gradient.bias3, layers.kernel3, m.full3, m.map2, m.back2, m.which3,
        m.back3, batch,
    )  # fmt: skip
    _conv_backward(
        gradient.kernel2, gradient.bias2, layers.kernel2, m.full2, m.map1, m.back1, m.which2,
        m.back2, batch,
    )  # fmt: skip
    _first_backward(gradient.kernel1, gradient.bias1, m, X, batch)


@compiled
def _forward(layers: Layers, m: _Maps, X: Array, batch: int) -> None:
    rows, columns = m.which1.shape[1:]
    halves = m.plane[: 8 * rows * columns].reshape(2, 2 * rows, 2, columns)
    for f in range(0, len(layers.bias1), 2):
        _fill(halves, layers.bias1[f], layers.bias1[f + 1])
        for c in range(len(X)):
            conv.add_3x3(halves, X[c], layers.kernel1[f : f + 2, c], batch)
        conv.pool_halves(m.map1[f], m.which1[f], halves[0])
        conv.pool_halves(m.map1[f + 1], m.which1[f + 1], halves[1])
    _forward_2x2(layers.kernel2, layers.bias2, m.map1, m.map2, m.which2, m, batch)
    _forward_2x2(layers.kernel3, layers.bias3, m.map2, m.map3, m.which3, m, batch)
    flat = m.map3.reshape(layers.hidden.shape[1], batch)
    _dense(m.units, layers.hidden, layers.hidden_bias, flat)
    for u in range(len(m.units)):
        for i in range(batch):
            m.units[u, i] = max(m.units[u, i], m.units.dtype.type(0))
    _dense(m.logits, layers.output, layers.output_bias, m.units)


@compiled
def _plane(m: _Maps, rows: int, columns: int) -> Array:
    """Working memory for two maps of this size, without gaps."""
    return m.plane[: 2 * rows * columns].reshape(2, rows, columns)


@compiled
def _forward_2x2(
    kernel: Array, bias: Array, inputs: Array, out: Array, which: Array, m: _Maps, batch: int
) -> None:
    plane = _plane(m, inputs.shape[1] - 1, inputs.shape[2] - batch)
    for f in range(0, len(bias), 2):
        _fill(plane, bias[f], bias[f + 1])
        for c in range(len(inputs)):
            conv.add_2x2(plane, inputs[c], kernel[f : f + 2, c], batch)
        _pool_two(out, which, plane, f, batch)


@compiled
def _pool_two(out: Array, which: Array, plane: Array, f: int, batch: int) -> None:
    rows, columns = which.shape[1], which.shape[2] // batch
    conv.pool(out[f], which[f], plane[0], rows, columns, batch)
    conv.pool(out[f + 1], which[f + 1], plane[1], rows, columns, batch)


@compiled
def _conv_backward(
    kernel_gradient: Array, bias_gradient: Array, kernel: Array, full: Array, inputs: Array,
    back: Array, which: Array, pooled: Array, batch: int,
) -> None:  # fmt: skip
    """Through pooling and a 2x2 convolution: gradients of kernel, bias and inputs.

    `full` is the gradient of the convolution's output with a row and a column of zeros before
    it, so that the gradient of the inputs is itself a convolution, with the kernel turned round.
    """
    for f in range(len(full)):
        conv.unpool(full[f], which[f], pooled[f], 1, batch)
        bias_gradient[f] += conv.total(pooled[f], which[f])
    for f in range(0, len(full), 2):
        for c in range(len(inputs)):
            pair = kernel_gradient[f : f + 2, c]
            conv.add_kernel_gradient(pair, full[f : f + 2], inputs[c], 1, batch)
    back[:] = 0
    turned = kernel[:, :, ::-1, ::-1]
    for c in range(0, len(back), 2):
        for f in range(len(full)):
            conv.add_2x2(back[c : c + 2], full[f], turned[f, c : c + 2], batch)


@compiled
def _first_backward(
    kernel_gradient: Array, bias_gradient: Array, m: _Maps, X: Array, batch: int
) -> None:
    for f in range(0, len(bias_gradient), 2):
        which, pooled = m.which1[f : f + 2], m.back1[f : f + 2]
        for i in range(2):
            bias_gradient[f + i] += conv.total(pooled[i], which[i])
        for c in range(len(X)):
            pair = kernel_gradient[f : f + 2, c]
            conv.add_first_kernel_gradient(pair, which, pooled, X[c], batch)


@compiled
def _fill(plane: Array, first: float, second: float) -> None:
    plane[0] = first
    plane[1] = second


@compiled
def _dense(out: Array, weight: Array, bias: Array, inputs: Array) -> None:
    for u in range(len(out)):
        out[u] = bias[u]
        for f in range(len(inputs)):
            for i in range(out.shape[1]):
                out[u, i] += weight[u, f] * inputs[f, i]


@compiled
def _dense_backward(
    weight_gradient: Array, bias_gradient: Array, weight: Array, inputs: Array, back: Array
) -> None:
    for u in range(len(back)):
        for f in range(len(inputs)):
            total = weight.dtype.type(0)
            for i in range(back.shape[1]):
                total += back[u, i] * inputs[f, i]
            weight_gradient[u, f] += total
        bias_gradient[u] += back[u].sum()


@compiled
def _into_units(units: Array, weight: Array, back: Array) -> None:
    """Overwrite the relu units with the gradient that reaches them."""
    for u in range(len(units)):
        for i in range(units.shape[1]):
            total = weight.dtype.type(0)
            for o in range(len(back)):
                total += weight[o, u] * back[o, i]
            units[u, i] = total if units[u, i] > 0 else 0


@compiled
def _softmax_gradient(logits: Array, y: Array, weight: Array) -> None:
    """Overwrite logits with weight x (softmax - one-hot of the label)."""
    for i in range(logits.shape[1]):
        most = logits[0, i]
        for o in range(1, len(logits)):
            most = max(most, logits[o, i])
        total = logits.dtype.type(0)
        for o in range(len(logits)):
            logits[o, i] = np.exp(logits[o, i] - most)
            total += logits[o, i]
        for o in range(len(logits)):
            hit = logits.dtype.type(1) if y[i] == o else logits.dtype.type(0)
            logits[o, i] = weight[i] * (logits[o, i] / total - hit)
