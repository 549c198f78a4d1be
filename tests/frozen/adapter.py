"""Everything of sordino's inside that the harness asks: a name that moves is changed here alone.

Plain values go in and come out, so that the harness does not know how sordino keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Plain = dict[str, Any]


def _or_refused(ask: Callable[[], Any]) -> Any:
    """An answer, or the class of the refusal; its reason is prose."""
    from sordino import InvalidArgument, NotApplicable

    try:
        return ask()
    except (InvalidArgument, NotApplicable) as refusal:
        return {"refused": type(refusal).__name__, "reason": bool(str(refusal))}


def prove(spec: Plain, norm: float, n: int, relation: str, delta: float, released: str) -> Any:
    """Noise in every step: each theorem's epsilon, or that it refuses."""
    from sordino import Relation
    from sordino.proofs import prove as ask
    from sordino.sgd.spec import TrainSpec

    def answer() -> Plain:
        made = TrainSpec.from_dict(spec)
        constants = made.objective.constants(norm)
        found = ask(made, constants, n, Relation(relation), delta, released=released)
        theorems = {
            each.method: [
                each.value,
                "applies" if each.applies else "reason" if each.reason else "silent",
                *(each.kind, each.relation.value, each.released, len(each.notes)),
            ]
            for each in found.findings
        }
        best = found.best
        return {
            "theorems": theorems,
            "best": None if best is None else [best.epsilon, best.sampling, len(best.assumes)],
            "guarantees": [[each.epsilon, each.delta, each.released] for each in found.guarantees],
        }

    return _or_refused(answer)


def bounds(evidence: Plain, delta: float, *, curve: bool = False) -> Any:
    """What a certificate carries: each theorem's bound on the release, perhaps the whole curve."""
    from sordino.assessment.stages.prove import best_guess, bounds_of_evidence, curve_of
    from sordino.proofs.evidence import from_plain

    def answer() -> Plain:
        made = from_plain(evidence)
        found, profile = bounds_of_evidence(made, delta)
        proof = made.proof()
        drawn: Plain = {}
        if curve:
            drawn = {"curve": list(curve_of(profile).y[5:120:23]), "guess": best_guess(profile)}
        return {
            **drawn,
            "bounds": [
                [
                    *(each.name, each.epsilon, each.kind, each.used),
                    *(bool(each.reason), bool(each.theorem), len(each.checked)),
                ]
                for each in found
            ],
            "epsilon": profile.epsilon(1e-8),
            "delta": profile.delta(1.0),
            "guarantee": [proof.guarantee(delta).epsilon, proof.released, proof.sampling],
            "unit": proof.unit,
            "assumes": len(proof.assumes),
            "facts": sorted(made.facts()),
            "again": made.to_plain() == evidence,
        }

    return _or_refused(answer)


def least_noise(evidence: Plain, epsilon: float, delta: float) -> Any:
    """The least noise of such a release for a budget."""
    from dataclasses import replace

    from sordino.proofs.adaptive import concentrated_budget
    from sordino.proofs.evidence import from_plain
    from sordino.proofs.objective import objective_noise
    from sordino.proofs.theorems import noise_for_steps

    def answer() -> Any:
        made: Any = from_plain(evidence)
        group = {"rows_per_person": made.rows_per_person}
        if evidence["kind"] == "output-perturbation":
            return made.done().sigma(epsilon, delta)
        if evidence["kind"] == "adaptive":
            return concentrated_budget(epsilon, delta, made.relation, **group)
        if evidence["kind"] == "objective-perturbation":
            noise = objective_noise(
                *(made.problem, epsilon, delta),
                gradient_left=made.gradient_left,
                problems=made.problems,
                **group,
            )
            return list(noise)
        unit = replace(made, spec=replace(made.spec, noise_multiplier=1.0))
        return noise_for_steps(unit.done(), epsilon, delta, made.accountant)

    return _or_refused(answer)


def plain(ask: Callable[[Plain], Any], case: Plain) -> Any:
    """An answer as JSON holds it, or that it is refused."""
    return _or_refused(lambda: _jsonable(ask(case)))


def _jsonable(value: Any) -> Any:
    import numpy as np

    if isinstance(value, dict):
        return {name: _jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_jsonable(each) for each in value]
    return value if value is None or isinstance(value, int | float | str) else float(value)


def golden_answers() -> dict[tuple[str, str], Callable[[Plain], Any]]:
    """From section and name of golden vectors to what our code says of one of their cases."""
    return {
        **_of_gaussians(),
        **_of_steps(),
        **_of_outputs(),
        **_of_the_last_iterate(),
        **_of_rest(),
    }


