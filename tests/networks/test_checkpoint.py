"""A training that is killed goes on: the same batches, other noise, every step counted once."""

from __future__ import annotations

import copy
import json
import random
import signal
import stat
import subprocess
import sys
import time
from itertools import chain, pairwise, product
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from trainings import ROWS, entropy, network, records, training, weights

from sordino.errors import InvalidArgument, PrivacyLeakWarning
from sordino.networks import PrivateTrainer
from sordino.networks.checkpoint import FILE, CheckpointError


def run(trainer: PrivateTrainer, steps: int | None = None) -> None:
    for batch in trainer:  # a state is kept when the next batch is asked for
        if batch.step == steps:
            break
        trainer.step(batch)


# Killed at random moments

CHILD = """
import json, os, sys, time
sys.path.insert(0, sys.argv[3])
import torch
torch.set_num_threads(1)
from trainings import network, training

def say(**what):
    os.write(log, (json.dumps(what) + "\\n").encode())

log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
module = network()
optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.9)
trainer = training(module, optimizer=optimizer, steps=200, checkpoint=sys.argv[1],
                   checkpoint_every=7, sampling=sys.argv[4], also={"scheduler": scheduler})
say(begun=trainer.steps_done, process=os.getpid())
trainer._noise.stream().standard_normal((4,))  # compiled now, so that kills meet the steps
print("ready", flush=True)
for batch in trainer:
    places = trainer._batches.of(batch.step).tolist()
    before = trainer._stream.positions
    trainer.step(batch)
    scheduler.step()
    say(step=batch.step, places=places, before=before, after=trainer._stream.positions,
        process=os.getpid())
    time.sleep(0.002)
say(ended=trainer.steps_done, epsilon=trainer.guarantee().epsilon, rate=scheduler.get_last_lr(),
    process=os.getpid())
print("finished", flush=True)
sys.stdin.read()
"""


def child(where: Path, log: Path, sampling: str) -> subprocess.Popen[str]:
    here = str(Path(__file__).parent)
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(where), str(log), here, sampling],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("sampling", "kills"),
    [
        ("poisson", 1),
        pytest.param("poisson", 10, marks=pytest.mark.slow),
        pytest.param("allocation", 10, marks=pytest.mark.slow),
    ],
)
def test_sigkill_at_random_moments(tmp_path, sampling, kills):
    where, log = tmp_path / "kept", tmp_path / "log"
    moments = random.Random(kills)
    for _ in range(kills):
        process = child(where, log, sampling)
        # A number of steps, and then any moment of the next few: not all before the first.
        lines = _lines(log) + moments.choice([0, 3, 30, 150 // kills])
        while _lines(log) < lines:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.02))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert [each.name for each in where.iterdir() if not each.name.endswith(".partial")] == [FILE]
    last = child(where, log, sampling)
    assert last.communicate("")[0] == "finished\n"
    said = [json.loads(line) for line in log.read_text().splitlines()]
    _check_log(said, kills, sampling)


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def _check_log(said: list[dict], kills: int, sampling: str) -> None:
    processes = list(dict.fromkeys(each["process"] for each in said))
    assert len(processes) == kills + 1
    # Every step was done, and the batch of a step is the same in every process.
    batches: dict[int, list[int]] = {}
    reached = 0
    keys_of: dict[int, set[str]] = {}
    for process in processes:
        own = [each for each in said if each["process"] == process]
        begun = own[0]["begun"]
        # A step is done again only behind the last checkpoint: at most seven; and the last one
        # may have been done and not yet told.
        assert begun == 200 or begun % 7 == 0
        assert begun - 1 <= reached <= begun + 7
        steps = [each for each in own if "step" in each]
        assert [each["step"] for each in steps] == list(range(begun, begun + len(steps)))
        for each in steps:
            assert batches.setdefault(each["step"], each["places"]) == each["places"]
        keys_of[process] = {key for each in steps for key, _ in each["before"] + each["after"]}
        for each in steps:
            for (_, used), (_, later) in zip(each["before"], each["after"], strict=True):
                assert later > used
        for each, following in pairwise(steps):
            assert following["before"] == each["after"]
        reached = max(begun + len(steps), begun)
    # No key of noise was used by two processes.
    drawing = [keys for keys in keys_of.values() if keys]
    assert len(set().union(*drawing)) == sum(map(len, drawing))
    end = said[-1]
    assert end["ended"] == 200
    assert sorted(batches) == list(range(200))
    assert end["rate"] == [pytest.approx(0.01 * 0.9**4)]
    if sampling == "allocation":
        for epoch in range(40):
            assert sorted(chain.from_iterable(batches[5 * epoch + k] for k in range(5))) == list(
                range(ROWS)
            )
    whole = training(sampling=sampling, steps=200)
    whole.steps_done = 200
    assert end["epsilon"] == whole.guarantee().epsilon


