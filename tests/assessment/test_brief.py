from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sordino.assessment.brief import Brief
from sordino.data.columns import Column
from sordino.errors import InvalidArgument
from sordino.estimators import methods
from sordino.privacy import default_delta

HARDER = {
    "effort": "thorough",
    "seeds": 99,
    "neighbours": 3,
    "audit_runs": 64,
    "confidence": 0.9,
}
GRIDS = ["own_noise", "release_estimate"]
ATTACKS = ["attack_release", "attack_plain", "attack_mechanism"]
DESCRIBED = {"age": {"bounds": [0, 120]}, "sex": {"levels": ["f", "m"]}, "id": {"ignore": True}}


def test_it_is_light_to_import() -> None:
    program = (
        "import sys; from sordino.assessment.brief import Brief; Brief(epsilon=2, effort='quick')\n"
        "Brief.from_toml(Brief.template())\n"
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"epsilon": 0}, "Expected epsilon=0 > 0 and finite. Pass the budget you promise"),
        ({"epsilon": float("inf")}, "Expected epsilon=inf > 0 and finite."),
        ({"epsilon": float("nan")}, "Expected epsilon=nan to be a number, not NaN."),
        ({"epsilon": "1"}, "Expected epsilon='1' to be a number."),
        ({"epsilon": True}, "Expected epsilon=True to be a number."),
        ({"delta": 0}, "Expected delta=0 > 0 and finite. 1e-6 is usual"),
        ({"delta": 1}, "Expected delta=1 in (0, 1). 1e-6 is usual"),
        ({"delta": 1.5}, "Expected delta=1.5 in (0, 1)."),
        ({"l2": -1}, "Expected l2=-1 >= 0 and finite."),
        ({"max_rows_per_person": 0}, "Expected max_rows_per_person=0 >= 1."),
        ({"max_rows_per_person": None}, "max_rows_per_person=None to be a whole number >= 1."),
        ({"max_rows_per_person": 1.5}, "max_rows_per_person=1.5 to be a whole number >= 1."),
        ({"data_norm": 0}, "Expected data_norm=0 > 0 and finite. Pass a norm that you know"),
        ({"data_norm": 1e31}, "Expected data_norm=1e+31 in (1e-30, 1e+30)."),
        ({"seeds": 19}, "Expected seeds=19 >= 20."),
        ({"neighbours": 1}, "Expected neighbours=1 >= 2."),
        ({"audit_runs": 63}, "Expected audit_runs=63 >= 64."),
        ({"audit_runs": True}, "Expected audit_runs=True to be a whole number >= 64."),
        ({"confidence": 0.5}, "Expected confidence=0.5 in (0.5, 1)."),
        ({"confidence": 1}, "Expected confidence=1 in (0.5, 1)."),
        ({"model": "logistics"}, "one of logistic, svm, mlp. Did you mean logistic?"),
        ({"model": 3}, "Expected model=3 to be one of logistic, svm, mlp."),
        ({"effort": "fast"}, "Expected effort=fast to be one of quick, standard, thorough."),
        ({"method": "rsgd-a"}, "Did you mean rsgd-ar"),
        ({"method": "none"}, "Expected method=none to promise something. It adds no noise"),
        ({"method": "majority"}, "Expected method=majority to promise something."),
        ({"model": "mlp", "method": "rsgd-ar"}, "method=rsgd-ar to be dp-sgd for model=mlp."),
        ({"data": ""}, "Expected data='' to be text. Pass a dataset's name or a file."),
        ({"data": "a\udc80.csv"}, "to be text in UTF-8."),
        ({"target": 3}, "Expected target=3 to be text."),
        ({"classes": "no"}, "--classes=no to be at least two"),
        ({"classes": ["no"]}, "Expected classes=[1 of them] to be a list of 2 or more."),
        ({"classes": 3}, "Expected classes=3 to be a list."),
        ({"classes": [None, 1]}, "The setting classes is null, and no text, number, truth"),
        ({"described": {"age": {"bound": [0, 1]}}}, "Did you mean bounds?"),
        ({"described": {"age": {"bounds": [1, 1]}}}, "bounds of column age=[1, 1] to be [low"),
        ({"described": {"y": {"ignore": True}}, "target": "y"}, "not to describe the target."),
        ({"described": ["age"]}, "to be tables by name."),
        ({"described": DESCRIBED, "columns": "c.toml"}, "columns=c.toml to be left out."),
        ({"pair": "m:p"}, "Expected pair=m:p to be left out without a mechanism."),
        ({"mechanism": "m"}, "mechanism=m to have a colon between the module and the name."),
        ({"mechanism": "m:f", "pair": "p"}, "Expected pair=p to have a colon"),
        ({"mechanism": "m:f", "seeds": 30}, "seeds=30 to be left out with a mechanism."),
        ({"mechanism": "m:f", "pair": "m:p", "target": "y"}, "target=y to be left out with a pair"),
    ],
)
def test_what_cannot_be_assessed_is_one_sentence(given: dict, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Brief(**given)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_method_that_promises_something_may_be_asked_for() -> None:
    for name in set(methods.NAMES) - {"none", "majority"}:
        assert Brief(method=name).method == name
    assert Brief(model="mlp", method="dp-sgd").method == "dp-sgd"


def test_the_effort_decides_what_is_not_given() -> None:
    quick, usual, much = (Brief(effort=name) for name in ("quick", "standard", "thorough"))
    assert [each.grid_seeds for each in (quick, usual, much)] == [32, 98, 200]
    assert [each.grid_neighbours for each in (quick, usual, much)] == [16, 50, 100]
    assert [each.most_audit_runs for each in (quick, usual, much)] == [1_000, 40_000, 100_000]
    assert [each.repeats for each in (quick, usual, much)] == [5, 20, 50]
    given = replace(quick, seeds=20, neighbours=2, audit_runs=64)
    assert (given.grid_seeds, given.grid_neighbours, given.most_audit_runs) == (20, 2, 64)


@pytest.mark.parametrize(("effort", "points"), [("quick", 5), ("standard", 7), ("thorough", 9)])
@pytest.mark.parametrize("epsilon", [1.0, 0.1234, 37.0])
def test_the_curve_goes_from_a_tenth_to_ten_times_the_target(effort, points, epsilon) -> None:
    curve = Brief(epsilon=epsilon, effort=effort).curve_epsilons
    assert len(curve) == points
    assert curve[points // 2] == epsilon
    # Two digits: at most 5 % off.
    assert curve[0] == pytest.approx(epsilon / 10, rel=0.05)
    assert curve[-1] == pytest.approx(epsilon * 10, rel=0.05)
    ratios = np.diff(np.log(curve))
    assert ratios.max() < 2 * ratios.min()
    assert all(float(f"{each:.2g}") == each for each in curve if each != epsilon)


def test_the_default_delta_is_exactly_what_it_prints() -> None:
    cases = {447: "5e-06", 448: "4e-06", 1000: "1e-06", 1001: "9e-07", 1294: "5e-07", 3: "0.01"}
    assert {rows: repr(default_delta(rows)) for rows in cases} == cases
    for rows in range(10, 3000, 7):
        delta = default_delta(rows)
        assert delta <= 1 / rows**2 * (1 + 1e-15)
        # One digit more would be above.
        digit, power = f"{delta:.0e}".split("e")
        assert float(f"{int(digit) + 1}e{power}") > 1 / rows**2


def test_delta_comes_with_its_reason() -> None:
    delta, reason = Brief().delta_and_reason(1294)
    assert delta == 5e-07
    assert reason.startswith("1 / N^2 for N = 1,294 records, rounded down to one digit: far below")
    assert Brief(delta=1e-5).delta_and_reason(1294) == (1e-5, "As given.")
    delta, reason = Brief(delta=1e-4).delta_and_reason(1294)
    assert delta == 1e-4
    assert "too large to mean much: it is above 0.1 / N for N = 1,294 records" in reason
    assert Brief().delta_and_reason(None)[0] == 1e-5


def test_descriptions_are_made_plain_and_handed_on(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.touch()
    brief = Brief(
        data=path,
        target="ill",
        classes=np.array([0, 1]),
        described={"age": {"bounds": (np.float64(0), 120)}, "sex": {"levels": ("f", "m")}},
    )
    assert brief.data == str(path)
    assert brief.classes == (0, 1)
    known = brief.source().described()
    assert known.classes == (0, 1)
    assert known.columns == {"age": Column(bounds=(0, 120)), "sex": Column(levels=("f", "m"))}
    assert not known.read_from_data
    assert replace(brief, read_from_data=True).source().described().read_from_data


def test_options_come_before_the_file() -> None:
    brief = Brief(epsilon=2.0, described=DESCRIBED, read_from_data=True)
    assert brief.with_options(epsilon=None, effort=None) == brief
    assert brief.with_options(epsilon=3.0) == replace(brief, epsilon=3.0)
    other = brief.with_options(columns="c.toml")
    assert (other.columns, other.described, other.read_from_data) == ("c.toml", {}, False)
    with pytest.raises(InvalidArgument, match="epsilon=0 > 0"):
        brief.with_options(epsilon=0)
    with pytest.raises(InvalidArgument, match="Did you mean audit_runs"):
        brief.with_options(audit_run=100)


def test_differences_are_said_with_both_values(tmp_path, monkeypatch) -> None:
    brief = Brief(data="people.csv", target="ill", classes="0,1", described=DESCRIBED)
    assert brief.differences(brief) == []
    assert replace(brief, epsilon=2).differences(brief) == ["epsilon is 2.0 here and 1.0 there"]
    assert replace(brief, delta=1e-6).differences(brief) == [
        "delta is 1e-06 here and left out there"
    ]
    words = replace(brief, classes=["0", "1"])
    assert words.differences(brief) == ['classes is ["0", "1"] here and [0, 1] there']
    turned = replace(brief, described=dict(reversed(DESCRIBED.items())))
    assert turned.differences(brief) == [
        "order of columns is id, sex, age here and age, sex, id there"
    ]
    narrow = replace(brief, described=DESCRIBED | {"age": {"bounds": [0, 90]}})
    assert narrow.differences(brief) == [
        "columns.age is bounds = [0, 90] here and bounds = [0, 120] there"
    ]
    # What makes the same release is the same.
    assert replace(brief, data_dir="elsewhere", **HARDER).differences(brief) == []
    there = brief.to_toml()
    monkeypatch.chdir(tmp_path)
    (moved,) = brief.differences(Brief.from_toml(there))
    assert moved.startswith(f"data is {tmp_path / 'people.csv'} here and ")


@pytest.mark.parametrize(
    ("changed", "stages"),
    [
        ({}, []),
        ({"epsilon": 2.0, "l2": 0.1}, []),
        ({"confidence": 0.95}, ATTACKS),
        ({"audit_runs": 500}, ATTACKS),
        ({"seeds": 30}, GRIDS),
        ({"neighbours": 3}, GRIDS),
        ({"effort": "quick"}, [*GRIDS, *ATTACKS, "release"]),
        ({"effort": "quick", "audit_runs": 400}, [*GRIDS, *ATTACKS, "release"]),
    ],
)
def test_looking_harder_does_some_stages_again(changed: dict, stages: list[str]) -> None:
    brief = Brief()
    assert replace(brief, **changed).redone(brief) == stages
    # The effort decides nothing of an attack whose runs are given.
    given = replace(brief, audit_runs=400)
    assert replace(given, effort="quick").redone(given) == [*GRIDS, "release"]


def test_settings_are_plain_values() -> None:
    settings = Brief(classes=["no", "yes"], described=DESCRIBED).settings()
    assert settings["classes"] == '["no", "yes"]'
    assert settings["columns.sex"] == 'levels = ["f", "m"]'
    assert settings["epsilon"] == 1.0
    assert settings["delta"] is None
    assert all(isinstance(each, str | int | float | bool | None) for each in settings.values())


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "assessment-digits-binary-logistic-epsilon-1"),
        (
            {"epsilon": 0.5, "effort": "quick"},
            "assessment-digits-binary-logistic-epsilon-0.5",
        ),
        ({"data": "../my data/t.csv.gz", "model": "svm"}, "assessment-t-svm-epsilon-1"),
        ({"mechanism": "mine.py:train"}, "assessment-mine.py-train"),
    ],
)
def test_a_study_has_a_place_of_its_own(given: dict, name: str) -> None:
    assert Brief(**given).default_directory() == name
