"""Callbacks of trainers: against the real ones where they are installed, else their protocol."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmprof.core.state.loops import LoopState
from llmprof.core.store.journal import replay
from llmprof.core.track.trainer_loop import TrainerLoop
from tests.builders import watched_scripts
from tests.builders.tracked_scripts import newest
from tests.engine.runs import command

# The order in which Lightning calls a callback, its loops cut down to what the callback sees.
LIGHTNING = """
import torch
class Callback:
    def setup(self, trainer, pl_module, stage): pass
    def on_train_start(self, trainer, pl_module): pass
    def on_before_backward(self, trainer, pl_module, loss): pass
    def on_validation_start(self, trainer, pl_module): pass
    def on_validation_end(self, trainer, pl_module): pass
    def on_train_end(self, trainer, pl_module): pass
    def on_exception(self, trainer, pl_module, exception): pass
class LightningModule(torch.nn.Module):
    pass
class Trainer:
    max_steps, accumulate_grad_batches = -1, 1
    def __init__(self, max_epochs, callbacks, **options):
        self.max_epochs, self.callbacks = max_epochs, callbacks
    def call(self, name, module, *more):
        for callback in self.callbacks:
            getattr(callback, name)(self, module, *more)
    def validate(self, module, loader, most=10**9):
        self.call("on_validation_start", module)
        module.eval()
        with torch.no_grad():
            for at, batch in enumerate(loader):
                if at >= most:
                    break
                module.validation_step(batch, at)
        module.train()
        self.call("on_validation_end", module)
    def fit(self, module, train, held_out):
        self.call("setup", module, "fit")
        optimizer = module.configure_optimizers()
        self.validate(module, held_out, 2)
        self.call("on_train_start", module)
        try:
            for _ in range(self.max_epochs):
                for at, batch in enumerate(train):
                    def closure():
                        loss = module.training_step(batch, at)
                        optimizer.zero_grad()
                        self.call("on_before_backward", module, loss)
                        loss.backward()
                        return loss
                    optimizer.step(closure)
                self.validate(module, held_out)
                torch.save(module.state_dict(), "checkpoint.pt")
        except BaseException as error:
            self.call("on_exception", module, error)
            raise
        self.call("on_train_end", module)
"""
FITTED = """
import warnings
warnings.filterwarnings("ignore")
import pytorch_lightning as pl
from llmprof.trainers.lightning import LoopCallback
os.chdir(os.path.dirname(sys.argv[0]))

class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()
    def training_step(self, batch, at):
        if "break" in sys.argv and at == 5:
            raise ValueError("no more")
        return self.net(batch[0]).square().mean()
    def validation_step(self, batch, at):
        time.sleep(0.01)
        self.net(batch[0])
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

callback = LoopCallback("mine", sample_devices=False)
options = dict(accelerator="cpu", logger=False, enable_progress_bar=False,
               enable_model_summary=False)
pl.Trainer(max_epochs=2, callbacks=[callback], **options).fit(Module(), loader(10), loader(5))
"""

# The order in which the Trainer of transformers calls a callback.
TRANSFORMERS = """
import os, torch
class TrainerCallback:
    def on_train_begin(self, args, state, control, **kwargs): pass
class TrainingArguments:
    def __init__(self, folder, per_device_train_batch_size, num_train_epochs, **options):
        self.folder, self.size, self.epochs = folder, per_device_train_batch_size, num_train_epochs
class Empty:
    should_evaluate = should_save = False
class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, callbacks):
        self.model, self.args, self.callbacks = model, args, callbacks
        self.sets = train_dataset, eval_dataset
        self.state, self.control = Empty(), Empty()
    def call(self, name, **more):
        for callback in self.callbacks:
            getattr(callback, name)(self.args, self.state, self.control, **more)
    def loader(self, at):
        return torch.utils.data.DataLoader(self.sets[at], batch_size=self.args.size)
    def train(self):
        optimizer = torch.optim.AdamW(self.model.parameters())
        train = self.loader(0)
        self.state.max_steps = len(train) * self.args.epochs
        self.call("on_train_begin")
        for _ in range(self.args.epochs):
            for batch in train:
                loss = self.model(**batch)["loss"]
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                self.call("on_step_end")
                self.call("on_log", logs={"loss": loss.item(), "epoch": 1.0})
            self.control.should_evaluate = self.control.should_save = True
            self.call("on_epoch_end")
            self.model.eval()
            for batch in self.loader(1):
                with torch.no_grad():
                    self.model(**batch)
            self.model.train()
            self.call("on_log", logs={"eval_loss": 1.0})
            self.call("on_evaluate", metrics={})
            os.makedirs(self.args.folder, exist_ok=True)
            torch.save(self.model.state_dict(), self.args.folder + "/model.pt")
            self.call("on_save")
            self.control.should_evaluate = self.control.should_save = False
        self.call("on_train_end")
"""
TRAINED = """
from transformers import Trainer, TrainingArguments
from llmprof.trainers.huggingface import LoopCallback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()
    def forward(self, x=None, labels=None):
        if not self.training:
            time.sleep(0.01)
        y = self.net(x)
        return {"loss": (y - labels).square().mean(), "logits": y}