# What is kept is put back to the bit

OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "groups": lambda p: torch.optim.AdamW([{"params": [each]} for each in p], lr=0.01),
}
SCHEDULERS = {
    "steps": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [3, 6], 0.5),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "plateau": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "sequence": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [
            torch.optim.lr_scheduler.LinearLR(o, total_iters=3),
            torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
        ],
        [4],
    ),
}


@pytest.mark.parametrize(
    ("optimizer", "scheduler", "sampling"),
    [
        ("adam", "steps", "poisson"),
        ("momentum", "plateau", "allocation"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in product(OPTIMIZERS, SCHEDULERS, ["poisson", "allocation"])
        ),
    ],
)
def test_an_experiment_goes_on_to_the_same_bits(tmp_path, optimizer, scheduler, sampling):
    def go(where: Path, stop: int | None = None) -> tuple[PrivateTrainer, object, object]:
        module = network()
        used = OPTIMIZERS[optimizer](module.parameters())
        schedule = SCHEDULERS[scheduler](used)
        with pytest.warns(PrivacyLeakWarning):
            trainer = training(
                *(module,),
                optimizer=used,
                random_state=1,
                steps=10,
                sampling=sampling,
                checkpoint=where,
                checkpoint_every=3,
                also={"schedule": schedule},
            )
        for batch in trainer:
            if batch.step == stop:
                break
            trainer.step(batch)
            if scheduler == "plateau":
                schedule.step(1.0)
            else:
                schedule.step()
        return trainer, used, schedule

    whole, used, schedule = go(tmp_path / "whole")
    go(tmp_path / "cut", 5)  # the last state is of step 3
    again, used_again, schedule_again = go(tmp_path / "cut", 8)  # of step 6
    assert again.steps_done == 8
    again, used_again, schedule_again = go(tmp_path / "cut")
    assert torch.equal(weights(whole.module), weights(again.module))
    assert str(used.state_dict()) == str(used_again.state_dict())
    assert schedule_again.get_last_lr() == schedule.get_last_lr()
    if scheduler != "sequence":  # whose parts are objects
        assert schedule_again.state_dict() == schedule.state_dict()
    # At the end: nothing is left to do, and nothing is done.
    last, _, _ = go(tmp_path / "cut")
    assert last.steps_done == 10
    assert torch.equal(weights(last.module), weights(whole.module))


def test_buffers_and_all_types_of_numbers_are_put_back(tmp_path):
    class Kept(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 2, dtype=torch.bfloat16)
            self.tied = self.inner
            for name, dtype in (("a", torch.float64), ("b", torch.int64), ("c", torch.bool)):
                self.register_buffer(name, torch.full((2,), value).to(dtype))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + self.a.to(x.dtype)

    X, y = records()
    data = X.bfloat16(), y
    first = Kept(3.0)
    run(training(first, data=data, checkpoint=tmp_path, checkpoint_every=2), 4)
    second = Kept(0.0)
    trainer = training(second, data=data, checkpoint=tmp_path, checkpoint_every=2)
    assert trainer.steps_done == 4
    for name, each in first.state_dict().items():
        assert each.dtype == second.state_dict()[name].dtype
        assert torch.equal(each, second.state_dict()[name])


def test_private_training_goes_on_with_the_same_batches_and_other_noise(tmp_path):
    first = training(checkpoint=tmp_path, checkpoint_every=2)
    run(first, 3)
    second = training(network(seed=1), checkpoint=tmp_path, checkpoint_every=2)
    assert second.steps_done == 2
    for step in range(6):
        assert np.array_equal(first._batches.of(step), second._batches.of(step))
    assert {each.key for each in first._stream.positions}.isdisjoint(
        {each.key for each in second._stream.positions}
    )
    assert any("nobody saw it" in each for each in second.assumes)
    assert not any("nobody saw it" in each for each in first.assumes)
    partial = second.guarantee()
    run(second)
    assert 0 < partial.epsilon < second.guarantee().epsilon
    whole = training()
    whole.run()
    assert second.guarantee().epsilon == whole.guarantee().epsilon


