"""Asks a whole log and a copy of it every question at many moments, and holds the answers against each other."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from coordinator_replay import Warehouse
from tests.completeness.asking import (
    TABLES,
    Key,
    Reply,
    Told,
    ask_consumers,
    ask_deleted,
    ask_describe,
    ask_diff,
    ask_findings,
    ask_groups,
    ask_impact,
    ask_lanes,
    ask_offsets,
    ask_owner,
    ask_rebalances,
    ask_saved,
    ask_table,
    ask_timeline,
    groups_of,
    lanes_of,
    moment,
    places_of,
    saved_query_names,
    topics_of,
)
from tests.completeness.proof import Proof, Proofs, cut_moments, read_proofs
from tests.completeness.verdicts import Tally

END = (None,)
"""Only the end of the log."""

_GROUPS_AT_ONCE = 3
_QUERIES_AT_ONCE = 6
_PLACES_AT_ONCE = 2


class Judge:
    """The whole log of a life, and what it answers.

    Args:
        whole: the warehouse of its audit.
        dump: the dump that was audited.
    """

    def __init__(self, whole: Warehouse, dump: Path) -> None:
        self.whole = whole
        self.proofs = read_proofs(dump)
        self.groups = groups_of(whole)
        self._places = {group: list(places_of(whole, group)) for group in self.groups}
        self._truths: dict[tuple[Any, ...], Reply] = {}

    def _truth(self, ask: Callable[..., Reply], *asked: Any, **named: Any) -> Reply:
        """What the whole log answers; asked once, since every copy is held against it."""
        place = (ask, *asked, *named.items())
        if place not in self._truths:
            self._truths[place] = ask(self.whole, *asked, **named)
        return Reply(dict(self._truths[place].rows), self._truths[place].is_open)

    def moments(self, log_partition: int, copy: Proof | None, random: Random, count: int) -> list[int | None]:
        """Some moments of a log partition, above all those between C and B of a copy of it; and the end."""
        cuts = cut_moments(self.proofs[log_partition])
        chosen = set(random.sample(cuts, min(count, len(cuts))))
        if copy is not None:
            low, high = sorted((copy.behind_missing, copy.complete_from))
            between = [time for offset, time in self.proofs[log_partition].present.items() if low - 2 <= offset <= high]
            near = sorted(set(between) & set(cuts))
            chosen |= set(random.sample(near, min(count, len(near))))
        return [*sorted(chosen), None]

    def judge(
        self, copy: Warehouse, proofs: Proofs, tally: Tally, random: Random, *, count: int = 6, name: str = ""
    ) -> Tally:
        """Ask both everything.

        Args:
            copy: the warehouse of the copy's audit.
            proofs: what the copy proves.
            tally: where the verdicts go.
            random: chooses the moments.
            count: how many moments a log partition is asked about, twice that between C and B.
            name: which copy it is, for what is said of faults.
        """
        for log_partition in sorted(self.proofs):
            proof = proofs.get(log_partition)
            if proof is not None and self.proofs[log_partition].present:
                moments = self.moments(log_partition, proof, random, count)
                self.judge_moments(copy, log_partition, proof, moments, tally, name, random)
        self._judge_between(copy, tally, random, count, name)
        self.judge_past(copy, proofs, tally, name)
        self._judge_queries(copy, tally, random, count, name)
        return tally

    @staticmethod
    def _judge_page(copy: Warehouse, times: Sequence[int], tally: Tally, name: str) -> None:
        """Hold the lanes of the fleet's page against the answers of the same warehouse."""
        first, lanes = copy._tables.coverage.first, lanes_of(copy)
        for time_ms in times:
            at = moment(time_ms)
            if at is not None and at >= first:
                replies = ask_lanes(copy, lanes, time_ms)
                tally.judge("page", f"{name} at {at}", *replies, must=lambda _: None)

    def _judge_between(self, copy: Warehouse, tally: Tally, random: Random, count: int, name: str) -> None:
        """Ask about times between two moments; rows that the copy lacks claim nothing."""
        times = sorted({time for proof in self.proofs.values() for time in cut_moments(proof)})
        topics = topics_of(self.whole)
        self._judge_page(copy, random.sample(times, min(count, len(times))), tally, name)
        for start, end in (sorted(random.sample(times, 2)) for _ in range(count if len(times) > 1 else 0)):
            for ask, *about in ((ask_diff,), *((ask_consumers, one) for one in topics)):
                replies = [self._truth(ask, *about, start, end), ask(copy, *about, start, end)]
                replies[0].rows = {key: one for key, one in replies[0].rows.items() if key in replies[1].rows}
                question = ask.__name__.removeprefix("ask_")
                asked = f"{name} {about} from {moment(start)} to {moment(end)}"
                tally.judge(question, asked, *replies, must=lambda _: None)
            asked = f"{name} from {moment(start)} to {moment(end)}"
            replies = [self._truth(ask_impact, start, end, is_whole=True), ask_impact(copy, start, end)]
            replies[0].rows = {key: one for key, one in replies[0].rows.items() if key in replies[1].rows}
            tally.judge("impact", asked, *replies, must=lambda _: None)
            for ask in (ask_timeline, ask_rebalances):
                for group in random.sample(sorted(self.groups), min(len(self.groups), _GROUPS_AT_ONCE)):
                    asked = f"{name} {group} from {moment(start)} to {moment(end)}"
                    replies = [self._truth(ask, group, start, end), ask(copy, group, start, end)]
                    tally.judge(ask.__name__.removeprefix("ask_"), asked, *replies, must=lambda _: None)

    def judge_moments(
        self,
        copy: Warehouse,
        log_partition: int,
        proof: Proof,
        moments: Sequence[int | None],
        tally: Tally,
        name: str,
        random: Random | None = None,
    ) -> None:
        """Ask about the groups of one log partition at some moments: in each about all, or with ``random`` some."""
        groups = [group for group, place in self.groups.items() if place == log_partition]
        for time_ms in moments:
            asked = f"{name} log partition {log_partition} at {moment(time_ms)}"
            for question, ask in (("groups", ask_groups), ("groups --deleted", ask_deleted)):
                replies = [self._truth(ask, time_ms), ask(copy, time_ms)]
                for reply in replies:
                    reply.rows = {key: told for key, told in reply.rows.items() if key[0] in groups}
                # When and why a group was deleted its tombstones tell, which go like other records.
                is_listed = ask is ask_groups
                tally.judge(
                    question,
                    asked,
                    *replies,
                    must=lambda key, at=time_ms, so=is_listed: so and proof.is_group_exact(key[0], at),
                )
            for group in groups if random is None else random.sample(groups, min(len(groups), _GROUPS_AT_ONCE)):
                places = self._places[group]
                some = places if random is None else random.sample(places, min(len(places), _PLACES_AT_ONCE))
                self._judge_group(copy, proof, group, some, time_ms, tally, asked)

    def _judge_group(
        self,
        copy: Warehouse,
        proof: Proof,
        group: str,
        places: Iterable[tuple[str, int]],
        time_ms: int | None,
        tally: Tally,
        asked: str,
    ) -> None:
        asked = f"{asked}, group {group}"
        is_exact, is_complete = proof.is_group_exact(group, time_ms), proof.is_complete(time_ms)
        is_pending_exact = proof.is_pending_exact(time_ms)

        def is_offset_exact(key: tuple[str, int]) -> bool:
            return proof.is_key_exact(group, proof.offset_key(group, *key), time_ms)

        tally.judge(
            "describe",
            asked,
            self._truth(ask_describe, group, time_ms),
            ask_describe(copy, group, time_ms),
            must=lambda _: is_exact,
        )
        for stable in (False, True):
            tally.judge(
                "offsets --require-stable" if stable else "offsets",
                asked,
                self._truth(ask_offsets, group, time_ms, stable=stable),
                ask_offsets(copy, group, time_ms, stable=stable),
                must=lambda key, stable=stable: is_offset_exact(key) and (not stable or is_pending_exact),
                is_complete=is_complete,
            )
        for topic, partition in places:
            tally.judge(
                "owner",
                f"{asked}, {topic}-{partition}",
                self._truth(ask_owner, group, topic, partition, time_ms),
                ask_owner(copy, group, topic, partition, time_ms),
                must=lambda _: is_exact,
                is_complete=is_complete,
            )

    def judge_past(self, copy: Warehouse, proofs: Proofs, tally: Tally, name: str) -> None:
        """Hold rows of tables and of saved queries against each other; what the copy lacks claims nothing."""
        for table in TABLES:
            whole, told = self._truth(ask_table, table, is_whole=True), ask_table(copy, table, is_whole=False)

            def is_late(one: Told, proofs: Proofs = proofs) -> bool:
                """Whether it begins where everything is exact."""
                if one.place is None or one.place[0] not in proofs:
                    return False
                return one.place[1] >= proofs[one.place[0]].complete_from

            whole.rows = {
                key: one for key, one in whole.rows.items() if key in told.rows or ("until" not in key and is_late(one))
            }

            def must(key: Key, truth: Reply = whole, told: Reply = told, table: str = table) -> bool:
                """Whether a row must be exact; of a rebalance its group must be known before it as well."""
                one = truth.rows.get(key, told.rows[key])
                if "RECORDS_COMPLETE" in key or one.is_of_past:
                    return False
                if table != "rebalances" or one.place is None or one.place[0] not in proofs:
                    return is_late(told.rows[key])
                return proofs[one.place[0]].is_rebalance_exact(key[0], one.place[1])

            tally.judge(f"table {table}", name, whole, told, must)
        whole, told = self._truth(ask_findings), ask_findings(copy)
        whole.rows = {key: one for key, one in whole.rows.items() if key in told.rows}
        tally.judge("findings", name, whole, told, must=lambda _: None)

    def _judge_queries(self, copy: Warehouse, tally: Tally, random: Random, count: int, name: str) -> None:
        """Ask some saved queries, a few for each moment: the nights of many copies come to ask all of them."""
        names = saved_query_names()
        for query in random.sample(names, min(len(names), count * _QUERIES_AT_ONCE)):
            whole, told = self._truth(ask_saved, query, is_whole=True), ask_saved(copy, query, is_whole=False)
            whole.rows = {key: one for key, one in whole.rows.items() if key in told.rows}
            tally.judge(f"query {query}", name, whole, told, must=lambda _: None)
