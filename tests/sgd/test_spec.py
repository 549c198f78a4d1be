"""`TrainSpec`: what it refuses, what it fills in, and that it survives being written down."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.errors import InvalidArgument
from sordino.models.constants import KINDS, ObjectiveSpec
from sordino.sgd.spec import INITS, ORDERS, Schedule, TrainSpec

LOGISTIC = ObjectiveSpec("logistic")


def make(**values):
    defaults = {"objective": LOGISTIC, "learning_rate": 0.5, "batch_size": 8}
    if "steps" not in values and "epochs" not in values:
        defaults["steps"] = 10
    return TrainSpec(**(defaults | values))


BAD = {
    "neither length": (
        {"steps": None, "epochs": None},
        "steps=None or epochs to be given. Pass steps=1000",
    ),
    "both lengths": ({"steps": 5, "epochs": 3}, "steps=5 or epochs to be given, not both"),
    "no steps": ({"steps": 0}, "steps=0 >= 1"),
    "half an epoch": ({"epochs": 1.5}, "epochs=1.5 to be a whole number >= 1"),
    "no epochs": ({"epochs": 0}, "epochs=0 >= 1"),
    "rate 0": ({"learning_rate": 0}, "learning_rate=0 > 0 and finite. Pass 0.5, say."),
    "rate inf": ({"learning_rate": math.inf}, "learning_rate=inf > 0 and finite"),
    "rate nan": ({"learning_rate": math.nan}, "learning_rate=nan to be a number, not NaN"),
    "rate text": ({"learning_rate": "0.1"}, "learning_rate='0.1' to be a number"),
    "batch 0": ({"batch_size": 0}, "batch_size=0 >= 1"),
    "batch text": ({"batch_size": "8"}, "batch_size='8' to be a whole number >= 1"),
    "order": ({"order": "shufle"}, "order=shufle to be one of .* Did you mean shuffle"),
    "init": ({"init": "varied"}, "init=varied to be one of vary, fixed, given. Did you mean vary"),
    "dtype": ({"dtype": "float16"}, "dtype=float16 to be one of float32, float64"),
    "init seed": ({"init_seed": -1}, "init_seed=-1 >= 0"),
    "radius": ({"radius": 0.0}, "radius=0.0 > 0 and finite"),
    "average": ({"average_every": 0}, "average_every=0 >= 1"),
    "restart": ({"restart_every": -2}, "restart_every=-2 >= 1"),
    "rate without poisson": ({"sample_rate": 0.1}, "order=shuffle to be poisson where sample_rate"),
    "sample rate 0": ({"order": "poisson", "sample_rate": 0}, r"sample_rate=0 in \(0, 1\]"),
    "sample rate 2": ({"order": "poisson", "sample_rate": 2}, r"sample_rate=2 in \(0, 1\]"),
    "clip 0": ({"max_grad_norm": 0}, "max_grad_norm=0 > 0"),
    "clip -1": ({"max_grad_norm": -1}, "max_grad_norm=-1 > 0"),
    "noise -1": ({"noise_multiplier": -1.0}, "noise_multiplier=-1.0 >= 0 and finite"),
    "noise inf": (
        {"noise_multiplier": math.inf, "max_grad_norm": 1.0},
        "noise_multiplier=inf >= 0 and finite",
    ),
    "noise without clip": (
        {"noise_multiplier": 1.0},
        "max_grad_norm=None to be finite where there is noise",
    ),
    "noise with infinite clip": (
        {"noise_multiplier": 1.0, "max_grad_norm": math.inf},
        "max_grad_norm=None to be finite where there is noise",
    ),
    "private count, poisson": (
        {"order": "poisson", "fixed_divisor": False},
        "fixed_divisor=False to be True with poisson sampling or noise",
    ),
    "private count, noise": (
        {"max_grad_norm": 1.0, "noise_multiplier": 1.0, "fixed_divisor": False},
        "fixed_divisor=False to be True with poisson sampling or noise",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_spec_that_means_nothing_is_one_sentence(name):
    values, sentence = BAD[name]
    with pytest.raises(InvalidArgument, match=f"^Expected {sentence}"):
        make(**values)


@pytest.mark.parametrize(
    ("make_schedule", "sentence"),
    [
        (lambda: Schedule.constant(0), "learning_rate=0 > 0 and finite"),
        (lambda: Schedule.per_epoch(-1), "learning_rate=-1 > 0 and finite"),
        (lambda: Schedule.strongly_convex_rate(0, 1), "smooth=0 > 0 and finite"),
        (lambda: Schedule.strongly_convex_rate(1, 0), "strongly_convex=0 > 0"),
        (lambda: Schedule("constnt", rate=1.0), "schedule=constnt .* Did you mean constant"),
    ],
)
def test_a_schedule_that_means_nothing_is_one_sentence(make_schedule, sentence):
    with pytest.raises(InvalidArgument, match=f"^Expected {sentence}"):
        make_schedule()


def test_schedules_give_the_papers_rates():
    constant, per_epoch = Schedule.constant(0.5), Schedule.per_epoch(2.0)
    convex = Schedule.strongly_convex_rate(smooth=4.0, strongly_convex=0.5)
    for update, epoch in [(1, 1), (2, 1), (7, 3), (1000, 40)]:
        assert constant.at(update, epoch) == 0.5
        assert per_epoch.at(update, epoch) == 2.0 / epoch
        assert convex.at(update, epoch) == min(1 / 4, 1 / (0.5 * update))
    # It turns from 1/beta to 1/(gamma t) at t = beta/gamma = 8.
    assert [convex.at(t, 1) for t in (7, 8, 9)] == [0.25, 0.25, 1 / 4.5]


def test_a_number_is_a_constant_schedule():
    assert make(learning_rate=2).schedule == Schedule.constant(2.0)
    assert make(learning_rate=2) == make(learning_rate=Schedule.constant(2.0))
    assert make(learning_rate=Schedule.per_epoch(3.0)).schedule.kind == "per-epoch"


def test_an_infinite_clip_is_no_clip():
    infinite = make(max_grad_norm=math.inf)
    assert infinite.max_grad_norm is None
    assert infinite == make()
    assert infinite.to_json() == make().to_json()
    assert make(max_grad_norm=2.0).max_grad_norm == 2.0


@pytest.mark.parametrize(
    ("values", "fixed"),
    [
        ({}, False),
        ({"order": "permute-once"}, False),
        ({"order": "fixed"}, False),
        ({"max_grad_norm": 1.0}, False),
        ({"fixed_divisor": True}, True),
        ({"order": "poisson"}, True),
        ({"order": "poisson", "sample_rate": 0.5}, True),
        ({"max_grad_norm": 1.0, "noise_multiplier": 0.1}, True),
        ({"max_grad_norm": 1.0, "noise_multiplier": 0.0}, False),
    ],
)
def test_the_divisor_is_fixed_wherever_the_count_is_private(values, fixed):
    assert make(**values).divides_by_batch_size is fixed


def test_a_spec_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().batch_size = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().schedule.rate = 3.0


@pytest.mark.parametrize(
    ("rows", "batch", "drop_last", "per_epoch"),
    [
        (37, 8, False, 5),
        (37, 8, True, 4),
        (40, 8, False, 5),
        (40, 8, True, 5),
        (8, 8, False, 1),
        (9, 8, True, 1),
        (9, 1, False, 9),
    ],
)
def test_steps_of_an_epoch_and_of_the_whole(rows, batch, drop_last, per_epoch):
    by_epochs = make(batch_size=batch, drop_last=drop_last, epochs=3)
    by_steps = make(batch_size=batch, drop_last=drop_last, steps=17)
    assert by_epochs.steps_per_epoch(rows) == by_steps.steps_per_epoch(rows) == per_epoch
    assert by_epochs.total_steps(rows) == 3 * per_epoch
    assert by_steps.total_steps(rows) == 17


def test_a_batch_larger_than_the_data_is_refused_however_long_the_training():
    for spec in (make(epochs=2), make(steps=2), make(epochs=2, drop_last=True)):
        with pytest.raises(InvalidArgument, match="batch_size=8 <= 7, the number of records"):
            spec.total_steps(7)


# Writing down -----------------------------------------------------------------------------

positive = st.floats(1e-6, 1e6)
maybe_whole = st.none() | st.integers(1, 50)


@st.composite
def specs(draw):
    kind = draw(st.sampled_from(KINDS))
    objective = ObjectiveSpec(
        kind,
        l2=draw(st.floats(0, 10)),
        intercept=kind in ("mlp", "cnn") or draw(st.booleans()),
        huber_width=draw(positive),
        hidden=draw(st.integers(1, 100)),
        classes=draw(st.integers(2, 100)),
    )
    rate = draw(
        positive
        | st.builds(Schedule.constant, positive)
        | st.builds(Schedule.per_epoch, positive)
        | st.builds(Schedule.strongly_convex_rate, positive, positive)
    )
    order = draw(st.sampled_from(sorted(ORDERS)))
    clip = draw(st.none() | positive | st.just(math.inf))
    finite = clip is not None and math.isfinite(clip)
    noise = draw(st.floats(0, 10)) if finite else 0.0
    by_steps = draw(st.booleans())
    length = draw(st.integers(1, 10**6))
    return TrainSpec(
        objective,
        rate,
        draw(st.integers(1, 10**4)),
        steps=length if by_steps else None,
        epochs=None if by_steps else length,
        order=order,
        sample_rate=draw(st.none() | st.floats(1e-9, 1)) if order == "poisson" else None,
        drop_last=draw(st.booleans()),
        max_grad_norm=clip,
        noise_multiplier=noise,
        fixed_divisor=draw(st.sampled_from([None, True])),
        radius=draw(st.none() | positive),
        average_every=draw(maybe_whole),
        restart_every=draw(maybe_whole),
        init=draw(st.sampled_from(INITS)),
        init_seed=draw(st.integers(0, 2**63)),
        dtype=draw(st.sampled_from(["float32", "float64"])),
    )


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(specs())
def test_a_spec_written_down_comes_back_equal(spec):
    assert TrainSpec.from_dict(spec.to_dict()) == spec
    text = spec.to_json()
    again = TrainSpec.from_dict(json.loads(text))
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.to_json() == text
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert "Infinity" not in text
    assert "NaN" not in text


@pytest.mark.parametrize("word", sorted(ORDERS))
def test_an_order_is_written_by_the_word_that_files_hold(word):
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 8, steps=1, order=word)
    assert spec.order is ORDERS[word]
    assert type(spec.to_dict()["order"]) is str
    assert spec.to_dict()["order"] == spec.written_order == word
    assert spec == dataclasses.replace(spec, order=spec.order)


@pytest.mark.parametrize("word", ["cyclic", "full", [], None])
def test_an_order_is_read_by_the_word_that_is_written_and_no_other(word):
    assert make(order="cyclic").to_dict()["order"] == "fixed"
    with pytest.raises(InvalidArgument, match="order="):
        TrainSpec.from_dict(make().to_dict() | {"order": word})


@pytest.mark.parametrize("order", [[], None, 1, "full"])
def test_an_order_that_is_none_is_refused(order):
    with pytest.raises(InvalidArgument, match="order="):
        make(order=order)


def test_from_dict_leaves_what_it_is_given_alone():
    values = make().to_dict()
    before = json.dumps(values)
    TrainSpec.from_dict(values)
    assert json.dumps(values) == before


def test_a_number_may_stand_for_the_schedule_in_a_written_spec():
    values = make().to_dict() | {"learning_rate": 0.5}
    assert TrainSpec.from_dict(values) == make()


def test_an_unknown_key_is_named_with_the_nearest():
    values = make().to_dict() | {"batchsize": 3}
    with pytest.raises(InvalidArgument, match=r"key=batchsize .*Did you mean batch_size"):
        TrainSpec.from_dict(values)


@pytest.mark.parametrize(
    "change", [{"objective": {"kind": "logistic", "hiden": 3}}, {"learning_rate": {"rat": 1.0}}]
)
def test_an_unknown_key_further_in_is_named_with_the_nearest(change):
    with pytest.raises(InvalidArgument, match="Did you mean"):
        TrainSpec.from_dict(make().to_dict() | change)


@pytest.mark.parametrize(
    "values",
    [
        ({"max_grad_norm": 1}, {"max_grad_norm": 1.0}),
        ({"radius": 1}, {"radius": 1.0}),
        ({"learning_rate": Schedule.constant(1)}, {"learning_rate": 1.0}),
        (
            {"objective": ObjectiveSpec("logistic", l2=1)},
            {"objective": ObjectiveSpec("logistic", 1.0)},
        ),
        ({"order": "poisson", "sample_rate": 1}, {"order": "poisson", "sample_rate": 1.0}),
        ({"drop_last": np.bool_(True)}, {"drop_last": True}),
    ],
)
def test_equal_specs_give_equal_text(values):
    one, other = (make(**v) for v in values)
    assert one == other
    assert one.to_json() == other.to_json()


@pytest.mark.parametrize(
    "values",
    [
        {"batch_size": np.int64(8)},
        {"steps": np.int32(10)},
        {"max_grad_norm": np.float32(0.5)},
        {"objective": ObjectiveSpec("mlp", hidden=np.int64(10))},
    ],
)
def test_numpys_numbers_can_be_written_down(values):
    plain = {k: v if k == "objective" else v.item() for k, v in values.items()}
    assert make(**values).to_json() == make(**plain).to_json()


def test_a_spec_loads_no_torch_and_no_numba():
    code = (
        "import sys; from sordino.sgd import TrainSpec; from sordino.models import "
        "ObjectiveSpec; TrainSpec(ObjectiveSpec('logistic'), 0.5, 8, steps=3).to_json(); "
        "print([m for m in ('torch', 'numba', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
