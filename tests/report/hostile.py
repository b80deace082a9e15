"""A group all of whose names try to be markup, scripts, terminal commands or TeX."""

from pathlib import Path

from tests.query.small_warehouse import at, event, member, offset, owned, write_rows

EVIL = "</script><img src=x onerror=alert(1)>{{7*7}}$$x^2$$\u202e\x1b[2J"
GROUP = f"evil {EVIL}"


def write_hostile_rows(folder: Path) -> None:
    """Add the group to a warehouse: one member, one rebalance, one offset, one expiration."""
    own = {"group_id": GROUP, "client_id": EVIL, "client_host": EVIL, "instance_id": EVIL}
    write_rows(
        folder,
        "group_timeline",
        [event(GROUP, 0, "02:01", "MEMBER_JOINED", ">Stable", epoch=1, member_count=1, member_id=EVIL)],
    )
    topic = [{"topic_id": None, "topic": EVIL, "partitions": [0]}]
    write_rows(folder, "member_timeline", [member(GROUP, EVIL, "02:01", None, 1, **own, assigned=topic)])
    write_rows(
        folder,
        "partition_ownership",
        [owned(0, EVIL, "02:01", "02:09", group_id=GROUP, topic=EVIL, released_by=EVIL, instance_id=EVIL)],
    )
    write_rows(folder, "offset_history", [offset(EVIL, 0, 5, "02:02", group_id=GROUP, metadata=EVIL)])
    rebalance = {
        "rebalance_id": "evil",
        "cluster": "default",
        "group_id": GROUP,
        "group_type": "consumer",
        "epoch": 1,
        "started_at": at("02:01"),
        "completed_at": at("02:01:01"),
        "duration_ms": 1000,
        "cause": EVIL,
        "confidence": "likely",
        "evidence": [EVIL, "two"],
        "alternatives": [EVIL],
        "members_joined": [EVIL],
        "is_exact": True,
    }
    write_rows(folder, "rebalances", [rebalance])
    lost = {"cluster": "default", "group_id": GROUP, "topic": EVIL, "partition": 0, "committed_offset": 5}
    lost |= {"status": "DUE", "expire_at": at("02:19"), "rule": EVIL, "confidence": EVIL, "last_owner_member_id": EVIL}
    write_rows(folder, "expired_offsets", [lost])
    finding = {"cluster": "default", "finding_id": "evil", "rule": "evil", "severity": "warning", "message": EVIL}
    write_rows(folder, "findings", [{**finding, "group_id": GROUP, "topic": EVIL, "first_seen": at("02:01")}])
