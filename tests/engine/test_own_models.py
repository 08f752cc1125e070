"""Models of the user's own, through the experiments, in real workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmprof.core.lint import lint
from llmprof.core.predict.traced import trace_cases
from llmprof.core.report.markdown import render
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_model import find_own_model
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from tests.engine.runs import SMALL, llmprof, newest

FOLDER = Path(__file__).parents[1] / "data" / "own_models"
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


HARM = {
    "raises": "hostile.py:20 in raises: ValueError: no such width",
    "exits": "hostile:exits called sys.exit(7)",
    "ends": "exit code 9",
    "nothing": "the factory returned nothing; it must return a torch.nn.Module",
    "on_meta": "meta device",
    "frozen": "no parameters that are trained",
    "misspelt": "'losss', which is none of",
    "no_ids": "give batch(batch_size, context_length, device)",
}
HARMLESS = ("forks", "threads", "seeds", "prints")


def test_hostile_factories_are_each_a_row_and_harm_no_other(tmp_path: Path) -> None:
    view = run(
        tmp_path, *models(HOSTILE, *HARM, *HARMLESS), *SMALL, "--mode=forward-backward",
        "--measure-steps=2", "--warmup-steps=1",
    )  # fmt: skip
    states = {state.case.model.name.removeprefix("hostile:"): state for state in view.cases}
    for name, message in HARM.items():
        failure = states[name].failure
        assert failure is not None, name
        assert failure.kind == "error"
        assert message in failure.message
    for name, state in states.items():
        if name not in HARM:
            assert state.status == "ok", name
            assert len(state.measured) == 2
    seeded = states["seeds"].model
    assert seeded is not None


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
        (("--model=no.such.module:build",), "no such module here"),
        (("--model-arg=a=1",), "--model-arg has no effect without --model"),
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
    assert "attentions.py:sees_the_future" in render(view)


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
