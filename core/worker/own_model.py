"""A model of the user's own, built by their factory, and what a step of it is.

Whatever user code does happens here, in the worker of one case. What the factory returns is taken
for what it looks like (docs/own-model.md): there is no base class to inherit from.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_function import is_function, short_name
from llmprof.core.spec.own_model import FILLED, OwnModel
from llmprof.core.worker.failures import OwnModelError, Unsupported
from llmprof.core.worker.own_code import (
    Source,
    check_unchanged,
    load_attention,
    load_function,
    put_back,
    wanted_arguments,
)
from llmprof.core.worker.task import (
    Call,
    Task,
    TokenBatch,
    language_model_loss,
    on_tokens,
    random_tokens,
)

PARTS = frozenset({"module", "batch", "forward", "loss", "optimizer", "vocab_size"})
TARGETS = ("targets", "target", "labels", "y")  # names of a second argument that is the targets
_NO_FUNCTION = (
    "--attention {}: a model of transformers is given naive or sdpa; a function goes into a "
    "factory with an argument called attention"
)
ATTENTION = {"naive": "eager", "sdpa": "sdpa"}  # as transformers names them


def own_task(case: Case, model: OwnModel, device: torch.device) -> Task:
    """The user's model on the device with a batch.

    Raises Unsupported for what the case asks and nobody but the user could do, and what their
    code raises.
    """
    if case.checkpoint is not None:
        raise Unsupported(
            "--checkpoint: which blocks an own model has is not known; wrap them in "
            "torch.utils.checkpoint in the factory"
        )
    check_unchanged(model.path, model.content)
    parts = dict(_parts(_configured(case, model) if model.is_configuration
                        else _called(case, model, device)))  # fmt: skip
    _check_vocabulary(parts.get("vocab_size"))
    module = parts["module"]
    _move(module, device)
    module.train()
    optimizer = _optimizer(parts.get("optimizer"))
    on = _on_tokens if parts.get("batch") is None else _on_own_batch
    task = on(case, module, parts, device, optimizer)
    if optimizer is None:
        return task
    return dataclasses.replace(task, form=f"{task.form}, with an optimizer of its own")


def _called(case: Case, model: OwnModel, device: torch.device) -> Any:
    """What the factory returns, with the process put back as it was before."""
    own = os.getpid()
    with put_back(model.name):
        source = Source(model.path, model.folder, model.module, model.factory)
        factory = load_function(source)
        arguments: dict[str, Any] = dict(model.arguments)
        arguments |= _wished(factory, case, device, arguments)
        with torch.device(device):
            built = factory(**arguments)
        if case.attention != BY_FIELD["attention"].neutral and "attention" not in arguments:
            _set_attention(case.attention, built, model)
    if os.getpid() != own:
        os._exit(0)  # a child that the factory forked and let go on
    return built


def _set_attention(kind: str, built: Any, model: OwnModel) -> None:
    """Let a model of transformers use an attention. Raises Unsupported where there is no way."""
    module = built.get("module") if isinstance(built, Mapping) else built
    choose = getattr(module, "set_attn_implementation", None)
    if choose is not None and is_function(kind):
        raise Unsupported(_NO_FUNCTION.format(short_name(kind)))
    if choose is None:
        raise Unsupported(
            f"--attention {short_name(kind)}: {model.name} chooses its attention itself; a "
            "factory with an argument called attention is given what was asked for"
        )
    choose(ATTENTION.get(kind, kind))


def _wished(
    factory: Callable[..., Any], case: Case, device: torch.device, given: Mapping[str, Any]
) -> dict[str, Any]:
    """What of the case the factory asks for by the names of its arguments."""
    known: dict[str, Any] = {"device": device}
    wanted = wanted_arguments(factory, set(FILLED) - given.keys())
    if "attention" in wanted and is_function(case.attention):
        known["attention"] = load_attention(case.attention)
    return {name: known[name] if name in known else getattr(case, name) for name in wanted}


def _configured(case: Case, model: OwnModel) -> Any:
    """A causal language model of transformers with random weights; nothing is downloaded."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError as error:
        raise Unsupported(
            f"a configuration needs transformers: {error}", "pip install transformers"
        ) from error
    if is_function(case.attention):
        raise Unsupported(_NO_FUNCTION.format(short_name(case.attention)))
    config, unknown = AutoConfig.from_pretrained(
        model.path, return_unused_kwargs=True, **dict(model.arguments)
    )
    if unknown:
        raise OwnModelError(
            f"--model-arg {next(iter(unknown))}: a configuration of {config.model_type} has no "
            "such entry"
        )
    return AutoModelForCausalLM.from_config(
        config, attn_implementation=ATTENTION.get(case.attention, case.attention)
    )


