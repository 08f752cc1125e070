"""Models of the user's own, through the experiments, in real workers."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from llmprof.core.document.findings import findings
from llmprof.core.document.quotes import plain
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.lint import lint
from llmprof.core.predict.traced import trace_cases
from llmprof.core.report.markdown import render
from llmprof.core.spec.axes import Mode, Precision
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_model import find_own_model
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.journal import replay
from llmprof.core.worker.trainer import task_of
from tests.engine.runs import SMALL, llmprof, newest, started, wait_view
from tests.waiting import PATIENCE_S, wait_for

FOLDER = Path(__file__).parents[1] / "data" / "own_models"
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"
MODELS, HOSTILE = FOLDER / "models.py", FOLDER / "hostile.py"
QUICK = ("--context-length=12", "--batch-size=2", "--measure-steps=2", "--warmup-steps=1")
FORMS = ("nano", "grouped", "peeking", "vision", "with_optimizer")


pytestmark = pytest.mark.timeout(400)  # many fresh processes


def run(folder: Path, *arguments: str) -> RunView:
    done = llmprof(folder, *arguments, timeout=360)
    assert done.returncode in (0, 1), done.stderr
    return replay(newest(folder).journal)


def models(file: Path, *names: str) -> list[str]:
    return [f"--model={file}:{name}" for name in names]


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """Every form in all three modes, with a preset beside them."""
    folder = tmp_path_factory.mktemp("forms")
    return run(folder, *models(MODELS, *FORMS), *SMALL, *QUICK)


def test_every_form_is_measured_in_every_mode(forms: RunView) -> None:
    assert [state.status for state in forms.cases] == ["ok"] * 3 * (len(FORMS) + 1)
    trained = {s.case.model.name: s for s in forms.cases if s.case.mode == "train"}
    for name in FORMS:
        state = trained[f"models:{name}"]
        assert state.observed is not None
        assert state.observed.parameters_changed
        assert state.summaries["optimizer"].mean > 0
        assert state.own_optimizer == ("SGD" if name == "with_optimizer" else "")


def test_a_loss_inside_forward_is_no_phase(forms: RunView) -> None:
    trained = {s.case.model.name: s for s in forms.cases if s.case.mode == "train"}
    assert "loss" not in trained["models:nano"].summaries
    assert "loss" in trained["models:grouped"].summaries
    text = render(forms)
    assert "models:nano is called as module(ids, targets) → (logits, loss); its forward" in text


def test_parameters_are_counted_and_shared_ones_once(forms: RunView) -> None:
    built = {s.case.model.name: s.model for s in forms.cases}
    nano = built["models:nano"]
    assert nano is not None
    assert nano.parameters == 60 * 32 + 2 * (32 * 32 + 32)


def test_operations_are_counted_with_fused_attention(forms: RunView) -> None:
    state = next(s for s in forms.cases if s.case.model.name == "models:grouped")
    assert state.observed is not None
    tokens, length = 24, 12
    linear = 2 * tokens * (32 * 32 + 32 * 32 + 32 * 50)
    attention = 4 * 2 * 4 * length * length * 8
    assert state.observed.forward_flops == linear + attention


def test_rates_of_what_has_no_tokens_are_samples(forms: RunView) -> None:
    text = render(forms)
    row = next(line for line in text.splitlines() if "models:vision" in line and "train" in line)
    assert "Throughput (samples/s)" in text
    assert row


def test_an_argument_makes_another_model(tmp_path: Path) -> None:
    view = run(tmp_path, *models(MODELS, "nano"), "--model-arg=n_layer=5", "--mode=forward", *QUICK)
    (state,) = view.cases
    assert state.case.model.name == "models:nano n_layer=5"
    assert state.model is not None
    assert state.model.parameters == 60 * 32 + 5 * (32 * 32 + 32)


@pytest.mark.parametrize("experiment", ["kernels", "memory", "precision", "switches", "warmup"])
def test_experiments_take_own_models(experiment: str, tmp_path: Path) -> None:
    options = ["--context-length=12", "--batch-size=2", "--mode=train"]
    if experiment == "kernels":
        options += ["--profile-steps=1", "--warmup-steps=1"]
    if experiment == "switches":
        options += ["--variant=baseline,bf16", "--processes=1", "--measure-steps=2"]
    if experiment == "precision":
        options += ["--processes=1", "--measure-steps=2", "--warmup-steps=1"]
    if experiment == "warmup":
        options += ["--warmup-steps=0,1", "--measure-steps=2"]
    view = run(tmp_path, "run", experiment, *models(MODELS, "nano"), *options)
    assert {state.status for state in view.cases} == {"ok"}
    assert "models:nano" in render(view)


def test_a_profile_names_modules_as_the_user_did(tmp_path: Path) -> None:
    view = run(
        tmp_path, "run", "kernels", *models(MODELS, "grouped"), "--mode=train",
        "--context-length=12", "--profile-steps=1", "--warmup-steps=1",
    )  # fmt: skip
    found = next(s.kernels for s in view.cases if s.kernels is not None)
    modules = {row.module for row in found.rows if row.module}
    assert "embedding" in modules  # a row of several modules has the one with most of its time
    assert modules & {"q", "kv", "head"}


def test_own_attention_is_refused_with_a_reason(tmp_path: Path) -> None:
    view = run(tmp_path, *models(MODELS, "grouped"), "--attention=naive,sdpa", "--mode=forward",
               *QUICK)  # fmt: skip
    plain, fused = view.cases
    assert plain.status == "ok"
    assert fused.failure is not None
    assert fused.failure.kind == "unsupported"
    assert "chooses its attention itself" in fused.failure.message


@pytest.mark.parametrize("mode", ["forward", "forward-grad", "forward-backward", "train"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_trace_says_what_is_measured(mode: str, precision: str, tmp_path: Path) -> None:
    view = run(
        tmp_path, "run", "memory", *models(MODELS, "nano", "grouped", "vision"), f"--mode={mode}",
        f"--precision={precision}", "--context-length=64", "--batch-size=4",
    )  # fmt: skip
    traced = trace_cases([state.case for state in view.cases], None)
    for state in view.cases:
        recording = state.memory_timeline
        assert recording is not None
        predicted = traced[state.case.key].requested_bytes
        assert predicted == pytest.approx(recording.peak_bytes, rel=0.01)


# Requested bytes at the peak of examples/own_model.py, width 1,024, 12 layers, 16 heads, batch 8
# of 1,024 tokens, as the allocator of an H200 counted them (torch 2.11).
ON_A_CARD: dict[tuple[Mode, Precision], int] = {
    ("forward", "fp32"): 1_150_976_000,
    ("forward", "bf16"): 1_243_469_824,
    ("forward-grad", "fp32"): 7_197_917_184,
    ("forward-grad", "bf16"): 4_683_997_376,
    ("forward-backward", "fp32"): 7_387_295_784,
    ("forward-backward", "bf16"): 4_811_991_272,
}


def test_a_trace_meets_what_a_card_counted_of_a_model_with_biases() -> None:
    width = {"width": 1024, "layers": 12, "heads": 16}
    model = find_own_model(f"{EXAMPLE}:build", width, ())
    cases = {
        (mode, precision): Case(
            model=model, mode=mode, precision=precision, context_length=1024, batch_size=8
        )
        for mode, precision in ON_A_CARD
    }
    traced = trace_cases(list(cases.values()))
    assert {at: traced[case.key].requested_bytes for at, case in cases.items()} == ON_A_CARD


def test_a_model_that_reads_values_says_where_and_what_to_do() -> None:
    case = Case(model=find_own_model(f"{MODELS}:peeking", {}, ()), context_length=12)
    (answer,) = trace_cases([case]).values()
    assert answer.error is not None
    assert "models.py:" in answer.error
    assert "llmprof run" in answer.error


def test_a_factory_that_is_not_there_gets_no_advice_to_run_it() -> None:
    model = find_own_model(f"{MODELS}:nano", {}, ())._replace(factory="absent")
    case = Case(model=model, context_length=12)
    (answer,) = trace_cases([case]).values()
    assert answer.error is not None
    assert answer.error.startswith("cannot be built: models.py has no function absent")
    assert "llmprof run" not in answer.error


def test_a_trace_of_what_prints_is_an_answer() -> None:
    case = Case(model=find_own_model(f"{HOSTILE}:prints", {}, ()), context_length=12)
    (answer,) = trace_cases([case]).values()
    assert answer.error is None
    assert answer.parameters == 50 * 16 + 16 * 50 + 50


# What torch says depends on its build.
NO_CARD = (
    "RuntimeError: Found no NVIDIA driver"
    if torch.version.cuda
    else "AssertionError: Torch not compiled with CUDA enabled"
)
HARM = {
    "raises": "hostile.py:20 in raises: ValueError: no such width",
    "exits": "hostile.py:24 in exits: hostile:exits called sys.exit(7)",
    "ends": "exit code 9",
    "nothing": "the factory returned nothing; it must return a torch.nn.Module",
    "on_meta": "meta device",
    "batch_on_meta": "batch(...) has tensors on the meta device",
    "frozen": "no parameters that are trained",
    "misspelt": "'losss', which is none of",
    "no_ids": "give batch(batch_size, context_length, device)",
    "interrupts": "hostile.py:100 in interrupts: KeyboardInterrupt",
    "exits_in_forward": "hostile.py:111 in forward: sys.exit('no data') was called",
    "interrupts_in_forward": "hostile.py:111 in forward: KeyboardInterrupt",
    "loss_of_many": "loss(output, batch) returned a tensor of 2 × 16 × 50; it must be one number",
}
AT_IMPORT = {
    "raises_at_import": "raises_at_import.py:8 in <module>: KeyError: 'wdith'",
    "exits_at_import": "exits_at_import.py:14 in <module>: exits_at_import:build called "
    "sys.exit('usage: train.py FILE')",
    "relative": "relative.py:5 in <module>: relative.py imports relatively, as a part of a package",
}
WITHOUT_A_CARD = {
    "touches_a_card": f"in touches_a_card: {NO_CARD}",
    "card_at_import": f"card_at_import.py:8 in <module>: {NO_CARD}",
}
HARMLESS = ("forks", "threads", "seeds", "prints", "moves")
STEPS = ("--mode=forward-backward", "--measure-steps=2", "--warmup-steps=1")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """All of them that end by themselves, with a preset beside them."""
    folder = tmp_path_factory.mktemp("hostile")
    files = [f"--model={FOLDER / name}.py:build" for name in (*AT_IMPORT, "card_at_import")]
    names = (*HARM, *HARMLESS, "touches_a_card")
    return run(folder, *models(HOSTILE, *names), *files, *SMALL, *STEPS)


def told(view: RunView) -> dict[str, CaseState]:
    """The cases by what is hostile in them."""
    return {
        state.case.model.name.removeprefix("hostile:").removesuffix(":build"): state
        for state in view.cases
    }


def test_hostile_factories_are_each_a_row(hostile: RunView) -> None:
    expected = HARM | AT_IMPORT | ({} if torch.cuda.is_available() else WITHOUT_A_CARD)
    states = told(hostile)
    for name, message in expected.items():
        failure = states[name].failure
        assert failure is not None, name
        assert failure.kind == "error"
        assert message in failure.message
    for name in HARMLESS:
        assert states[name].status == "ok", (name, states[name].failure)
        assert len(states[name].measured) == 2


def test_a_hostile_factory_changes_nothing_for_others(hostile: RunView, tmp_path: Path) -> None:
    (alone,) = run(tmp_path, *SMALL, *STEPS).cases
    beside = told(hostile)[alone.case.model.name]
    assert beside.status == "ok"
    assert alone.observed is not None
    assert beside.observed is not None
    assert beside.observed.dtypes == alone.observed.dtypes
    losses = [[state.measured.row(at).loss for at in range(2)] for state in (beside, alone)]
    assert losses[0] == losses[1]


def test_what_a_factory_sets_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    paths = list(sys.path)
    for name in ("seeds", "moves"):
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        case = Case(model=find_own_model(f"{HOSTILE}:{name}", {}, ()), context_length=12)
        task_of(case, torch.device("cpu"))
        assert torch.equal(torch.rand(3), expected), name
        assert torch.get_default_dtype() == torch.float32
        assert torch.is_grad_enabled()
        assert Path.cwd() == tmp_path
        assert sys.path[: len(paths)] == paths


def test_a_factory_that_takes_too_long_is_ended_where_it_is(tmp_path: Path) -> None:
    view = run(tmp_path, *models(HOSTILE, "hangs"), *SMALL, *STEPS, "--timeout=20")
    states = told(view)
    failure = states.pop("hangs").failure
    assert failure is not None
    assert failure.kind == "timeout"
    assert failure.message == "hostile.py:73 in hangs: nothing heard for 20 s, ended"
    assert failure.phase == "build"
    assert [state.status for state in states.values()] == ["ok"]


def test_a_run_that_is_stopped_in_a_factory_is_no_exit_of_it(tmp_path: Path) -> None:
    with started(tmp_path, "run", *models(HOSTILE, "hangs"), *STEPS) as process:
        wait_view(tmp_path, lambda view: any(s.status == "running" for s in view.cases))
        log = newest(tmp_path).log
        wait_for(lambda: "hostile:hangs sleeps" in log.read_text("utf-8"))
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    (state,) = replay(newest(tmp_path).journal).cases
    assert state.failure is not None
    assert (state.failure.kind, state.failure.outside) == ("stopped", True)


def test_a_file_that_changed_is_another_case(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MODELS.read_text("utf-8"), "utf-8")
    before = find_own_model(f"{file}:nano", {}, ())
    file.write_text(MODELS.read_text("utf-8") + "\n# changed\n", "utf-8")
    after = find_own_model(f"{file}:nano", {}, ())
    assert Case(model=before).key != Case(model=after).key


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model=nowhere.py:build",), "nowhere.py: No such file or directory"),
        (("--model=models.py",), "write path/to/file.py:factory"),
        (("--model=a.py:build,b.py:build",), "--model is given once for each model"),
        (("--model=no.such.module:build",), "no such module here"),
        (("--model-arg=a=1",), "--model-arg has no effect without --model"),
        (
            (f"--model={MODELS}:nano", "--model-arg=a=1", "--model-arg=a=2"),
            "--model-arg a: given twice, as 1 and 2",
        ),
        ((f"--model={MODELS}:nano", "--num-layers=2"), "--num-layers is for presets"),
        ((f"--model={MODELS}:nano", "--model-arg=a"), "write name=value"),
    ],
)
def test_what_is_not_there_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = llmprof(tmp_path, "run", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_attention_alone_has_no_model(tmp_path: Path) -> None:
    done = llmprof(tmp_path, "run", "attention", f"--model={MODELS}:nano")
    assert done.returncode == 2
    assert "attention alone" in done.stderr


def test_predict_traces_own_models(tmp_path: Path) -> None:
    done = llmprof(
        tmp_path, "predict", *models(MODELS, "nano", "peeking"), "--mode=train", "--json",
        "--card=RTX-4090",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert [row["config"]["model"] for row in rows] == ["models:nano"]
    assert rows[0]["verdict"] == "fits"
    assert "models:peeking cannot be traced at" in done.stderr


def test_a_configuration_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    config = tmp_path / "llama" / "config.json"
    config.parent.mkdir()
    config.write_text(
        json.dumps(
            {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "vocab_size": 100, "max_position_embeddings": 64}
        )
    )  # fmt: skip
    view = run(tmp_path, f"--model=hf:{config}", "--attention=naive,sdpa", "--mode=train", *QUICK)
    assert [state.status for state in view.cases] == ["ok", "ok"]


ATTENTIONS = FOLDER / "attentions.py"


def test_own_attention_in_models_and_in_the_grid(tmp_path: Path) -> None:
    view = run(tmp_path, *SMALL, f"--attention=naive,{ATTENTIONS}:attend", "--mode=train",
               "--measure-steps=2", "--warmup-steps=1")  # fmt: skip
    naive, own = view.cases
    assert own.status == "ok"
    assert own.observed is not None
    assert own.observed.attention_backend == "attentions.py:attend"
    assert own.measured.row(0).loss == pytest.approx(naive.measured.row(0).loss, rel=1e-5)
    view = run(tmp_path, "run", "attention", "--smoke", f"--attention={ATTENTIONS}:attend",
               "--context-length=64", "--measure-steps=2")  # fmt: skip
    state = next(s for s in view.cases if "attend" in s.case.attention)
    assert state.observed is not None
    errors = state.observed.errors
    assert errors is not None
    assert errors.output is not None
    assert errors.output < 1e-5
    text = render(view)
    assert "attentions.py:attend: output and gradients are within" in text


def test_own_attention_among_kernels_with_its_errors(tmp_path: Path) -> None:
    names = ("sees_the_future", "without_backward", "broken")
    view = run(
        tmp_path, "run", "attention-kernels", "--smoke",
        *(f"--attention={ATTENTIONS}:{name}" for name in names[:1]),
        "--context-length=64", "--precision=fp32", "--variant=naive",
    )  # fmt: skip
    state = next(s for s in view.cases if "future" in s.case.attention)
    assert state.observed is not None
    errors = state.observed.errors
    assert errors is not None
    assert errors.output is not None
    assert errors.output > 0.1
    (said,) = (v for v in lint(view)[state.index] if v.rule == "requested-observed")
    assert "its output is" in said.text
    assert "where rounding in fp32 explains 0.001" in said.text
    assert "sees_the_future takes least" not in render(view)
    (wrong,) = (
        plain(each.text)
        for each in findings(tables_of(sources_of([(view, None)])))
        if each.kind == "wrong"
    )
    assert wrong.startswith("attentions.py:sees_the_future does not compute causal attention: ")
    assert "Pace set by" not in render(view)  # a CPU has no host that launches for it


def test_own_attention_that_cannot_is_a_row_that_says_why(tmp_path: Path) -> None:
    both = ",".join(f"{ATTENTIONS}:{name}" for name in ("without_backward", "broken"))
    view = run(tmp_path, *SMALL, f"--attention={both}", "--mode=forward-backward",
               "--measure-steps=2", "--warmup-steps=1")  # fmt: skip
    failures = [state.failure for state in view.cases]
    assert [failure.kind for failure in failures if failure] == ["unsupported", "error"]
    said = [failure.message for failure in failures if failure]
    assert "has no backward" in said[0]
    assert said[1].startswith("attentions.py:29 in broken: RuntimeError")


def test_an_attention_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = llmprof(tmp_path, "run", *SMALL, "--attention=nowhere.py:attend")
    assert done.returncode == 2
    assert "nowhere.py: No such file" in done.stderr
    done = llmprof(tmp_path, "run", *SMALL, f"--attention={ATTENTIONS}:absent")
    assert done.returncode == 2
    assert "attentions.py has no function absent" in done.stderr
    done = llmprof(tmp_path, "run", *SMALL, "--attention=flash")
    assert done.returncode == 2
    assert "nor path/to/file.py:function" in done.stderr
