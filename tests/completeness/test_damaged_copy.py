"""Records that can't be decoded: what they may have said is open, and nothing else.

One whose key can be read opens that key until its next record. One whose key can't be read may have been of any key.
"""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.errors import UsageError
from tests.cleaner.recorded_log import RecordedLog, recorded_log
from tests.completeness.held import open_held
from tests.completeness.judge import Judge
from tests.completeness.proof import NoProof, read_proofs
from tests.completeness.test_compacted_copy import shown
from tests.completeness.verdicts import Tally, Verdict
from tests.completeness.whole_logs import COMPLETE, metadata
from tests.pipeline.in_process import audit

__all__ = ["audit"]


EMPTY = "2026-11-21T08:32:37Z"
"""A moment at which shop-billing was empty, before the record that is lost."""


def lose(life: RecordedLog, partition: str, offset: int) -> None:
    """Make the value of one record unreadable."""
    for segment in life.partitions[partition].log.segments:
        for number, batch in enumerate(segment.batches):
            records = [replace(one, value=b"") if one.offset == offset else one for one in batch.records]
            if records != list(batch.records):
                segment.batches[number] = batch.thinned(records, batch.delete_horizon_ms)


def judge_damaged(judge: Judge, name: str, seeds: range, audit, folder: Path, count: int) -> Tally:
    """Make random records of a sample undecodable, whole or compacted, and hold the answers against the whole log."""
    tally = Tally()
    for seed in seeds:
        random = Random(f"damaged {name} {seed}")
        life = recorded_log(COMPLETE[name].segments)
        has_keys, is_compacted = random.random() < 0.7, random.random() < 0.4
        if is_compacted:
            life.write_randomly(1.0, random)
        else:
            life.write_all()
        life.damage(random, share=random.choice([0.002, 0.02, 0.2]), has_keys=has_keys)
        dump = life.dump(folder / f"dump-{seed}")
        audit(folder / f"copy-{seed}", dump, cluster_metadata=metadata(name))
        proofs = read_proofs(dump) if has_keys else {place: NoProof(one) for place, one in judge.proofs.items()}
        told = f"{name} damaged, seed {seed}{'' if has_keys else ', keys too'}{', compacted' if is_compacted else ''}"
        judge.judge(open_held(folder / f"copy-{seed}"), proofs, tally, random, count=count, name=told)
    return tally


def test_a_record_that_cannot_be_decoded_opens_its_key_until_the_next_one(judge_of, audit, tmp_path):
    tally = judge_damaged(judge_of("transactions"), "transactions", range(1), audit, tmp_path, count=1)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)


def test_who_owned_a_partition_is_not_on_record_where_the_group_is_not(audit, tmp_path):
    life = recorded_log(COMPLETE["group-lifecycles"].segments)
    life.write_all()
    # The record of shop-billing after which billing-1 is there again.
    lose(life, "__consumer_offsets-0", 11)
    audit(tmp_path / "wh", life.dump(tmp_path / "dump"), cluster_metadata=metadata("group-lifecycles"))
    warehouse = Warehouse(str(tmp_path / "wh"))
    assert "No member owned it" in " ".join(warehouse.owner("shop-billing", "shop.orders", 3, at=EMPTY).notes)
    assert "is not on record" in " ".join(warehouse.owner("shop-billing", "shop.orders", 3).notes)
    unknown = warehouse.sql("SELECT DISTINCT epoch, member_count FROM group_timeline WHERE to_state = 'Unknown'")
    assert list(unknown) == [(None, None)]
    with pytest.raises(UsageError, match=r"no owner of shop\.orders-7 in group 'shop-billing' is on record"):
        warehouse.owner("shop-billing", "shop.orders", 7)


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMPLETE))
def test_many_damaged_copies_answer_as_the_whole_log_or_say_that_they_are_open(name, judge_of, audit, tmp_path):
    tally = judge_damaged(judge_of(name), name, range(100, 115), audit, tmp_path, count=4)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)