def _parts(built: Any) -> Mapping[str, Any]:
    """What the factory returned, by name. Raises OwnModelError for anything else."""
    if isinstance(built, nn.Module):
        return {"module": built}
    if not isinstance(built, Mapping):
        raise OwnModelError(
            f"the factory returned {_kind(built)}; it must return a torch.nn.Module, or a dict "
            "with module and, if wanted, batch, forward, loss, optimizer, vocab_size"
        )
    unknown = [name for name in built if name not in PARTS]
    if unknown:
        raise OwnModelError(
            f"the factory's dict has {unknown[0]!r}, which is none of {', '.join(sorted(PARTS))}"
        )
    if built.get("module") is None:
        raise OwnModelError("the factory's dict has no module")
    if not isinstance(built["module"], nn.Module):
        raise OwnModelError(
            f"the factory's dict has {_kind(built.get('module'))} as module, no torch.nn.Module"
        )
    for name in PARTS - {"module", "vocab_size"}:
        if built.get(name) is not None and not callable(built[name]):
            raise OwnModelError(f"{name} of the factory's dict is no function")
    return built


def _kind(value: object) -> str:
    name = type(value).__name__
    vowel = name[0] in "aeiouAEIOU"
    return "nothing" if value is None else f"a{'n' * vowel} {name}"


def _move(module: nn.Module, device: torch.device) -> None:
    """The module with all its tensors on the device."""
    tensors = [*module.parameters(), *module.buffers()]
    if not any(p.requires_grad for p in module.parameters()):
        raise OwnModelError("the module has no parameters that are trained")
    if any(tensor.is_meta for tensor in tensors):
        raise OwnModelError("the module has tensors on the meta device, which hold no values")
    if any(tensor.device != device for tensor in tensors):  # .to() refuses fake tensors
        module.to(device)


def _optimizer(make: Any) -> Callable[[Iterable[nn.Parameter]], Optimizer] | None:
    if make is None:
        return None

    def made(params: Iterable[nn.Parameter]) -> Optimizer:
        optimizer = make(params)
        if not isinstance(optimizer, Optimizer):
            raise OwnModelError(f"optimizer(params) returned {_kind(optimizer)}, no Optimizer")
        return optimizer

    return made


def _on_own_batch(
    case: Case,
    module: nn.Module,
    parts: Mapping[str, Any],
    device: torch.device,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None,
) -> Task:
    """A module that is given the user's batch."""
    make, loss, forward = parts["batch"], parts.get("loss"), parts.get("forward")
    batch = make(case.batch_size, case.context_length, device)
    if any(isinstance(leaf, Tensor) and leaf.is_meta for leaf in pytree.tree_leaves(batch)):
        raise OwnModelError("batch(...) has tensors on the meta device, which hold no values")
    batch = pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), batch)
    pair = isinstance(batch, (tuple, list)) and len(batch) == 2 and loss is not None

    def run(call: Call, given: Any) -> Any:
        if forward is not None:
            return forward(call, given)
        arguments, named = _as_arguments(given, pair=pair)
        return call(*arguments, **named)

    if forward is None:
        _check_call(module, batch, pair=pair)
    how = (
        "forward(module, batch)"
        if forward is not None
        else "module(inputs)"
        if pair
        else "module(batch)"
    )
    if loss is not None:
        return Task(module, batch, run, _checked(loss), False, optimizer,
                    f"{how}, loss(output, batch)", _unit(batch))  # fmt: skip
    return Task(module, batch, run, _inner_loss, True, optimizer, f"{how} → loss", _unit(batch))


def _checked(loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Tensor]:
    """The user's loss; what no backward can start from is said in their words, not torch's."""

    def checked(output: Any, batch: Any) -> Tensor:
        return _one_number(loss(output, batch), "loss(output, batch) returned")

    return checked


def _one_number(found: Any, whose: str) -> Tensor:
    if not isinstance(found, Tensor):
        raise OwnModelError(f"{whose} {_kind(found)}; it must be a tensor of one number")
    if found.numel() != 1:
        shape = " × ".join(map(str, found.shape))
        raise OwnModelError(f"{whose} a tensor of {shape}; it must be one number, as a mean is")
    if torch.is_grad_enabled() and not found.requires_grad:
        raise OwnModelError(f"{whose} a tensor without a gradient: something detached it")
    return found


