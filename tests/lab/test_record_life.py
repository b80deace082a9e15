"""What tells that the machine was too busy to record a life."""

import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts" / "kafka"))

from lab.record_life import joined_seconds

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
