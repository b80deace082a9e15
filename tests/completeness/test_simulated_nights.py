"""Random lives that were cleaned and cut into nights: nothing that is called exact or certain is wrong."""

import json
from pathlib import Path

import pytest

from coordinator_replay.times import moment_of_ms
from scripts.reasons.named_clients import Finding, falsely_named, names_anybody
from scripts.reasons.simulated import rebalances
from scripts.world.life import START_MS, Life
from scripts.world.mixes import FLEET, UNIFORM, Mix
from tests.completeness.simulated_nights import Held, hold_rebalances, judge_nights
from tests.pipeline.in_process import audit_here


def test_nothing_exact_is_wrong(tmp_path: Path) -> None:
    _check(UNIFORM, range(1_300_000, 1_300_002), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("mix", [UNIFORM, FLEET])
def test_nothing_exact_is_wrong_in_many_lives(mix: Mix, tmp_path: Path) -> None:
    _check(mix, range(1_300_000, 1_300_400), tmp_path)


def test_a_rebalance_that_says_something_else_is_seen() -> None:
    life = Life(3, FLEET).run(6)
    rows = [row for row in rebalances(life) if row["is_exact"] and row["completed_offset"] is not None]
    held, forged = Held(), Held()
    hold_rebalances(3, life, rows, held)
    hold_rebalances(3, life, [{**rows[-1], "members_left": ["somebody"]}], forged)
    assert not held.faults
    assert len(forged.faults) == 1


@pytest.mark.parametrize("is_modern", [False, True])
def test_a_client_that_did_nothing_in_the_time_of_a_finding_is_seen(is_modern: bool) -> None:
    """The first consumer joins again only because another one has joined."""
    life = Life(8, FLEET._replace(modern_share=0, odd_share=0))
    life.is_modern = is_modern
    life.join()
    life.pass_time(60_000)
    middle = moment_of_ms(life.now_ms)
    life.join()
    life.pass_time(60_000)
    first, second = (one.instance_id or f"{one.client_id} on {one.host}" for one in life.consumers)
    detail = json.dumps({"members": {first: 3, second: 3, "nobody": 2}})
    finding = {"rule": "rebalance_storm", "detail": detail, "last_seen": moment_of_ms(life.now_ms)}
    assert falsely_named(life, {**finding, "first_seen": moment_of_ms(START_MS)}) == ["nobody"]
    assert falsely_named(life, {**finding, "first_seen": middle}) == [first, "nobody"]


def finding_of(rule: str, first_ms: int, last_ms: int, topic: str | None = None, **detail: object) -> Finding:
    """Return a finding about a time, as its table has it."""
    times = {"first_seen": moment_of_ms(first_ms), "last_seen": moment_of_ms(last_ms)}
    return {"rule": rule, "topic": topic, "member_id": None, "detail": json.dumps(detail), **times}


def test_what_findings_say_of_members_is_held_against_what_they_did() -> None:
    """A consumer of each protocol; the first one leaves, and is no member from then on."""
    life = Life(8, FLEET._replace(modern_share=0, odd_share=0, fault_share=0))
    life.join()
    life.pass_time(60_000)
    first, topics = life.consumers[0], life.consumers[0].topics
    member_id, started = first.member_id, (START_MS, life.now_ms)
    first.close(life)
    life.pass_time(120_000)
    life.is_modern = True
    life.join()
    life.pass_time(60_000)
    second = life.consumers[1]
    ended = (life.now_ms - 30_000, life.now_ms)
    said: list[tuple[Finding, list[str]]] = [
        (finding_of("stuck_group", *started, waiting_for=[member_id]), []),
        (finding_of("stuck_group", *ended, waiting_for=[member_id]), [member_id]),
        (finding_of("stuck_group", *started, waiting_for=[second.member_id]), [second.member_id]),
        (finding_of("mixed_protocols", *started, classic_members=[member_id]), []),
        (finding_of("mixed_protocols", *ended, classic_members=[second.member_id]), [second.member_id]),
        (finding_of("empty_assignment", *started, members=[member_id]), [member_id]),
        (
            finding_of("unbalanced_assignment", *ended, most={"member_id": second.member_id}, least={"member_id": "x"}),
            ["x"],
        ),
        (finding_of("topic_unowned", *started, topics[0], subscribers=[first.client_id]), []),
        (finding_of("topic_unowned", *started, "unread", subscribers=[first.client_id]), [first.client_id]),
        (
            finding_of("disjoint_subscriptions", *ended, parts=[{"topics": ["unread"], "clients": [first.client_id]}]),
            [first.client_id],
        ),
    ]
    for finding, false in said:
        assert names_anybody(finding)
        assert falsely_named(life, finding) == false, finding
    unrevoked = finding_of("unrevoked_partitions", *ended, partitions=["orders-0"])
    assert falsely_named(life, {**unrevoked, "member_id": second.member_id}) == []
    taken = finding_of("unrevoked_partitions", START_MS, ended[1], partitions=["unread-0"])
    assert falsely_named(life, {**taken, "member_id": second.member_id}) == [second.member_id]


def _check(mix: Mix, seeds: range, folder: Path) -> None:
    held = judge_nights(seeds, mix, folder, audit_here)
    assert held.counts["exact rebalance"]
    assert held.counts["certain cause"]
    assert not held.faults, "\n".join([str(held.counts), *held.faults[:40]])
