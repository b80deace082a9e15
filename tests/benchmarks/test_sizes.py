"""Rows of sizes: a warehouse that gets slower misses, and what an interrupted run left is not taken as whole."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    module = importlib.import_module("benchmarks.sizes")
    monkeypatch.setattr(module, "_NIGHT_RECORDS", 2_000)
    monkeypatch.setattr(module, "_LOG_PARTITIONS", 2)
    return module


@pytest.fixture
def setting(sizes: ModuleType, tmp_path: Path) -> Callable[[float], Any]:
    (tmp_path / "work").mkdir()
    return lambda part: sizes.Setting(tmp_path / "dump", 0, tmp_path / "work", 1, part)


@pytest.fixture
def audits(sizes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Path]]:
    """Takes the seconds and the memory of audits that are only said to be made, and returns their dumps."""

    def pretend(*seconds: float, worker_gibibytes: float = 1.0) -> list[Path]:
        found: list[Path] = []

        def run(memory: Any, arguments: list[str]) -> float:
            command, dump, *_ = arguments
            assert command == "audit"
            Path(arguments[-1]).mkdir(exist_ok=True)
            memory.peaks["worker"] = worker_gibibytes
            found.append(Path(dump))
            return seconds[len(found) - 1]

        monkeypatch.setattr(sizes.ProcessMemory, "run", run)
        monkeypatch.setattr(sizes, "ask", lambda *_: (1.0, 1.0))
        return found

    return pretend


@pytest.mark.parametrize(
    ("seconds", "gibibytes", "holds"),
    [
        ((9, 2, 2, 2), 1, True),
        ((9, 9, 2, 3), 1, True),
        ((2, 2, 2, 3.1), 1, False),
        ((1, 1, 9, 9), 1, True),
        ((2, 2, 2, 2), 2.1, False),
    ],
)
def test_a_year_of_nights_that_get_slower_or_larger_misses(
    sizes: ModuleType,
    setting: Callable[[float], Any],
    audits: Callable[..., list[Path]],
    seconds: tuple[float, ...],
    gibibytes: float,
    holds: bool,
) -> None:
    audits(*seconds, worker_gibibytes=gibibytes)
    row = sizes.year(setting(0.01))
    assert row.holds == holds
    assert row.wanted == "<= 1 of it, the last night <= 1.5 x night 3"


@pytest.mark.parametrize("part", [1e-9, 0.003, 0.0059])
def test_the_smallest_part_of_a_year_has_a_third_night(
    sizes: ModuleType, setting: Callable[[float], Any], audits: Callable[..., list[Path]], part: float
) -> None:
    found = audits(1, 1, 1, 1)
    assert sizes.year(setting(part)).ours.startswith("3 nights of 2,000 records")
    # The dump without the nights comes first.
    assert len(set(found)) == len(found) == 4


def test_copies_of_segments_that_an_interrupted_run_left_are_made_again(
    sizes: ModuleType,
    setting: Callable[[float], Any],
    audits: Callable[..., list[Path]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, linked, link = audits(1), list[str](), os.link

    def interrupted(source: str, to: str, **how: Any) -> None:
        if len(linked) == 2:
            raise KeyboardInterrupt
        link(source, to, **how)
        linked.append(to)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sizes.segments(setting(0.0008))
    sizes.segments(setting(0.0008))
    (folder,) = found
    assert sorted(path.name for path in folder.iterdir()) == ["broker-0", "broker-1", "broker-2"]
    files = [sorted(file.relative_to(broker) for file in broker.rglob("*.log")) for broker in folder.iterdir()]
    assert len(files[0]) == 4
    assert files == [files[0]] * 3
