"""What an own model's factory returns, taken for a step or refused with what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from llmprof.core.spec.case import Case
from llmprof.core.spec.own_function import function_value
from llmprof.core.spec.own_model import Argument, OwnModel, find_own_model
from llmprof.core.worker.failures import OwnModelError, Unsupported
from llmprof.core.worker.own_model import own_task
from llmprof.core.worker.task import Task

FILE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, attention=None):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.attention = attention

    def forward(self, x):
        return self.layer(x)

def pair(size, context, device):
    return torch.randn(size, 4, device=device), torch.zeros(size, device=device)

def named(size, context, device):
    return {"image": torch.randn(size, 4, device=device)}

def one(size, context, device):
    return torch.randn(size, 4, device=device)

def without_loss(): return {"module": Net(), "batch": pair}
def of_names(): return {"module": Net(), "batch": named}
def fits(): return {"module": Net(), "batch": one}
def with_loss(): return {"module": Net(), "batch": pair, "loss": lambda out, given: out.sum()}
def called_model(): return {"model": Net()}
def empty(): return {"batch": pair}
def with_vocabulary(size): return {"module": Net(), "batch": one, "vocab_size": size}
def losing(loss): return {"module": Net(), "batch": one, "loss": loss_of(loss)}
def loss_of(kind):
    losses = {
        "float": lambda out, given: out.sum().item(),
        "none": lambda out, given: None,
        "many": lambda out, given: out,
        "detached": lambda out, given: out.sum().detach(),
    }
    return losses[kind]
def chosen(attention): return {"module": Net(attention), "batch": one}
"""
NUMPYS_VOCABULARY = """
import numpy
def of_numpy(): return {"module": nn.Embedding(50, 8), "vocab_size": numpy.int64(3)}
"""
ATTENTION = "def attend(q, k, v): return v\n"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])  # a worker keeps the file's folder there
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    (tmp_path / "flash.py").write_text(ATTENTION)
    return file


def task(model: OwnModel, attention: str = "naive") -> Task:
    case = Case(model=model, context_length=8, batch_size=2, attention=attention)
    return own_task(case, model, torch.device("cpu"))


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("without_loss", r"a tuple of 2, with which Net\.forward cannot be .* give loss\(output, "),
        ("of_names", r"a dict of image, with which Net\.forward cannot be called \(missing"),
        ("called_model", "has 'model', which is none of batch, forward, loss, module"),
        ("empty", "the factory's dict has no module"),
    ],
)
def test_what_cannot_be_a_step_says_what_to_do(factory: str, said: str, mine: Path) -> None:
    with pytest.raises(OwnModelError, match=said) as raised:
        task(find_own_model(f"{mine}:{factory}", {}, ()))
    assert len(str(raised.value)) < 300  # what a row of a failure holds


@pytest.mark.parametrize("size", [-3, "fifty", True])
def test_a_vocabulary_that_is_no_number_is_said(size: Argument, mine: Path) -> None:
    with pytest.raises(OwnModelError, match=r"vocab_size of the factory's dict is .*, no whole"):
        task(find_own_model(f"{mine}:with_vocabulary", {"size": size}, ()))


def test_a_vocabulary_may_be_a_whole_number_of_numpys(mine: Path) -> None:
    mine.write_text(f"{mine.read_text()}\n{NUMPYS_VOCABULARY}")
    batch = task(find_own_model(f"{mine}:of_numpy", {}, ())).batch
    assert int(batch.tokens.max()) < 3


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ("float", r"loss\(output, batch\) returned a float; it must be a tensor of one number"),
        ("none", "returned nothing; it must be a tensor of one number"),
        ("many", "returned a tensor of 2 × 4; it must be one number"),
        ("detached", "returned a tensor without a gradient"),
    ],
)
def test_a_loss_that_no_backward_starts_from_is_said(loss: str, said: str, mine: Path) -> None:
    made = task(find_own_model(f"{mine}:losing", {"loss": loss}, ()))
    with pytest.raises(OwnModelError, match=said):
        made.loss(made.run(made.module, made.batch), made.batch)


def test_what_can_be_is_called(mine: Path) -> None:
    for factory in ("fits", "with_loss"):
        found = task(find_own_model(f"{mine}:{factory}", {}, ()))
        assert found.run(found.module, found.batch).shape == (2, 4)


def test_a_file_that_changed_within_a_run_is_refused(mine: Path) -> None:
    model = find_own_model(f"{mine}:chosen", {}, ())
    attention = function_value(f"{mine.with_name('flash.py')}:attend", "--attention")
    task(model, attention)
    for file in (mine, mine.with_name("flash.py")):
        before = file.read_text()
        file.write_text(f"{before}\n# edited\n")
        with pytest.raises(OwnModelError, match=f"{file.name} has changed since this run was"):
            task(model, attention)
        file.write_text(before)
    mine.unlink()
    with pytest.raises(OwnModelError, match=r"mine\.py: No such file or directory"):
        task(model, attention)


def test_a_factory_is_given_an_attention_as_a_function_or_a_word(mine: Path) -> None:
    model = find_own_model(f"{mine}:chosen", {}, ())
    given = task(model, function_value(f"{mine.parent}/flash.py:attend", "--attention"))
    assert given.module.attention(1, 2, 3) == 3  # type: ignore[operator]
    assert task(model, "sdpa").module.attention == "sdpa"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    pytest.importorskip("transformers")
    (tmp_path / "flash.py").write_text(ATTENTION)
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
             "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
        )
    )  # fmt: skip
    return config


def test_an_entry_that_a_configuration_does_not_have_is_refused(llama: Path) -> None:
    one = task(find_own_model(f"hf:{llama}", {"num_hidden_layers": 1}, ()))
    assert len(one.module.model.layers) == 1  # type: ignore[union-attr,arg-type]
    with pytest.raises(OwnModelError, match="num_hiden_layers: a configuration of llama has no su"):
        task(find_own_model(f"hf:{llama}", {"num_hiden_layers": 1}, ()))


def test_a_configuration_takes_no_function_as_attention(llama: Path) -> None:
    value = function_value(f"{llama.parent}/flash.py:attend", "--attention")
    with pytest.raises(Unsupported, match=r"--attention flash\.py:attend: a model of transformers"):
        task(find_own_model(f"hf:{llama}", {}, ()), value)
