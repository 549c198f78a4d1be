"""Records: every kind comes back as it went, and nothing damaged comes back at all."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import math
import pkgutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino.accounting
from sordino.accounting.compose import GroupProfile, SummedProfile, compose
from sordino.accounting.last_iterate.convex import ProjectedProfile
from sordino.accounting.last_iterate.hidden_state import WithSlack
from sordino.accounting.last_iterate.linear_loss import LinearLoss
from sordino.accounting.objective import ObjectiveLoss, ObjectiveProfile
from sordino.accounting.pld.allocation import AllocationLoss, AllocationReplaceLoss
from sordino.accounting.pld.convolution import Limit
from sordino.accounting.pld.loss import (
    ApproximateLoss,
    FixedSizeLoss,
    GaussianLoss,
    Loss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.pld.person import MixtureLoss, PersonLoss, PersonReplaceLoss
from sordino.accounting.pld.pure import DiscreteLoss, LaplaceLoss
from sordino.accounting.pld.truncated import (
    TruncatedLoss,
    TruncatedReplaceLoss,
    TruncatedZeroLoss,
)
from sordino.accounting.profile import (
    ApproximateProfile,
    GaussianProfile,
    LossProfile,
    Profile,
    RenyiProfile,
)
from sordino.accounting.record import DEEPEST, LAWS, PROFILES, from_plain, to_plain
from sordino.accounting.selection import SelectedProfile
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

ADD = {"relation": Relation.ADD_OR_REMOVE_ONE, "theorem": "a test", "notes": ("one", "zwei: ä")}
SWAP = {**ADD, "relation": Relation.REPLACE_ONE}


def laws(*components, about=ADD):
    return LossProfile(components=components, **about)


APPROXIMATE = ApproximateProfile(budget=(0.1, 1e-9), **ADD)
SHORT = RenyiProfile(orders=(2.0, 8.5), values=(0.1 / 3, math.inf), **ADD)
EVERY = {
    "gaussian": GaussianProfile(parameter=0.1 + 0.2, **ADD),
    "lost": GaussianProfile(parameter=math.inf, **SWAP),
    "losses": laws((PoissonLoss(0.01, 1.1), 30), (GaussianLoss((0.2, 0.4), (0.25, 0.75)), 1)),
    "allocated": laws((AllocationLoss(40, 2.0), 3), (AllocationLoss(40, 2.0, at_most=True), 1)),
    "allocated, replaced": laws((AllocationReplaceLoss(9, 3.0), 2), about=SWAP),
    "replaced": laws(
        (PoissonReplaceLoss(0.01, 1.1), 3), (FixedSizeLoss(1 / 3, 2.0), 2), about=SWAP
    ),
    "person": laws((PersonLoss(0.01, 1.1, 4), 30)),
    "replaced person": laws((PersonReplaceLoss(0.01, 1.1, 2), 3), about=SWAP),
    "mixture": laws((MixtureLoss(2.0, (0.0, 0.3, 1.0), (0.5, 0.3, 0.2), True), 3)),
    "pure": laws(
        (LaplaceLoss(0.4, 0.1), 3),
        (DiscreteLoss((1.0, 0.0, -1.0), (0.5, 0.5 - 0.5 / math.e, 0.5 / math.e)), 2),
    ),
    "truncated": laws((TruncatedLoss(0.01, 1.1, 130, 10_000), 30)),
    "truncated zero": laws(
        (TruncatedZeroLoss(0.01, 1.1, 130, 10_000), 30),
        about={**ADD, "relation": Relation.ZERO_OUT},
    ),
    "truncated replace": laws((TruncatedReplaceLoss(0.01, 1.1, 130, 10_000), 3), about=SWAP),
    "linear": laws((LinearLoss(0.1, 1.0, 20), 1)),
    "approximate loss": laws((ApproximateLoss(0.5, 1e-9), 2)),
    "objective loss": laws((ObjectiveLoss(0.3, 0.01, 0.0, True), 1), about=SWAP),
    "renyi": SHORT,
    "composed": compose([ConcentratedProfile(rho=0.01, **ADD), SHORT]),  # numpy's floats inside
    "approximate": APPROXIMATE,
    "concentrated": ConcentratedProfile(rho=0.02, xi=1e-3, **ADD),
    "objective": ObjectiveProfile(
        gradient_mu=0.1, output_mu=0.001, kappa=0.01, leverage=0.04, **ADD
    ),
    "huber": ObjectiveProfile(gradient_mu=0.1, output_mu=0.0, kappa=0.01, leverage=None, **ADD),
    "projected": ProjectedProfile(visit=0.3, later=math.inf, count=4, **ADD),
    "group": GroupProfile(one=APPROXIMATE, size=3, **ADD),
    "summed": SummedProfile(parts=((APPROXIMATE, 2), (SHORT, 1)), **ADD),
    "selected": SelectedProfile(
        candidates=((GaussianProfile(parameter=0.1, **ADD), 1), (APPROXIMATE, 2)),
        mean=3.0,
        shape=math.inf,
        **ADD,
    ),
    "slack": WithSlack(base=GaussianProfile(parameter=1.0, **ADD), slack=1e-8, **ADD),
}
PLAIN = {name: json.loads(json.dumps(to_plain(profile))) for name, profile in EVERY.items()}


class TestRoundTrip:
    @pytest.mark.parametrize("profile", EVERY.values(), ids=EVERY)
    def test_every_kind_comes_back(self, profile):
        text = json.dumps(to_plain(profile), allow_nan=False)
        found = from_plain(json.loads(text))
        assert type(found) is type(profile)
        assert found == profile
        assert (found.theorem, found.notes) == (profile.theorem, profile.notes)
        for delta in (1e-3, 1e-7):
            assert found.epsilon(delta) == profile.epsilon(delta)
        assert json.dumps(to_plain(found)) == text

    def test_every_class_has_a_name(self):
        """A new profile or law without one would be refused by the ledger, at its release."""
        for module in pkgutil.iter_modules(sordino.accounting.__path__):
            importlib.import_module(f"sordino.accounting.{module.name}")
        for base, kinds, shown in ((Profile, PROFILES, EVERY), (Loss, LAWS, None)):
            concrete = {
                found
                for found in descendants(base)
                if found.__module__.startswith("sordino.") and not inspect.isabstract(found)
            }
            assert concrete == {kind.of for kind in kinds.values()}
            if shown is not None:
                assert concrete == {type(profile) for profile in shown.values()}
        used = {type(law) for p in EVERY.values() if type(p) is LossProfile for law, _ in p.losses}
        assert used == {kind.of for kind in LAWS.values()}

    def test_names_are_those_of_the_first_ledgers(self):
        """These are in files: a name may be added, never changed."""
        assert {"gaussian", "losses", "renyi", "approximate", "concentrated"} <= set(PROFILES)
        assert {"objective", "projected", "group", "summed", "slack"} <= set(PROFILES)
        assert PLAIN["lost"] == {
            "kind": "gaussian",
            "relation": "replace-one",
            "theorem": "a test",
            "notes": ["one", "zwei: ä"],
            "mu": "inf",
        }
        law = {"kind": "poisson", "sample_rate": 0.01, "noise_multiplier": 1.1}
        assert PLAIN["losses"]["laws"][0] == [law, 30]

    def test_a_limit_is_not_part_of_what_leaked(self):
        profile = LossProfile(components=((PoissonLoss(0.1, 1.0), 5),), limit=Limit(1.0), **ADD)
        assert "limit" not in to_plain(profile)
        assert from_plain(to_plain(profile)) == profile

    def test_other_classes_are_refused(self):
        class Mine(GaussianProfile):
            pass

        for wrong in (Mine(parameter=0.1, **ADD), "gaussian", None):
            with pytest.raises(InvalidArgument, match="kind that can be recorded"):
                to_plain(wrong)
        nan = RenyiProfile(orders=(2.0,), values=(math.nan,), **ADD)
        with pytest.raises(InvalidArgument, match=r"values\[0\] is nan"):
            to_plain(nan)


def descendants(base):
    return {found for sub in base.__subclasses__() for found in {sub, *descendants(sub)}}


HUGE = 10**5000
"""Python refuses to write such a number as text."""
DAMAGED = [
    ("gaussian", "mu", value)
    for value in (
        -0.1,
        "0.3",
        True,
        None,
        math.nan,
        math.inf,
        "-inf",
        "Inf",
        HUGE,
        2**53 + 1,
        [],
        {},
    )
] + [
    ("gaussian", "kind", "GaussianProfile"),
    ("gaussian", "kind", ["gaussian"]),
    ("gaussian", "kind", None),
    ("gaussian", "relation", "REPLACE_ONE"),
    ("gaussian", "relation", ["replace-one"]),
    ("gaussian", "theorem", 3),
    ("gaussian", "notes", "one"),
    ("gaussian", "notes", [1]),
    ("renyi", "orders", [1.0, 8.5]),
    ("renyi", "orders", [2.0]),
    ("renyi", "orders", [2.0, "inf"]),
    ("renyi", "values", [-0.1, 1.0]),
    ("approximate", "budget", [0.1]),
    ("approximate", "budget", [0.1, 1.0]),
    ("approximate", "budget", [0.1, 1e-9, 0.0]),
    ("concentrated", "xi", -1e-9),
    ("objective", "kappa", 0.009),  # less than its leverage says
    ("objective", "gradient_mu", 0.0),
    ("objective", "leverage", "inf"),
    ("projected", "count", -1),
    ("projected", "count", 4.0),
    ("projected", "count", True),
    ("group", "size", 0),
    ("group", "size", HUGE),
    ("group", "relation", "zero-out"),  # not that of the profile inside
    ("summed", "parts", []),
    ("summed", "parts", [[PLAIN["gaussian"], 0]]),
    ("summed", "parts", [[PLAIN["lost"], 1]]),
    ("slack", "slack", 0.0),
    ("slack", "base", {"kind": "poisson", "sample_rate": 0.1, "noise_multiplier": 1.0}),
    ("losses", "laws", [[PLAIN["gaussian"], 1]]),
    ("losses", "laws", [[{"kind": "gaussian", "mus": [0.1], "weights": [0.5]}, 1]]),
    ("losses", "laws", [[{"kind": "gaussian", "mus": [0.1], "weights": [0.5, 0.5]}, 1]]),
    ("losses", "laws", [[{"kind": "gaussian", "mus": [0.1, 0.2], "weights": [-0.5, 1.5]}, 1]]),
    ("losses", "laws", [[{"kind": "gaussian", "mus": [], "weights": []}, 1]]),
    ("losses", "laws", [[{"kind": "poisson", "sample_rate": 1.1, "noise_multiplier": 1.0}, 1]]),
    ("losses", "laws", [[{"kind": "poisson", "sample_rate": 0.1, "noise_multiplier": 0.0}, 1]]),
    ("losses", "laws", [[{"kind": "poisson", "sample_rate": 0.1, "noise_multiplier": -1.0}, 1]]),
    ("losses", "laws", [[{"kind": "poisson", "sample_rate": 0.1, "noise_multiplier": 1.0}, -1]]),
    # Laws of a record that comes or goes, and of one that is replaced.
    ("losses", "relation", "replace-one"),
    ("linear", "relation", "replace-one"),
    ("replaced", "relation", "add-or-remove-one"),
    (
        "lost",
        None,
        {
            **PLAIN["objective loss"],
            "laws": [[{**PLAIN["objective loss"]["laws"][0][0], "replace": False}, 1]],
        },
    ),
]


class TestDamage:
    @pytest.mark.parametrize(("name", "key", "value"), DAMAGED, ids=range(len(DAMAGED)))
    def test_each_is_refused_in_a_sentence(self, name, key, value):
        damaged = value if key is None else {**PLAIN[name], key: value}
        with pytest.raises(InvalidArgument, match=r"^The profile.*\.$") as caught:
            from_plain(damaged)
        assert len(str(caught.value)) < 400

    @pytest.mark.parametrize("name", PLAIN)
    def test_a_key_too_many_or_too_few(self, name):
        for key in PLAIN[name]:
            fewer = {other: value for other, value in PLAIN[name].items() if other != key}
            with pytest.raises(InvalidArgument):
                from_plain(fewer)
        for key in ("limit", 3, None):
            with pytest.raises(InvalidArgument):
                from_plain({**PLAIN[name], key: 1.0})

    @pytest.mark.parametrize("wrong", [None, [], "gaussian", 1, {}, {"kind": {}}])
    def test_no_record_at_all(self, wrong):
        with pytest.raises(InvalidArgument):
            from_plain(wrong)

    def test_depth(self):
        profile = EVERY["gaussian"]
        for _ in range(DEEPEST):
            profile = WithSlack(base=profile, slack=1e-9, **ADD)
        assert from_plain(to_plain(profile)) == profile
        with pytest.raises(InvalidArgument, match="nested more than 20 deep"):
            to_plain(WithSlack(base=profile, slack=1e-9, **ADD))
        endless = copy.deepcopy(PLAIN["slack"])
        endless["base"] = endless
        with pytest.raises(InvalidArgument, match="nested more than 20 deep"):
            from_plain(endless)
        nested: list = []
        for _ in range(100_000):
            nested = [nested]
        for key in ("mu", "notes", "theorem", "kind"):
            with pytest.raises(InvalidArgument):
                from_plain({**PLAIN["gaussian"], key: nested})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["inf", "-inf", "nan", "gaussian", "replace-one", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value, path=()):
    """The way to everything inside a record."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(PLAIN)), st.data())
def test_a_changed_record_is_refused_or_says_what_is_written(name, data):
    record = copy.deepcopy(PLAIN[name])
    paths = [path for path in places(record) if path]
    *way, last = data.draw(st.sampled_from(paths))
    holder = record
    for key in way:
        holder = holder[key]
    old = holder[last]
    scaled = [old * 2, -old, old * 0.5] if type(old) in (int, float) else [None]
    elsewhere = data.draw(st.sampled_from(paths))
    moved = record
    for key in elsewhere:
        moved = moved[key]
    new = data.draw(json_values | st.sampled_from(scaled) | st.just(copy.deepcopy(moved)))
    if data.draw(st.booleans()) and isinstance(holder, dict):
        del holder[last]
    else:
        holder[last] = new
    try:
        found = from_plain(record)
    except InvalidArgument:
        return
    assert isinstance(found, Profile)
    assert to_plain(found) == record
