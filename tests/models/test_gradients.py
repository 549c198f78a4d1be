"""Every objective's values and gradients, against automatic differentiation and plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sordino.errors import InvalidArgument
from sordino.models import ObjectiveSpec, batched, build
from sordino.models.batched import Update

CASES = {
    "logistic": (ObjectiveSpec("logistic"), 5, None),
    "logistic, no intercept": (ObjectiveSpec("logistic", intercept=False), 5, None),
    "logistic, l2": (ObjectiveSpec("logistic", l2=0.3), 5, None),
    "huber": (ObjectiveSpec("huber-svm"), 5, None),
    "huber, narrow": (
        ObjectiveSpec("huber-svm", huber_width=0.2, intercept=False, l2=0.1),
        5,
        None,
    ),
    "squares": (ObjectiveSpec("least-squares"), 5, None),
    "squares, l2": (ObjectiveSpec("least-squares", l2=0.2, intercept=False), 5, None),
    "softmax": (ObjectiveSpec("softmax", classes=4), 5, None),
    "softmax, l2": (ObjectiveSpec("softmax", classes=3, l2=0.2, intercept=False), 5, None),
    "mlp": (ObjectiveSpec("mlp", hidden=4), 5, None),
    "mlp, l2": (ObjectiveSpec("mlp", hidden=3, l2=0.2), 5, None),
    "cnn 8x8": (ObjectiveSpec("cnn", hidden=4, classes=3), 64, (8, 8)),
    "cnn 9x11, l2": (ObjectiveSpec("cnn", hidden=3, classes=2, l2=0.2), 99, (9, 11)),
    "cnn 8x8, colour": (ObjectiveSpec("cnn", hidden=3, classes=4), 192, (8, 8, 3)),
    "cnn 28x28": (ObjectiveSpec("cnn"), 784, (28, 28)),
}


def make(name, runs=3, rows=7, seed=0):
    """An objective, weights of several runs, and records on both sides of every label."""
    spec, features, image_shape = CASES[name]
    objective = build(spec, features, image_shape)
    rng = np.random.default_rng(seed)
    if name == "cnn 28x28":
        runs, rows = 2, 3
    X = rng.standard_normal((rows, features))
    start = np.stack([objective.init(rng) for _ in range(runs)])
    weights = start + 0.3 * rng.standard_normal(start.shape)
    if objective.classes is None:
        y = rng.standard_normal(rows)
    else:
        y = rng.permutation(np.arange(rows) % objective.classes)
    return objective, weights, X, y


def example_gradients(objective, w, X, y):
    """The data gradient of each example alone, by automatic differentiation of its loss."""
    out = []
    for x, label in zip(X, y, strict=True):
        leaf = torch.tensor(w, dtype=torch.float64, requires_grad=True)
        rows = objective.inputs(x[None], torch.float64)[None]
        labels = torch.tensor([[float(label)]], dtype=torch.float64)
        objective.losses(objective.unflatten(leaf[None, None]), rows, labels).sum().backward()
        out.append(leaf.grad.numpy())
    return np.stack(out)


def clipped(gradients, clip):
    if clip is None:
        return gradients
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1, clip / np.maximum(norms, 1e-30))


@pytest.mark.parametrize("clip", [None, 0.5, 1e9])
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_the_mean_of_each_examples_own_clipped_one(name, clip):
    objective, weights, X, y = make(name)
    got = objective.gradient(weights, X, y, clip=clip)
    each = [example_gradients(objective, w, X, y) for w in weights]
    if clip == 0.5:  # the clip must bind for some examples, or nothing is tested
        norms = np.linalg.norm(np.concatenate(each), axis=1)
        assert (norms > clip).any()
    want = [clipped(g, clip).mean(axis=0) for g in each] + objective.spec.l2 * weights
    # Same numbers added in another order: float64 roundings of sums of at most 800 terms.
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_the_slope_of_the_loss(name):
    """Central differences of `loss`, which shares no code with `gradient` but the scores."""
    objective, weights, X, y = make(name)
    gradient = objective.gradient(weights, X, y)
    directions = np.random.default_rng(1).standard_normal((12, objective.parameters))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    e = 1e-6
    for v in directions:
        slope = (objective.loss(weights + e * v, X, y) - objective.loss(weights - e * v, X, y)) / (
            2 * e
        )
        # Rounding of the losses (up to 20, 1e-15 each) over e: 1e-9. Curvature changes give e^2.
        # No kink of a relu or a maximum lies within 1e-6 of these weights.
        np.testing.assert_allclose(gradient @ v, slope, rtol=0, atol=2e-8)


@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("name", [name for name in CASES if name != "cnn 28x28"])
def test_add_gradient_scales_weighs_and_adds_group_by_group(name, clip):
    objective, _, _, _ = make(name)
    rng = np.random.default_rng(3)
    groups, runs, examples = 2, 3, 5
    problems = [make(name, runs, examples, seed) for seed in (11, 12)]
    weights = np.stack([p[1] for p in problems])
    weight = rng.choice([0.0, 1.0, 0.25], size=(groups, examples))
    weight[:, 0] = [0.0, 0.5]
    X = torch.stack([objective.inputs(p[2], torch.float64) for p in problems])
    y = torch.tensor(np.stack([p[3] for p in problems]), dtype=torch.float64)
    sums = np.zeros_like(weights)
    for g, r in np.ndindex(groups, runs):
        each = example_gradients(objective, weights[g, r], problems[g][2], problems[g][3])
        sums[g, r] = weight[g] @ clipped(each, clip)
    for itself in (False, True):
        params = objective.unflatten(torch.tensor(weights))
        before = weights if itself else rng.standard_normal(weights.shape)
        target = params if itself else objective.unflatten(torch.tensor(before))
        objective.add_gradient(
            target,
            params,
            X,
            y,
            Update(keep=0.7, scale=-0.3, clip=clip, weight=torch.tensor(weight)),
        )
        got = objective.flatten(target).numpy()
        np.testing.assert_allclose(got, 0.7 * before - 0.3 * sums, rtol=0, atol=1e-10)
        if not itself:
            np.testing.assert_array_equal(objective.flatten(params).numpy(), weights)


@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("name", CASES)
def test_a_weight_of_zero_is_an_absent_example(name, clip):
    objective, weights, X, y = make(name)
    kept = np.arange(len(X)) != 1
    params = objective.unflatten(torch.tensor(weights)[None])
    target = tuple(torch.zeros_like(part) for part in params)
    objective.add_gradient(
        target,
        params,
        objective.inputs(X, torch.float64)[None],
        torch.tensor(y, dtype=torch.float64)[None],
        Update(
            keep=1.0, scale=1.0, clip=clip, weight=torch.tensor(kept, dtype=torch.float64)[None]
        ),
    )
    want = objective.gradient(weights, X[kept], y[kept], clip=clip) - objective.spec.l2 * weights
    got = objective.flatten(target)[0].numpy()
    np.testing.assert_allclose(got, want * kept.sum(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_single_precision_agrees_to_its_own_digits(name, clip):
    objective, weights, X, y = make(name)
    want = objective.gradient(weights, X, y, clip=clip)
    small = [np.asarray(a, dtype=np.float32) for a in (weights, X)]
    got = objective.gradient(*small, y, clip=clip)
    assert got.dtype == np.float32
    # Sums of up to 800 products of size 1, each rounded to 6e-8 of itself.
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=5e-5 * max(1, np.abs(want).max()))
    loss = objective.loss(*small, y)
    np.testing.assert_allclose(loss, objective.loss(weights, X, y), rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_evaluation_in_pieces_is_evaluation_at_once(name, monkeypatch):
    objective, weights, X, y = make(name)

    def everything():
        values = [
            objective.loss(weights, X, y),
            objective.gradient(weights, X, y),
            objective.gradient(weights, X, y, clip=0.5),
            objective.decision(weights, X),
        ]
        return values, objective.predict(weights, X)

    assert len(objective._pieces(len(weights), len(X))) == 1
    whole, labels = everything()
    for rows_a_piece in (1, 2):
        size = rows_a_piece * len(weights) * objective.width
        monkeypatch.setattr(batched, "_PIECE", size)
        assert len(objective._pieces(len(weights), len(X))) == -(-len(X) // rows_a_piece)
        parts, labels_by_part = everything()
        for part, at_once in zip(parts, whole, strict=True):
            np.testing.assert_allclose(part, at_once, rtol=0, atol=1e-12)
        np.testing.assert_allclose(labels_by_part, labels, rtol=0, atol=1e-12)


# Values, written out again in numpy --------------------------------------------------------


def plain_scores(spec, w, X):
    """[row] or [row, class], with loops and no batching; images are [row, column, channel]."""
    if spec.is_linear:
        return X @ w[: X.shape[1]] + (w[-1] if spec.intercept else 0.0)
    if spec.kind == "softmax":
        by_class = w.reshape(spec.classes, -1)
        ones = np.ones((len(X), int(spec.intercept)))
        return np.hstack([X, ones]) @ by_class.T
    h, d = spec.hidden, X.shape[1]
    first, second = w[: h * (d + 1)].reshape(h, d + 1), w[h * (d + 1) :]
    return np.maximum(X @ first[:, :d].T + first[:, d], 0) @ second[:h] + second[h]


def plain_losses(spec, z, y):
    if spec.kind == "least-squares":
        return (z - y) ** 2 / 2
    if spec.kind == "softmax":
        own = np.take_along_axis(z, np.tile(y[:, None].astype(int), (len(z), 1, 1)), axis=2)
        return np.log(np.exp(z).sum(axis=2)) - own[..., 0]
    margin = np.where(y == 1, z, -z)
    if spec.kind == "huber-svm":
        h = spec.huber_width
        middle = (1 + h - margin) ** 2 / (4 * h)
        return np.where(margin > 1 + h, 0, np.where(margin < 1 - h, 1 - margin, middle))
    return np.logaddexp(0, -margin)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("cnn")])
def test_values_of_linear_models_and_the_mlp_are_the_textbooks(name):
    objective, weights, X, y = make(name, rows=40)
    z = np.stack([plain_scores(objective.spec, w, X) for w in weights])
    np.testing.assert_allclose(objective.decision(weights, X), z, rtol=0, atol=1e-13)
    penalty = objective.spec.l2 / 2 * (weights**2).sum(axis=1)
    want = plain_losses(objective.spec, z, y).mean(axis=1) + penalty
    np.testing.assert_allclose(objective.loss(weights, X, y), want, rtol=1e-13)
    if objective.classes is None:
        np.testing.assert_allclose(objective.predict(weights, X), z, rtol=0, atol=1e-13)
    else:
        chosen = z.argmax(axis=2) if z.ndim == 3 else (z > 0).astype(int)
        assert objective.predict(weights, X).tolist() == chosen.tolist()
        want = (chosen == y).mean(axis=1)
        assert objective.accuracy(weights, X, y).tolist() == want.tolist()


def plain_convolution(image, kernel, bias):
    """[row, column, channel] with kernel [filter, channel, side, side], 'same' as in Keras."""
    height, width, _ = image.shape
    filters, _, side, _ = kernel.shape
    before = (side - 1) // 2
    out = np.zeros((height, width, filters)) + bias
    for i, j, a, b in np.ndindex(height, width, side, side):
        r, c = i + a - before, j + b - before
        if 0 <= r < height and 0 <= c < width:
            out[i, j] += kernel[:, :, a, b] @ image[r, c]
    return out


def plain_cnn(objective, w, x, image_shape):
    parts, at = [], 0
    for shape in objective.shapes:
        parts.append(w[at : at + int(np.prod(shape))].reshape(shape))
        at += parts[-1].size
    image = x.reshape(*image_shape[:2], -1)
    for kernel, bias in ((parts[0], parts[1]), (parts[2], parts[3]), (parts[4], parts[5])):
        image = np.maximum(plain_convolution(image, kernel, bias), 0)
        height, width, filters = (s // 2 * 2 for s in image.shape)
        blocks = image[:height, :width].reshape(height // 2, 2, width // 2, 2, filters)
        image = blocks.max(axis=(1, 3))
    flat = image.transpose(2, 0, 1).ravel()  # filters outermost: how the weights are stored
    units = np.maximum(parts[6] @ flat + parts[7], 0)
    return parts[8] @ units + parts[9]


@pytest.mark.parametrize("name", ["cnn 8x8", "cnn 9x11, l2", "cnn 8x8, colour", "cnn 28x28"])
def test_values_of_the_cnn_are_those_of_plain_loops(name):
    """Colour rows hold [row, column, channel], as image arrays and `Dataset.image_shape` do."""
    objective, weights, X, y = make(name, runs=2, rows=3)
    want = np.array([[plain_cnn(objective, w, x, CASES[name][2]) for x in X] for w in weights])
    np.testing.assert_allclose(objective.decision(weights, X), want, rtol=0, atol=1e-12)
    peak = want.max(axis=2, keepdims=True)
    log_sum = peak[..., 0] + np.log(np.exp(want - peak).sum(axis=2))
    chosen = np.take_along_axis(want, np.broadcast_to(y[None, :, None], (2, 3, 1)), axis=2)
    losses = (log_sum - chosen[..., 0]).mean(axis=1)
    losses = losses + objective.spec.l2 / 2 * (weights**2).sum(axis=1)
    np.testing.assert_allclose(objective.loss(weights, X, y), losses, rtol=1e-12)
    assert objective.predict(weights, X).tolist() == want.argmax(axis=2).tolist()
    want_accuracy = (want.argmax(axis=2) == y).mean(axis=1)
    assert objective.accuracy(weights, X, y).tolist() == want_accuracy.tolist()


@pytest.mark.parametrize(
    ("layer", "side", "corner", "lit"),
    [
        # A kernel that is 1 in one corner moves the image by one; what leaves it is lost.
        # 3x3 reads one before: pixel (r, c) goes to (r+1, c+1), lost from row or column 7.
        (0, 3, (0, 0), lambda r, c: r < 7 and c < 7),
        # ... and one after: (r-1, c-1), lost from row or column 0.
        (0, 3, (2, 2), lambda r, c: r > 0 and c > 0),
        # 2x2 on 4x4 maps reads nothing before: its first corner keeps everything.
        (1, 2, (0, 0), lambda r, c: True),
        # Its last reads one after: lost from the first row or column of 2x2 blocks of pixels.
        (1, 2, (1, 1), lambda r, c: r >= 2 and c >= 2),
        (1, 2, (0, 1), lambda r, c: c >= 2),
        (2, 2, (0, 0), lambda r, c: True),
        # On 2x2 maps: lost unless the pixel lies in the lower right quarter.
        (2, 2, (1, 1), lambda r, c: r >= 4 and c >= 4),
        (2, 2, (1, 0), lambda r, c: r >= 4),
    ],
)
def test_even_kernels_pad_below_and_to_the_right_as_keras_does(layer, side, corner, lit):
    objective = build(ObjectiveSpec("cnn", hidden=1, classes=2), 64, (8, 8))
    parts = [np.zeros(shape) for shape in objective.shapes]
    for place, identity in enumerate([(1, 1), (0, 0), (0, 0)]):
        parts[2 * place][(0, 0, *(corner if place == layer else identity))] = 1
    assert parts[2 * layer].shape[2:] == (side, side)
    parts[6][0, 0] = 1  # the hidden unit reads filter 0,
    parts[8][1, 0] = 1  # and class 1 reads the hidden unit
    weights = np.concatenate([part.ravel() for part in parts])[None]
    logits = objective.decision(weights, np.eye(64))[0]  # one lit pixel a row
    want = [float(lit(pixel // 8, pixel % 8)) for pixel in range(64)]
    assert logits[:, 1].tolist() == want
    assert not logits[:, 0].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["logistic", "huber-svm", "least-squares"])
def test_extreme_scores_neither_overflow_nor_lose_the_loss(kind, dtype):
    objective = build(ObjectiveSpec(kind, intercept=False), 1)
    X, w = np.array([[1.0], [-1.0]], dtype), np.array([[1000.0], [-1000.0], [0.0]], dtype)
    y = np.array([1, 0])  # the first run is right about both, the second wrong
    right = {"logistic": 0, "huber-svm": 0, "least-squares": (999**2 + 1000**2) / 4}[kind]
    wrong = {"logistic": 1000, "huber-svm": 1001, "least-squares": (1001**2 + 1000**2) / 4}[kind]
    at_zero = {"logistic": np.log(2), "huber-svm": 1, "least-squares": 1 / 4}[kind]
    np.testing.assert_allclose(objective.loss(w, X, y), [right, wrong, at_zero], rtol=1e-6)
    slopes = {
        "logistic": [0, -1, -0.5],
        "huber-svm": [0, -1, -1],
        "least-squares": [(999 + 1000) / 2, (-1001 - 1000) / 2, -0.5],
    }[kind]
    np.testing.assert_allclose(objective.gradient(w, X, y)[:, 0], slopes, rtol=1e-6)
    np.testing.assert_array_equal(objective.decision(w, X), [[1000, -1000], [-1000, 1000], [0, 0]])
    if kind != "least-squares":
        assert objective.predict(w, X).tolist() == [[1, 0], [0, 1], [0, 0]]
        assert objective.accuracy(w, X, y).tolist() == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_a_network_sure_of_itself_neither_overflows_nor_divides_by_nothing(kind, clip):
    """The last bias alone decides, by 1000: exact losses 0 and 1000, slopes 0 and 1."""
    objective = build(ObjectiveSpec(kind, hidden=2, classes=2), 64, (8, 8))
    weights = np.zeros((1, objective.parameters))
    weights[0, -1] = 1000
    X = np.zeros((1, 64))
    for label, loss in ((1, 0.0), (0, 1000.0)):
        y = np.array([label])
        assert objective.loss(weights, X, y).tolist() == [loss]
        gradient = objective.gradient(weights, X, y, clip=clip)
        slope = np.zeros(objective.parameters)
        slope[-1] = 1 - label
        if kind == "cnn":
            slope[-2] = -slope[-1]
        norm = np.linalg.norm(slope)
        want = slope * (min(1, clip / norm) if clip and norm else 1)
        np.testing.assert_allclose(gradient[0], want, rtol=0, atol=1e-12)


def test_known_values_of_the_rounded_hinge():
    """With h = 0.5 at margins 2, 1.5, 1, 0.5, 0 and -3: flat, joint, middle, joint, straight."""
    objective = build(ObjectiveSpec("huber-svm", intercept=False), 1)
    margins = np.array([[2.0], [1.5], [1.0], [0.5], [0.0], [-3.0]])
    for label, sign in ((1, 1.0), (0, -1.0)):
        X, y = np.array([[sign]]), np.array([label])
        np.testing.assert_allclose(objective.loss(margins, X, y), [0, 0, 1 / 8, 0.5, 1, 4])
        slopes = objective.gradient(margins, X, y)[:, 0]
        np.testing.assert_allclose(slopes, [0, 0, -0.5, -1, -1, -1])


@pytest.mark.parametrize(
    ("spec", "features", "image_shape", "parameters"),
    [
        (ObjectiveSpec("logistic"), 50, None, 51),
        (ObjectiveSpec("logistic", intercept=False), 50, None, 50),
        (ObjectiveSpec("mlp", hidden=10), 50, None, 521),
        (ObjectiveSpec("mlp", hidden=8), 100, None, 817),
        (ObjectiveSpec("mlp", hidden=10), 49, None, 511),
        (ObjectiveSpec("cnn", hidden=10, classes=10), 784, (28, 28), 1448),
        # 8(27+1) + 2 * 8(32+1) + 10(8*4*4+1) + 10 * 11
        (ObjectiveSpec("cnn"), 3072, (32, 32, 3), 2152),
    ],
)
def test_parameter_counts_are_the_papers(spec, features, image_shape, parameters):
    objective = build(spec, features, image_shape)
    assert objective.parameters == parameters
    flat = torch.arange(2.0 * 3 * parameters).view(2, 3, parameters)
    assert torch.equal(objective.flatten(objective.unflatten(flat)), flat)


# Refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "good", "bad", "sentence"),
    [
        ("logistic", [0, 1, 1], [-1, 1], r"labels=\[-1  1\] to be 0 and 1, two classes, for logis"),
        ("huber-svm", [0, 0], [0, 2], r"labels=\[0 2\] to be 0 and 1, two classes, for huber-svm"),
        ("mlp", [1.0, 0.0], [0, 0.5], r"labels=\[0.  0.5\] to be 0 and 1, two classes, for mlp"),
        ("cnn", [0, 9, 3], [10], r"labels=\[10\] to be 0..9, for cnn"),
        ("cnn", [0], [-1, 4], r"labels=\[-1  4\] to be 0..9, for cnn"),
    ],
)
def test_labels_a_loss_cannot_take_are_named(kind, good, bad, sentence):
    objective = build(ObjectiveSpec(kind), 64, (8, 8))
    objective.check_labels(np.array(good))
    with pytest.raises(InvalidArgument, match=f"Expected {sentence}"):
        objective.check_labels(np.array(bad))


def test_least_squares_takes_any_target_but_has_no_accuracy():
    objective = build(ObjectiveSpec("least-squares"), 2)
    objective.check_labels(np.array([-3.5, 1e9]))
    with pytest.raises(InvalidArgument, match="kind=least-squares to be a classifier"):
        objective.accuracy(np.zeros((1, 3)), np.zeros((1, 2)), np.zeros(1))


@pytest.mark.parametrize("kind", ["logistic", "mlp", "cnn"])
def test_wrong_shapes_are_sentences(kind):
    objective = build(ObjectiveSpec(kind), 64, (8, 8))
    p = objective.parameters
    X, y = np.zeros((4, 64)), np.zeros(4)
    for weights in (np.zeros(p - 1), np.zeros((2, p - 1)), np.zeros((0, p)), np.float64(0)):
        for call in (objective.loss, objective.gradient, objective.accuracy):
            with pytest.raises(InvalidArgument, match=rf"weights.shape=\(.* to be \(runs, {p}\)"):
                call(weights, X, y)
    for rows in (X[0], X[:, 1:], X[None]):
        for call in (objective.decision, objective.predict):
            with pytest.raises(InvalidArgument, match=r"X.shape=\(.* to be \(rows, 64\)"):
                call(np.zeros((1, p)), rows)


def test_weights_may_have_the_axes_that_training_gives_them():
    objective = build(ObjectiveSpec("logistic"), 3)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((2, 3, 1, 4))
    X, y = rng.standard_normal((7, 3)), np.arange(7) % 2
    flat = weights.reshape(6, 4)
    for name in ("loss", "gradient", "accuracy"):
        call = getattr(objective, name)
        many = call(weights, X, y)
        assert many.shape[:3] == (2, 3, 1)
        np.testing.assert_array_equal(many.reshape(6, *many.shape[3:]), call(flat, X, y))
    for name in ("decision", "predict"):
        call = getattr(objective, name)
        np.testing.assert_array_equal(call(weights, X).reshape(6, 7), call(flat, X))
    assert objective.loss(weights[0, 0, 0], X, y).shape == ()


@pytest.mark.parametrize(
    ("features", "image_shape", "sentence"),
    [
        (64, None, r"image_shape=None to be given for cnn. Pass \(28, 28\), say."),
        (64, (8, 9), r"image_shape=\(8, 9\) to hold the 64 numbers of a row"),
        (64, (8, 8, 3), r"image_shape=\(8, 8, 3\) to hold the 64 numbers of a row"),
        (64, (4, 16), r"image_shape=\(4, 16\) to be at least 8 x 8"),
        (0, (8, 8), "image_shape"),
    ],
)
def test_a_cnn_needs_an_image_it_can_halve_thrice(features, image_shape, sentence):
    with pytest.raises(InvalidArgument, match=f"Expected {sentence}"):
        build(ObjectiveSpec("cnn"), features, image_shape)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "logstic"}, "kind=logstic to be one of .* Did you mean logistic"),
        ({"kind": "logistic", "l2": -1}, "l2=-1 >= 0 and finite"),
        ({"kind": "huber-svm", "huber_width": 0}, "huber_width=0 > 0 and finite"),
        ({"kind": "mlp", "hidden": 0}, "hidden=0 >= 1"),
        ({"kind": "cnn", "classes": 1}, "classes=1 >= 2"),
        ({"kind": "mlp", "intercept": False}, "intercept=False to be True for mlp"),
        ({"kind": "cnn", "intercept": False}, "intercept=False to be True for cnn"),
    ],
)
def test_a_description_that_means_nothing_is_refused(arguments, sentence):
    with pytest.raises(InvalidArgument, match=f"Expected {sentence}"):
        ObjectiveSpec(**arguments)


@pytest.mark.parametrize("kind", ["logistic", "mlp"])
@pytest.mark.parametrize("features", [0, 2.0, True])
def test_the_number_of_features_is_a_whole_number(kind, features):
    with pytest.raises(InvalidArgument, match="Expected features="):
        build(ObjectiveSpec(kind), features)


def test_read_only_and_borrowed_arrays_are_left_alone():
    for name in ("logistic", "mlp", "cnn 8x8"):
        objective, weights, X, y = make(name)
        kept = weights.copy(), X.copy(), y.copy()
        for array in (weights, X, y):
            array.flags.writeable = False
        objective.loss(weights, X, y)
        objective.gradient(weights, X, y, clip=0.5)
        objective.accuracy(weights, X, y)
        for array, before in zip((weights, X, y), kept, strict=True):
            np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("kind", ["logistic", "mlp"])
def test_labels_must_be_as_many_as_rows(kind):
    objective = build(ObjectiveSpec(kind), 3)
    weights, X = np.zeros((1, objective.parameters)), np.zeros((4, 3))
    for y in (np.ones(1), np.ones(3), np.ones((4, 1))):
        for call in (objective.loss, objective.gradient, objective.accuracy):
            with pytest.raises(InvalidArgument, match=r"y.shape=\(.* to be \(4,\)"):
                call(weights, X, y)


def test_whole_number_weights_are_numbers():
    objective = build(ObjectiveSpec("logistic", intercept=False), 1)
    X = np.array([[0.9], [-0.9]])
    decision = objective.decision(np.array([[2]]), X)
    np.testing.assert_allclose(decision, [[1.8, -1.8]])