def _of_gaussians() -> dict[tuple[str, str], Callable[[Plain], Any]]:
    import numpy as np

    from sordino import Relation
    from sordino.accounting import gaussian, renyi
    from sordino.accounting.profile import GaussianProfile, RenyiProfile

    named: Plain = {"relation": Relation.ADD_OR_REMOVE_ONE, "theorem": "a test"}

    def sigma(case: Plain) -> Any:
        how = case["eps"], case["delta"]
        classical = _or_refused(lambda: gaussian.classical_sigma(*how))
        return [gaussian.sigma(*how), classical]

    def converted(case: Plain) -> Any:
        how = np.array([float(case["alpha"])]), np.array([case["rho"]]), case["delta"]
        one = RenyiProfile(orders=(case["alpha"],), values=(case["rho"],), **named)
        ways = (renyi.mironov, renyi.canonne, renyi.asoodeh)
        return [*(way(*how)[0] for way in ways), one.epsilon(case["delta"])]

    def by_renyi(case: Plain) -> Any:
        values = GaussianProfile(parameter=case["mu"], **named).renyi(renyi.ORDERS)
        assert values is not None
        curve = RenyiProfile(orders=tuple(renyi.ORDERS), values=tuple(values), **named)
        return curve.epsilon(case["delta"])

    return {
        ("1", "delta_of_eps_mu"): lambda c: gaussian.delta(c["eps"], c["mu"]),
        ("1", "eps_of_mu_delta"): lambda c: gaussian.epsilon(c["mu"], c["delta"]),
        ("1", "sigma_calibration_unit_sensitivity"): sigma,
        ("1", "classical_first_violation"): lambda c: gaussian.delta(c["eps"], 1 / c["eps"]),
        ("1", "rdp_to_dp_fixed_alpha"): converted,
        ("1", "gaussian_rdp_to_dp"): by_renyi,
    }


def _of_steps() -> dict[tuple[str, str], Callable[[Plain], Any]]:
    from sordino import Relation
    from sordino.accounting import calibrate, naive_strong
    from sordino.accounting.dp_sgd import pld, rdp
    from sordino.accounting.pld.loss import PoissonLoss

    poisson: Plain = {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE}
    swapped: Plain = {"sampling": "poisson", "relation": Relation.REPLACE_ONE}
    fixed: Plain = {"sampling": "fixed-size", "relation": Relation.REPLACE_ONE}

    def run(case: Plain) -> tuple[float, float, int]:
        return case["z"], case["q"], case["T"]

    def one_step(case: Plain) -> Any:
        law = PoissonLoss(case["q"], case["z"])
        return [law.log_delta(case["eps"], way) for way in ("forward", "backward")]

    def moments(case: Plain) -> Any:
        import numpy as np

        profile = pld(case["z"], case["q"], 1, **poisson)
        return profile.renyi(np.array([float(case["alpha"])]))

    def epsilons(case: Plain) -> Any:
        found = pld(*run(case), **poisson)
        ways = [found.epsilon(case["delta"], way) for way in ("both", "forward", "backward")]
        return [*ways, rdp(*run(case), **poisson).epsilon(case["delta"])]

    def table(case: Plain) -> Any:
        how = case["eps"], case["delta"], case["q"], case["T"]
        noises = {
            "naive_classical": naive_strong.naive_noise_classical,
            "naive": naive_strong.naive.noise,
            "dwork": naive_strong.strong_dwork.noise,
            "kairouz": naive_strong.strong_kairouz.noise,
            "optimal": naive_strong.strong_optimal.noise,
        }
        return {
            **{name: noise(*how, sensitivity=1.0) for name, noise in noises.items()},
            **{
                name: calibrate.noise_multiplier(*how, **poisson, method=name)
                for name in ("pld", "rdp")
            },
            "notes": naive_strong.notes_naive_noise(*how).value,
        }

    def violated(case: Plain) -> Any:
        how = case["eps"], case["delta"], case["q"], case["T"]
        naive = naive_strong.naive.noise(*how, sensitivity=1.0)
        actual = pld(case["sigma_notes"], case["q"], case["T"], **poisson).delta(case["eps"])
        return [naive_strong.notes_naive_noise(*how).value, naive, actual]

    def optimal(case: Plain) -> Any:
        found, logs = naive_strong.kairouz_optimal(case["eps0"], case["k"])
        return [found[case["i"]], logs[case["i"]]]

    return {
        ("2", "poisson_single_step"): one_step,
        ("2", "rdp_sgm"): moments,
        ("2", "pld_eps"): epsilons,
        ("2", "calibration_table"): table,
        ("2", "notes_naive_formula_violations"): violated,
        ("2", "kov_optimal"): optimal,
        ("2", "advanced_composition"): lambda c: [
            way(c["eps0"], c["T"], c["delta2"])
            for way in (naive_strong.dwork, naive_strong.kairouz)
        ],
        ("2", "amplification"): lambda c: naive_strong.amplified(c["eps0"], c["q"]),
        ("2", "replace_single_step"): lambda c: [
            pld(c["z"], c["q"], 1, **how).delta(c["eps"]) for how in (swapped, fixed)
        ],
        ("2", "wor_replace_composition"): lambda c: [
            pld(*run(c), **how).epsilon(c["delta"]) for how in (fixed, poisson)
        ],
    }


