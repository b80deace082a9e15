"""What tells that the machine was too busy to record a life."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts" / "kafka"))

from lab.random_life import draw
from lab.record_life import flaws, joined_seconds

from scripts.what_if.lives import FIRST_THAT_JUDGES, LIVES

REPOSITORY = Path(__file__).resolve().parents[2]

LINES = """\
2026-11-25T17:30:20.000+0000 INFO [GroupCoordinator id=1] Scheduling loading of metadata from __consumer_offsets-0
2026-11-25T17:30:22.211+0000 INFO [GroupCoordinator id=1] Static member a joins group life-199-static
2026-11-25T17:30:24.500+0000 INFO [GroupCoordinator id=1] [GroupId life-199-new] Member b joins the consumer group using
2026-11-25T17:30:29.000+0000 INFO [GroupCoordinator id=1] [GroupId life-199-new] Member c joins the consumer group using
"""


def test_a_life_has_begun_when_each_group_has_its_first_member(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LINES, encoding="utf-8")
    began = datetime(2026, 11, 25, 17, 30, 20, tzinfo=UTC)
    assert joined_seconds(log, began.timestamp()) == 4.5


def test_a_life_whose_clients_act_late_or_have_not_joined_before_the_first_is_closed_is_recorded_badly() -> None:
    life = draw(192).as_json()
    first = min(at for client in life["clients"] for at, what, _ in client["steps"] if what != "start")
    assert not flaws(life | {"late_seconds": 1.0, "joined_seconds": first - 0.01})
    assert flaws(life | {"late_seconds": 1.01, "joined_seconds": 2.0}) == ["clients acted 1.01 s late"]
    late = f"a group had its first member after {first} s, the first client ended or paused at {first} s"
    assert flaws(life | {"late_seconds": 0.1, "joined_seconds": first}) == [late]


def test_no_life_that_was_recorded_badly_judges() -> None:
    for file in (REPOSITORY / LIVES).glob("*/life.json"):
        if int(file.parent.name) >= FIRST_THAT_JUDGES:
            assert not flaws(json.loads(file.read_text(encoding="utf-8"))), file.parent.name
