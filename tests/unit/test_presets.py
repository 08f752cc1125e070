"""Preset files as editors leave them, and names as people type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.catalog.cards import find_card, load_cards
from llmprof.core.catalog.experiments import build_experiment, is_attention
from llmprof.core.catalog.models import load_models, select_models
from llmprof.core.spec.shape import SpecError

MODEL = "[{name}]\nd_model = 32\nd_ff = 64\nnum_layers = 1\nnum_heads = 2\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLMPROF_PRESETS", str(tmp_path))
    load_cards.cache_clear()
    return tmp_path


@pytest.mark.parametrize("litter", ["._own.toml", ".#own.toml", ".own.toml.swp.toml"])
def test_what_editors_leave_beside_a_preset_is_not_read(folder: Path, litter: str) -> None:
    (folder / "own.toml").write_text(MODEL.format(name="own"))
    (folder / litter).write_bytes(b"\x00\x05\x16\x07 \xff not TOML")
    assert "own" in load_models()


def test_a_folder_and_a_dangling_link_called_like_a_preset_are_none(folder: Path) -> None:
    (folder / "own.toml").write_text(MODEL.format(name="own"))
    (folder / "old.toml").mkdir()
    (folder / ".#own.toml").symlink_to("user@host.123")
    (folder / "gone.toml").symlink_to("nowhere")
    assert "own" in load_models()


def test_a_byte_order_mark_and_line_ends_of_windows_are_read(folder: Path) -> None:
    def windows(text: str) -> bytes:
        return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()

    (folder / "own.toml").write_bytes(windows(MODEL.format(name="größe".join('""'))))
    (folder / "experiments.toml").write_bytes(windows('[mine]\nmodels = ["größe"]\n'))
    (folder / "cards.toml").write_bytes(windows("[Mine]\ncapability = [9, 0]\nmemory_gib = 80.0\n"))
    assert build_experiment("mine", {}).models[0].name == "größe"
    assert find_card("mine").memory_gib == 80.0


def test_a_file_of_another_encoding_is_one_line(folder: Path) -> None:
    (folder / "own.toml").write_bytes(MODEL.format(name="own").encode("utf-16"))
    with pytest.raises(SpecError, match=r"preset file .*own\.toml: .*codec"):
        load_models()


@pytest.mark.parametrize(
    ("typed", "meant"), [("Small", "small"), ("2.7b", "2.7B"), ("XL", "xl"), ("tiny", "tiny")]
)
def test_models_are_found_in_any_case(typed: str, meant: str) -> None:
    assert [model.name for model in select_models([typed])] == [meant]
    assert len(select_models(["ALL"])) == 6


def test_names_that_differ_in_case_alone_are_told_apart(folder: Path) -> None:
    (folder / "own.toml").write_text(MODEL.format(name="Small"))
    assert [model.d_model for model in select_models(["Small", "small"])] == [32, 768]
    with pytest.raises(SpecError, match="unknown model 'SMALL'"):
        select_models(["SMALL"])


@pytest.mark.parametrize(("typed", "near"), [("smal", "small"), ("Meduim", "medium")])
def test_the_model_that_is_near_is_named(typed: str, near: str) -> None:
    with pytest.raises(SpecError, match=rf"unknown model '{typed}'; did you mean '{near}'\?"):
        select_models([typed])


def test_experiments_variants_and_cards_are_found_as_models_are() -> None:
    assert build_experiment("Warmup", {}).name == "warmup"
    assert is_attention("ATTENTION")
    chosen = build_experiment("switches", {"variants": ["sdpa", "Baseline"]}).variants
    assert [variant.label for variant in chosen] == ["baseline", "SDPA"]
    with pytest.raises(SpecError, match=r"did you mean 'warmup'\?"):
        build_experiment("warmups", {})
    with pytest.raises(SpecError, match=r"did you mean 'TF32'\?"):
        build_experiment("switches", {"variants": ["TF-32"]})
    with pytest.raises(SpecError, match=r"did you mean 'H100-80GB' or .*24GiB"):
        find_card("H100-80")


@pytest.mark.parametrize("name", ["NA", "nan", "NULL", "None", "n/a", "<NA>", "all", "All"])
def test_a_name_that_tables_read_as_missing_is_refused(folder: Path, name: str) -> None:
    (folder / "own.toml").write_text(MODEL.format(name=f'"{name}"'))
    with pytest.raises(SpecError, match="cannot be the name of a model") as refused:
        load_models()
    assert "\n" not in str(refused.value)