def _of_outputs() -> dict[tuple[str, str], Callable[[Plain], Any]]:
    import math

    import numpy as np

    from sordino import Relation, sensitivity
    from sordino.accounting.last_iterate import permuted
    from sordino.models.constants import Constants

    replaced: Plain = {"relation": Relation.REPLACE_ONE}

    def chen(case: Plain) -> Any:
        sizes = case["nu"]
        how: Plain = {
            "constants": Constants(case["R"], case["L"], case["mu"]),
            **{"n": sum(sizes), "batch_size": sizes[0]},
            **{"epochs": case["T"], "eta0": case["eta0"], **replaced},
        }
        if "tau" in case:
            return sensitivity.rsgd_ar(tau=case["tau"], **how).positions
        return sensitivity.nsgd(**how).positions

    def fixed_step(case: Plain) -> Any:
        constants = Constants(case["R"], case["L"], case["mu"])
        how: Plain = {"constants": constants, "n": case["n"], "batch_size": case["n"], **replaced}
        long = sensitivity.contraction(rates=np.full(5000, case["eta"]), **how)
        return [sensitivity.fixed_step_limit(rate=case["eta"], **how).worst, long.worst]

    def mixture(case: Plain) -> Any:
        how: Plain = {"sensitivities": case["Delta"], "sigma": case["sigma"], **replaced}
        return [
            permuted.hockey_mixture(weights=case["q"], **how).epsilon(case["delta"]),
            permuted.worst_position(**how).epsilon(case["delta"]),
            permuted.renyi_mixture(weights=case["q"], **how).epsilon(case["delta"]),
        ]

    def bolt_on(case: Plain) -> Any:
        how: Plain = {"constants": Constants(math.sqrt(2), 0.5, 0.0)}
        how |= {"n": case["N"], "batch_size": case["B"]}
        fraction = sensitivity.bolt_on_fractional(rate=case["eta"], steps=case["T"], **how)
        how |= {"rates": np.full(case["T"], case["eta"]), **replaced}
        return [
            fraction,
            sensitivity.bolt_on_convex(divisor=case["B"], **how).worst,
            sensitivity.bolt_on_convex(same_order=False, **how).worst,
            sensitivity.bolt_on_convex(**how).worst,
        ]

    def strongly_convex(case: Plain) -> Any:
        constants = Constants(case["L"], case["beta"], case["gamma"])
        how: Plain = {"constants": constants, "n": case["n"], "batch_size": case["b"], **replaced}
        steps = case["k"] * case["n"] // case["b"]
        rates = np.minimum(1 / case["beta"], 1 / (case["gamma"] * np.arange(1, steps + 1)))
        return [
            sensitivity.bolt_on_strongly_convex(steps=steps, **how).worst,
            sensitivity.contraction(rates=rates, **how).worst,
        ]

    def descent(case: Plain) -> Any:
        constants = Constants(case["R"], case["L"], case["lam"])
        how: Plain = {"constants": constants, "n": case["n"], "rate": case["eta"], **replaced}
        return [
            sensitivity.gradient_descent(steps=case["T"], **how).worst,
            sensitivity.zhang_gradient_descent(**how).worst,
        ]

    def reshuffled(case: Plain) -> Any:
        found = sensitivity.reshuffled_contributions(
            constants=Constants(case["R"], case["L"], case["mu"]),
            n=case["m"] * case["nu"],
            batch_size=case["nu"],
            rates=np.repeat(case["eta0"] / np.arange(1, case["T"] + 1), case["m"]),
            **replaced,
        )
        profile = permuted.reshuffled(
            contributions=found.epochs, weights=found.shares, sigma=case["sigma"], **replaced
        )
        return [found.epochs, profile.delta(1.0)]

    return {
        ("3", "rsgd_deltas"): chen,
        ("3", "prop2"): fixed_step,
        ("3", "mixture"): mixture,
        ("3", "bolt_on"): bolt_on,
        ("3", "bolt_on_strongly_convex"): strongly_convex,
        ("3", "reshuffle_each_epoch"): reshuffled,
        ("10", "outpert_gd_delta"): descent,
    }