def _as_arguments(batch: Any, *, pair: bool) -> tuple[Iterable[Any], Mapping[str, Any]]:
    """What of a batch the module is given; of a pair with a loss the inputs alone."""
    if pair:
        return (batch[0],), {}
    if isinstance(batch, Mapping):
        return (), batch
    return batch if isinstance(batch, (tuple, list)) else (batch,), {}


def _check_call(module: nn.Module, batch: Any, *, pair: bool) -> None:
    """Raise OwnModelError where the module's forward does not take what the batch holds."""
    arguments, named = _as_arguments(batch, pair=pair)
    try:
        taken = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return
    try:
        taken.bind(*arguments, **named)
    except TypeError as error:
        raise OwnModelError(
            f"batch returned {_held(batch)}, with which {type(module).__name__}.forward cannot be "
            f"called ({error}): give loss(output, batch) in the factory's dict, with which the "
            "first of a pair is the input, or forward(module, batch)"
        ) from error


def _held(batch: Any) -> str:
    if isinstance(batch, Mapping):
        return f"a dict of {', '.join(map(str, batch))}"
    if isinstance(batch, (tuple, list)):
        return f"{_kind(batch)} of {len(batch)}"
    return _kind(batch)


def _unit(batch: Any) -> Any:
    """Tokens where the batch holds whole numbers of two dimensions first, else samples."""
    first = next((leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor)), None)
    ids = first is not None and first.ndim == 2 and not first.is_floating_point()
    return "tokens" if ids else "samples"


def _on_tokens(
    case: Case,
    module: nn.Module,
    parts: Mapping[str, Any],
    device: torch.device,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None,
) -> Task:
    """A language model on random ids: plain, with targets as second argument, or transformers'."""
    batch = random_tokens(case, _vocabulary(module, parts), device)
    names = list(inspect.signature(module.forward).parameters)
    forward, loss = parts.get("forward"), parts.get("loss")
    if forward is not None:
        return Task(module, batch, forward, _checked(loss) if loss else _inner_loss, loss is None,
                    optimizer, "forward(module, batch)")  # fmt: skip
    if loss is not None:
        return Task(module, batch, on_tokens, _checked(loss), False, optimizer,
                    "module(ids), loss(output, batch)")  # fmt: skip
    if "input_ids" in names and "labels" in names:
        return Task(module, batch, _hugging_face, _inner_loss, True, optimizer,
                    "module(input_ids=ids, labels=ids) → .loss")  # fmt: skip
    if len(names) > 1 and names[1] in TARGETS:
        return Task(module, batch, _with_targets, _inner_loss, True, optimizer,
                    f"module(ids, {names[1]}) → (logits, loss)")  # fmt: skip
    return Task(module, batch, on_tokens, language_model_loss, False, optimizer,
                "module(ids) → logits")  # fmt: skip


def _hugging_face(call: Call, batch: TokenBatch) -> Any:
    return call(input_ids=batch.tokens, labels=batch.tokens)


def _with_targets(call: Call, batch: TokenBatch) -> Any:
    return call(batch.tokens, batch.targets)


def _inner_loss(output: Any, batch: Any) -> Tensor:
    """The loss that a forward returned: itself, its .loss, or a single number in a tuple."""
    found = getattr(output, "loss", None)
    if found is None and isinstance(output, Mapping):
        found = output.get("loss")
    if found is None:
        several = output if isinstance(output, (tuple, list)) else (output,)
        found = next(
            (each for each in several if isinstance(each, Tensor) and each.ndim == 0), None
        )
    if not isinstance(found, Tensor):
        raise OwnModelError(
            f"the forward returned {_kind(output)} in which no loss is found; give loss(output, "
            "batch) in the factory's dict"
        )
    return _one_number(found, "the loss that the forward returned is")


def _check_vocabulary(said: Any) -> None:
    whole = type(said) is not bool and isinstance(said, Integral) and int(said) > 0
    if said is not None and not whole:
        raise OwnModelError(
            f"vocab_size of the factory's dict is {said!r}, no whole number above zero"
        )


def _vocabulary(module: nn.Module, parts: Mapping[str, Any]) -> int:
    """How many ids the model knows: said, of its configuration, or of its first embedding."""
    config = getattr(module, "config", None)
    for said in (parts.get("vocab_size"), getattr(config, "vocab_size", None),
                 getattr(module, "vocab_size", None)):  # fmt: skip
        if isinstance(said, Integral) and int(said) > 0:
            return int(said)
    first = next((each for each in module.modules() if isinstance(each, nn.Embedding)), None)
    if first is None:
        raise OwnModelError(
            "the model is no language model that is known (it has no nn.Embedding and no "
            "vocab_size): give batch(batch_size, context_length, device) in the factory's dict"
        )
    return first.num_embeddings