def test_only_its_owner_may_read_it(tmp_path):
    where = tmp_path / "deep" / "kept"
    run(training(checkpoint=where, checkpoint_every=1), 1)
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert stat.S_IMODE((where / FILE).stat().st_mode) == 0o600
    assert [path.name for path in where.iterdir()] == [FILE]
    assert FILE.startswith("INTERNAL")


def test_it_is_safetensors_and_json_and_holds_no_record(tmp_path):
    X, y = records()
    X[7] = 73195.5
    trainer = training(data=(X, y), checkpoint=tmp_path, checkpoint_every=1)
    run(trainer, 1)
    content = (tmp_path / FILE).read_bytes()
    tensors = safetensors.torch.load(content)
    assert torch.equal(tensors["module/0.weight"], trainer.module[0].weight.detach())
    size = int.from_bytes(content[:8], "little")
    state = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["state"])
    assert state["step"] == 1
    assert "73195" not in json.dumps(state)
    for number in (np.float32(73195.5), np.float64(73195.5)):
        assert number.tobytes() not in content
    assert b"pickle" not in content


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    run(training(checkpoint=tmp_path, checkpoint_every=1), 1)

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", fail)
    monkeypatch.setattr(torch, "load", fail)
    assert training(checkpoint=tmp_path, checkpoint_every=1).steps_done == 1


# Files that cannot be gone on from


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> bytes:
    where = tmp_path_factory.mktemp("kept")
    module = network()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    run(training(module, optimizer=optimizer, checkpoint=where, checkpoint_every=2), 2)
    return (where / FILE).read_bytes()


def refused(where: Path, content: bytes, **how: object) -> str:
    """What is said of such a file; nothing may have changed."""
    (where / FILE).write_bytes(content)
    module = network(seed=1)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    entropy(module, *records()).sum().backward()
    optimizer.step()  # a state of its own
    optimizer.zero_grad()
    before = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
    how = {"module": module, "optimizer": optimizer, **how}
    with pytest.raises(CheckpointError) as caught:
        training(**how, checkpoint=where, checkpoint_every=2)
    assert str((module.state_dict(), optimizer.state_dict())) == str(before)
    assert (where / FILE).read_bytes() == content
    told = str(caught.value)
    assert "\n" not in told
    assert told.startswith(f"{where / FILE} is ")
    return told


def test_truncated_files(tmp_path, kept):
    rng = random.Random(0)
    sizes = [0, 1, 7, 8, 9, len(kept) - 1, *(rng.randrange(len(kept)) for _ in range(3))]
    for size in sizes:
        assert "is damaged (" in refused(tmp_path, kept[:size])


def rewritten(content: bytes, change: object) -> bytes:
    """The same with another state or other tensors."""
    size = int.from_bytes(content[:8], "little")
    state = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["state"])
    tensors = safetensors.torch.load(content)
    change(state, tensors)
    return safetensors.torch.save(tensors, {"state": json.dumps(state)})


def _drop(name: str):
    return lambda state, tensors: state.pop(name)


def _set(name: str, value: object):
    return lambda state, tensors: state.__setitem__(name, value)


DAMAGES = {
    **{f"without {name}": _drop(name) for name in ("step", "key", "parts")},
    "a step beyond": _set("step", 7),
    "a step before": _set("step", -1),
    "a text as step": _set("step", "many"),
    "a short key": _set("key", "00"),
    "no hexadecimal key": _set("key", "zz" * 32),
    "no parts": _set("parts", {}),
    "parts of another kind": _set("parts", {"optimizer": 3}),
    "no groups": _set("parts", {"optimizer": {"pairs": []}}),
    "a missing tensor": lambda state, tensors: tensors.pop("module/0.weight"),
    "one more tensor": lambda state, tensors: tensors.update({"module/x": torch.zeros(1)}),
    "a longer tensor": lambda state, tensors: tensors.update({"module/0.bias": torch.zeros(9)}),
    "another type": lambda state, tensors: tensors.update(
        {"module/0.bias": torch.zeros(4, dtype=torch.float64)}
    ),
    "no moments": lambda state, tensors: [
        tensors.pop(name) for name in list(tensors) if name.startswith("part/")
    ],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files(tmp_path, kept, damage):
    assert "is damaged (" in refused(tmp_path, rewritten(kept, DAMAGES[damage]))


def test_foreign_files(tmp_path, kept):
    for content in (b"{}", b"\x80\x04N.", b"\x00" * 100, random.Random(1).randbytes(1000)):
        assert "is damaged (" in refused(tmp_path, content)
    other = safetensors.torch.save({"w": torch.zeros(3)})
    assert "is damaged (" in refused(tmp_path, other)


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ({"noise_multiplier": 0.5}, "plan"),
        ({"steps": 9}, "plan"),
        ({"max_grad_norm": 2.0}, "plan"),
        ({"sampling": "allocation"}, "plan"),
        ({"relation": "replace-one"}, "plan"),
        ({"batch_size": 9}, "plan"),
        ({"data": tuple(each[:-1] for each in records()), "sample_rate": 0.2}, "plan"),
    ],
)
def test_other_trainings(tmp_path, kept, how, named):
    assert f"is of another training (its {named} differs: " in refused(tmp_path, kept, **how)