def _of_the_last_iterate() -> dict[tuple[str, str], Callable[[Plain], Any]]:
    import math

    import numpy as np

    from sordino import Relation
    from sordino.accounting.last_iterate import convex
    from sordino.accounting.last_iterate.poisson import Iteration
    from sordino.accounting.profile import LossProfile

    any_way: Plain = {"relation": Relation.ZERO_OUT}

    def map_of(case: Plain) -> Plain:
        return {"contraction": case["c"], "shift": case["a"], "noise": case["s"], **any_way}

    def full(case: Plain) -> Any:
        found = convex.full_batch(steps=case["T"], **map_of(case))
        return [found.mu, found.epsilon(1e-5)]

    def cyclic(case: Plain) -> Any:
        how = {**map_of(case), "batches": case["l"], "steps": case["l"] * case["E"]}
        places = [convex.cyclic(**how, position=at).mu for at in range(case["l"])]
        both = convex.cyclic(**how), convex.permuted_once(**how)
        return [places, *(each.epsilon(1e-5) for each in both)]

    def cyclic_domain(case: Plain) -> Any:
        how = {**map_of(case), "batches": case["l"], "steps": case["l"] * case["E"]}
        return [
            convex.cyclic(**how, diameter=case["D"]).mu,
            convex.cyclic(**how).mu,
        ]

    def domain(case: Plain) -> Any:
        closed = convex.full_batch(steps=case["T"], diameter=case["D"], **map_of(case))
        shifts = np.full(case["T"], case["a"])
        searched = convex.bounded_domain(
            case["c"], shifts, case["s"], diameter=case["D"], **any_way
        )
        return [closed.mu, searched.mu]

    def varying(case: Plain) -> Any:
        t = np.arange(1, case["T"] + 1)
        eta = 0.5 / np.sqrt(t) if "sqrt" in case["eta"] else 0.05 * t
        c, a, s = 1 - eta * case["lam"], eta * case["grad_diff"] / case["n"], eta * case["sigma"]
        return convex.schedule(c, a, s, **any_way).mu

    def composite(case: Plain) -> Any:
        z, count = case["z"], case["k"]
        diameter = case["muD"] * z * math.sqrt(count)
        run = Iteration(case["q"], 1.0, 1.0, math.sqrt(2) * z, 10**6, diameter)
        profile = LossProfile(components=run.composite(count, 0.5), theorem="", **any_way)
        return [profile.delta(case["eps"], way) for way in ("forward", "backward")]

    def projected(case: Plain) -> Any:
        return convex.projected_one_visit(
            shift=case["a"],
            noise=case["s"],
            diameter=case["diam_phi"],
            steps_after=case["steps_after"],
            **any_way,
        ).delta(case["eps"])

    def linear(case: Plain) -> Any:
        return convex.linear_loss(
            noise_multiplier=case["sigma"], sample_rate=case["q"], steps=case["T"]
        )

    def errors(case: Plain) -> Any:
        one = convex.linear_loss(noise_multiplier=1.0, sample_rate=0.1, steps=100)
        return one.beta(case["alpha"], "forward")

    return {
        ("4", "full_batch"): full,
        ("4", "single_visit"): lambda c: (
            convex.one_visit(steps_after=c["steps_after"], **map_of(c)).mu
        ),
        ("4", "cyclic"): cyclic,
        ("4", "cyclic_domain"): cyclic_domain,
        ("4", "domain"): domain,
        ("4", "time_varying"): varying,
        ("4", "poisson_composite"): composite,
        ("4", "contraction_coefficient"): projected,
        ("5", "delta"): lambda c: [
            linear(c).delta(c["eps"], way) for way in ("forward", "backward")
        ],
        ("5", "eps"): lambda c: linear(c).epsilon(c["delta"]),
        ("5", "tradeoff_T100_q0_1_s1"): errors,
    }