rows = [{"x": torch.randn(320), "labels": torch.zeros(320)} for _ in range(640)]
arguments = TrainingArguments(
    os.path.dirname(sys.argv[0]) + "/out", per_device_train_batch_size=64, num_train_epochs=2,
    eval_strategy="epoch", save_strategy="epoch", report_to=[], logging_steps=5,
    disable_tqdm=True, use_cpu=True, per_device_eval_batch_size=64,
)
Trainer(
    model=Model(), args=arguments, train_dataset=rows, eval_dataset=rows[:320],
    callbacks=[LoopCallback("mine", sample_devices=False)],
).train()
"""


def trained(
    home: Path, script: str, package: str, protocol: str, *words: str, watched: bool = False
) -> LoopState:
    """The loop of a script under a trainer: the real one where protocol is ""."""
    env = {}
    if protocol:
        folder = home / "packages" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(protocol, "utf-8")
        env = {"PYTHONPATH": f"{folder.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    elif importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    done = watched_scripts.run(home, script, words=words, watched=watched, env=env)
    assert done.returncode == (1 if words else 0), done.stderr
    (loop,) = replay(newest(home).journal).loops
    return loop


def check(loop: LoopState) -> None:
    """Twenty steps in two epochs, with what lies beside them apart."""
    rows = loop.rows
    assert loop.started.label == "mine"
    assert rows.index() == list(range(20))
    assert loop.done is not None
    assert loop.done.outcome == "complete"
    for part in ("forward", "backward", "optimizer", "input"):
        assert all(ms > 0 for ms in rows.part_ms(part)[1:]), part
    assert rows.part_ms("evaluation")[10] > 50  # five batches of 10 ms, so that no input has them
    assert sum(rows.part_ms("evaluation")[1:]) == rows.part_ms("evaluation")[10]
    assert rows.part_ms("checkpoint")[10] > 0
    assert "loss" in rows.values


@pytest.mark.parametrize("protocol", [LIGHTNING, ""], ids=["protocol", "real"])
@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
def test_lightning(tmp_path: Path, protocol: str, watched: bool) -> None:
    loop = trained(tmp_path, FITTED, "pytorch_lightning", protocol, watched=watched)
    check(loop)
    assert [epoch for _, epoch in loop.rows.epochs] == [0, 1]


@pytest.mark.parametrize("protocol", [LIGHTNING, ""], ids=["protocol", "real"])
def test_lightning_says_what_ended_it(tmp_path: Path, protocol: str) -> None:
    loop = trained(tmp_path, FITTED, "pytorch_lightning", protocol, "break")
    assert loop.rows.index() == list(range(5))
    assert loop.done is not None
    assert loop.done.error == "ValueError: no more"


@pytest.mark.parametrize("protocol", [TRANSFORMERS, ""], ids=["protocol", "real"])
@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
def test_huggingface(tmp_path: Path, protocol: str, watched: bool) -> None:
    loop = trained(tmp_path, TRAINED, "transformers", protocol, watched=watched)
    check(loop)
    assert loop.started.total_steps == 20
    assert "eval_loss" not in loop.rows.values


def test_huggingface_keeps_a_loss_that_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the Trainer logs goes on as it is; the loop's own log says what is not finite."""
    name = "llmprof.trainers.huggingface"
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    monkeypatch.delitem(sys.modules, name, raising=False)
    callback = importlib.import_module(name).LoopCallback("mine")
    monkeypatch.delitem(sys.modules, name)
    logged: list[dict[str, float]] = []
    monkeypatch.setattr(TrainerLoop, "log", lambda _, **values: logged.append(values))
    logs = {"loss": "nan", "grad_norm": math.inf, "learning_rate": "none", "epoch": 1.0}
    callback.on_log(None, None, None, logs=logs)
    callback.on_log(None, None, None, logs={"eval_loss": 1.0})
    (values,) = logged
    assert math.isnan(values.pop("loss"))
    assert values == {"grad_norm": math.inf}


@pytest.mark.parametrize("first", ["callback", "optimizer"])
def test_the_label_of_watch_goes_before_the_callbacks(tmp_path: Path, first: str) -> None:
    lines = {
        "callback": "loop.begin(3)",
        "optimizer": "optimizer = torch.optim.SGD(model.parameters(), 0.01)",
    }
    ordered = [lines.pop(first), *lines.values()]
    script = (
        "from llmprof.core.track.trainer_loop import TrainerLoop\n"
        "model, loop = net(8), TrainerLoop('mine', sample_devices=True)\n"
        + "\n".join(ordered)
        + "\nfor _ in range(3):\n"
        "    model(torch.randn(2, 8)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    watched = command("watch", "--label", "told", "--no-sampler", "--")
    done = watched_scripts.run(tmp_path, script, watched=False, launcher=[*watched, sys.executable])
    assert done.returncode == 0, done.stderr
    (loop,) = replay(newest(tmp_path).journal).loops
    assert (loop.started.label, loop.started.total_steps) == ("told", 3)