def test_another_module_optimizer_or_number_of_records(tmp_path, kept):
    (tmp_path / FILE).write_bytes(kept)
    how = {"checkpoint": tmp_path, "checkpoint_every": 2}
    with pytest.raises(CheckpointError, match=r"its shapes differs"):
        training(nn.Linear(3, 2), **how)
    with pytest.raises(CheckpointError, match=r"its shapes differs"):
        training(network(torch.float64), data=(records()[0].double(), records()[1]), **how)
    with pytest.raises(CheckpointError, match=r"its kinds differs"):
        training(**how)  # SGD, where it was Adam
    private = {"relation": "add-or-remove-one", "sample_rate": 0.2, "batch_size": 8}
    run(training(**private, **{**how, "checkpoint": tmp_path / "private"}), 2)
    fewer = tuple(each[:-1] for each in records())
    with pytest.raises(CheckpointError, match=r"its records differs"):
        training(data=fewer, **private, **{**how, "checkpoint": tmp_path / "private"})


def test_an_experiment_is_not_gone_on_from_as_a_private_training(tmp_path):
    # Its first steps had noise that can be drawn again: a promise of the rest would be false.
    how = {"checkpoint": tmp_path, "checkpoint_every": 2}
    with pytest.warns(PrivacyLeakWarning):
        run(training(random_state=1, **how), 4)
    with pytest.raises(CheckpointError, match=r"its noise differs"):
        training(**how)
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(CheckpointError, match=r"its noise differs"),
    ):
        training(random_state=2, **how)


def test_what_cannot_be_kept_is_told_before_training(tmp_path):
    class Odd:
        def state_dict(self) -> dict[str, object]:
            return {"a": object()}

        def load_state_dict(self, state: object) -> None: ...

    class Extra(nn.Linear):
        def get_extra_state(self) -> object:
            return {"a": 1}

    how = {"checkpoint": tmp_path / "kept"}
    for also, named in (
        ({"ema": 3}, r"also\['ema'\]=\[int\] to have a state_dict"),
        ({"ema": Odd()}, r"also=\[object in ema/a\]"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)], lr=1)}, r"also=\[optimizer\]"),
    ):
        with pytest.raises(InvalidArgument, match=f"^Expected {named}"):
            training(also=also, **how)
    with pytest.raises(InvalidArgument, match=r"^Expected module=\[_extra_state: dict\]"):
        training(Extra(3, 2), losses=entropy, **how)
    with pytest.raises(InvalidArgument, match=r"^Expected checkpoint_every=0"):
        training(checkpoint_every=0, **how)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match=r"^Expected checkpoint=.* to be a directory"):
        training(checkpoint=tmp_path / "file")


def test_a_part_named_like_others_is_kept_apart(tmp_path):
    module = network()
    average = network(seed=5)
    how = {"checkpoint": tmp_path, "checkpoint_every": 1, "also": {"module": average}}
    run(training(module, **how), 1)
    again, average_again = network(seed=6), network(seed=7)
    training(again, **{**how, "also": {"module": average_again}})
    assert torch.equal(weights(again), weights(module))
    assert torch.equal(weights(average_again), weights(average))


def test_an_interrupted_write_keeps_the_state_before(tmp_path, monkeypatch):
    from sordino import _files

    how = {"checkpoint": tmp_path, "checkpoint_every": 1}
    trainer = training(**how)
    run(trainer, 2)
    before = (tmp_path / FILE).read_bytes()

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_files.os, "replace", full)
        with pytest.raises(InvalidArgument, match=r"No space left on device.*Make room"):
            run(trainer)
    assert (tmp_path / FILE).read_bytes() == before
    assert trainer.steps_done == 3
    run(trainer)  # it goes on, and keeps what it has
    assert training(**how).steps_done == 6