def _of_rest() -> dict[tuple[str, str], Callable[[Plain], Any]]:
    from sordino import Relation
    from sordino.accounting import objective, zcdp
    from sordino.audit import bounds, canaries
    from sordino.audit.worst_case import Family, tradeoff
    from sordino.intrinsic import epsilon, variability

    relations = {"add_remove": Relation.ADD_OR_REMOVE_ONE, "replace": Relation.REPLACE_ONE}

    def problem(case: Plain, kind: str | None = None) -> Plain:
        huber = case.get("loss", "").startswith("huber")
        return {
            "regulariser": case["Lambda"],
            "norm": case.get("X", 1.0),
            "curvature": 1.0 if huber else 0.25,
            "kind": kind or ("huber-svm" if huber else "logistic"),
            "relation": relations[case["adjacency"]],
        }

    def approximate(case: Plain) -> Any:
        how = {name: case[name] for name in ("sigma", "sigma_out")}
        how["minimum_error"] = case["gamma"]
        return [
            objective.objective_perturbation(**how, **problem(case, kind)).delta(case["eps"])
            for kind in ("huber-svm", "logistic")
        ]

    def least(case: Plain) -> Any:
        return objective.noise(epsilon=case["eps"], delta=case["delta"], **problem(case))

    def joint(case: Plain) -> Any:
        of = case["X"], case["K"], relations[case["adjacency"]]
        return [objective.joint_norm(*of), objective.joint_norm(*of, softmax=True)]

    def rho_zcdp(case: Plain) -> Any:
        rho, delta = case["rho"], case["delta"]
        profile = zcdp.concentrated(rho=rho, relation=Relation.REPLACE_ONE)
        return [
            zcdp.canonne_epsilon(rho, delta),
            zcdp.bun_steinke(rho, delta),
            profile.epsilon(delta),
            zcdp.rho(case["eps_cks"], delta),
        ]

    def counted(case: Plain) -> Any:
        counts = case["fp"], case["n0"], case["fn"], case["n1"]
        how = {"delta": case["delta"], "confidence": 1 - case["level"]}
        found = [
            bounds.clopper_pearson_upper(case["fp"], case["n0"], case["level"] / 2),
            bounds.from_counts(*counts, **how).epsilon,
            bounds.gaussian_mu_from_counts(*counts, confidence=how["confidence"]),
        ]
        if case["delta"] > 0:
            found.append(bounds.from_counts(*counts, **how, if_gaussian=True).epsilon)
        return found

    def steinke(case: Plain) -> Any:
        counts = case["m"], case["r"], case["v"]
        found = canaries.steinke(*counts, delta=case["delta"], confidence=1 - case["p"])
        return [found.epsilon, canaries.steinke_p_value(*counts, 1.0, case["delta"])]

    def f_dp(case: Plain) -> Any:
        counts, sure = (case["m"], case["c_prime"], case["c"]), 1 - case["tau"]
        found = canaries.f_dp_one_run(*counts, delta=1e-5, confidence=sure)
        return [canaries.f_dp_mu(*counts, confidence=sure), found.epsilon]

    def errors(case: Plain) -> Any:
        profile = Family(case["q"], case["T"]).profile(case["sigma"])
        return [
            [tradeoff(profile, row["alpha"], way) for way in ("forward", "backward", "both")]
            for row in case["rows"]
        ]

    def orders(case: Plain) -> Any:
        n = case["N"]
        found = [str(variability.overlap_mean(n)), str(variability.overlap_variance(n))]
        for epochs in (1, 2, 3):
            claimed = variability.chebyshev(n, epochs)
            found += [
                str(variability.exact_tail(n, epochs)),
                str(variability.not_above_sensitivity(n, epochs)),
                str(claimed),
            ]
        return [list(variability.rencontres(n)), found]

    def tables(case: Plain) -> Any:
        how = case["Delta"], case["sigma_i"], case["delta"]
        found = epsilon.intrinsic_epsilon(*how, observed=False)
        return [found.printed.epsilon, found.exact.epsilon]

    return {
        ("6", "sigma_for_eps"): lambda c: Family(c["q"], c["T"], c["delta"]).noise(c["eps"]),
        ("6", "sigma_check"): lambda c: Family(c["q"], c["T"]).profile(c["z"]).epsilon(1e-5),
        ("6", "tradeoff_pld"): errors,
        ("7", "clopper_pearson"): counted,
        ("7", "steinke_one_run"): steinke,
        ("7", "mahloujifar_gdp"): f_dp,
        ("8", "rencontres"): orders,
        ("8", "batch_overlap"): lambda c: [
            str(variability.overlap_mean(c["N"], c["B"])),
            str(variability.overlap_variance(c["N"], c["B"])),
        ],
        ("9", "eps"): tables,
        ("10", "objpert_gaussian_sigma"): least,
        ("10", "objpert_pure_scale"): lambda c: [
            objective.pure_scale(epsilon=c["eps"], **problem(c, kind))
            for kind in ("huber-svm", "logistic")
        ],
        ("10", "objpert_amp_delta"): approximate,
        ("10", "ovr"): joint,
        ("10", "zcdp_to_dp"): rho_zcdp,
    }
