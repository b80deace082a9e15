"""The tables about groups: every group that has news is replayed from where its replay stands, and its rows go on."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.pipeline.commit_shares import shares_of
from coordinator_replay.pipeline.data_files import DataFile, Part, files_of, keep, paths_of, read_paths
from coordinator_replay.pipeline.group_state import (
    START,
    every_group,
    reach_of,
    snapshot_rows,
    stale_groups,
    touched_groups,
    unseen_records,
)
from coordinator_replay.pipeline.night_fold import MOST_RECORDS, TOUCHED, fold_night, night_of
from coordinator_replay.pipeline.replay import GROUP_TABLES, NOT_FINAL, STATE_TABLE, Given, replay_groups
from coordinator_replay.pipeline.rewriting import GroupsGo, Rewritten, rewritten
from coordinator_replay.pipeline.sign_shares import SIGN_ROWS, last_in_shares
from coordinator_replay.pipeline.signs import (
    departure_records,
    last_before_departures,
    signs_from,
    signs_of_life,
)
from coordinator_replay.pipeline.warehouse import TABLES_AT_ONCE, Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What makes a group's replay begin anew, beside records that come between those it has seen.

    Attributes:
        is_told_anew: something is known that explains what happened before in another way.
        late: log partitions into which records came that lie before others.
        versions: those that the last run left of the tables: what has another one may hold rows of a killed run.
        are_names_known: whether the last run knew the same names of topics.
        ends: the first offset that earlier runs have not replayed, by log partition; None where that is not known.
        records: how many records of groups this run has read.
    """

    is_told_anew: bool = False
    late: frozenset[int] = frozenset()
    versions: Mapping[str, int] = field(default_factory=dict)
    are_names_known: bool = False
    ends: Mapping[int, int] | None = None
    records: int = 0


class Replayed(NamedTuple):
    """What a replay of groups came to.

    Attributes:
        versions: those of the tables that were written.
        anew: group_id of groups that were replayed from their first record on, beside others, and is_first: whether
            they never were before; None where there were no others.
    """

    versions: dict[str, int]
    anew: DataFrame | None


class _Groups:
    """One replay of a cluster's groups; its steps share the warehouse and what is given."""

    def __init__(self, warehouse: Warehouse, given: Given, news: News, staging: str) -> None:
        self.warehouse = warehouse
        self.given = given
        self.news = news
        self.staging = staging
        self.names = (*GROUP_TABLES, STATE_TABLE)
        self.are_new = {name: warehouse.is_new(name) for name in self.names}
        self.is_plain = False

    def mine(self, name: str) -> DataFrame:
        return self.warehouse.read(name).where(F.col("cluster") == self.given.cluster)

    def keep(self, step: str, df: DataFrame) -> DataFrame:
        return keep(df, f"{self.staging}/{step}")

    def stale(self) -> DataFrame | None:
        """Groups whose rows would now name other topics; None where none can."""
        names = self.given.topic_names
        if not names or self.news.are_names_known:
            return None
        return stale_groups(self.warehouse, self.given.cluster, names)

    def touched(self, held: DataFrame) -> DataFrame:
        """The groups to replay, and from where on."""
        if self.news.is_told_anew or self.are_new[STATE_TABLE]:
            return every_group(held)
        state, anew = self.mine(STATE_TABLE), self.stale()
        if self.news.late:
            behind = state.where(F.col("log_partition").isin(sorted(self.news.late))).select("group_id")
            anew = behind if anew is None else anew.union(behind)
        return touched_groups(held, state, anew=anew)

    def part(self, name: str) -> Part:
        if self.is_plain:
            return self.warehouse.own_part(name)
        return self.warehouse.part(name, f"{self.staging}/folded")

    def are_plain(self) -> bool:
        """Whether the tables are as the last run left them, and take files: no run was killed since."""
        warehouse, versions, cluster = self.warehouse, self.news.versions, self.given.cluster
        as_left = all(warehouse.is_as_left(name, versions.get(name), cluster) for name in self.names)
        return as_left and all(map(warehouse.takes_files, self.names))

    def go_on(self) -> Replayed | None:
        """Let groups go on in one job, without a plan of Spark's; None where that can't be."""
        news, warehouse, cluster = self.news, self.warehouse, self.given.cluster
        if news.ends is None or news.is_told_anew or news.late or news.records > MOST_RECORDS:
            return None
        night = night_of(warehouse, cluster, news.ends)
        if night is None or ((stale := self.stale()) is not None and not stale.isEmpty()):
            return None
        parts = {name: warehouse.own_part(name) for name in self.names}
        gone = fold_night(warehouse, night, self.given, parts, self.staging)
        if gone is None:
            return None
        touched = [file.path for file in gone.touched]
        if not touched:
            return Replayed({}, None)
        versions = self.put_plainly(gone.files, touched)
        anew = read_paths(warehouse.spark, touched, from_arrow_schema(TOUCHED)).where(F.col("from_offset") == START)
        return Replayed(versions, anew if gone.has_first else None)

    def signs(self, departures: DataFrame, *, goes_on: bool) -> DataFrame | None:
        """The last commits before departures; None where there are none."""
        # A run that goes on needs the newest commits only; one from the beginning needs nearly all of them.
        since = signs_from(departures) if goes_on else None
        if goes_on and since is None:
            return None
        shares = shares_of(self.warehouse, since, most_rows=SIGN_ROWS)
        if shares is not None:
            return signs_of_life(last_in_shares(self.warehouse.spark, shares, self.given.cluster, departures))
        commits = self.mine("offset_commits")
        near = commits if since is None else commits.where(F.col("log_timestamp") >= F.lit(since))
        return signs_of_life(last_before_departures(near, departures))

    def replay(self, records: DataFrame, touched: DataFrame | None) -> dict[str, list[DataFile]]:
        departures = self.keep("departures", departure_records(records))
        written = replay_groups(
            records,
            self.given,
            {name: self.part(name) for name in self.names},
            signs=self.signs(departures, goes_on=touched is not None),
            snapshots=None if touched is None else snapshot_rows(touched),
            buckets=int(self.warehouse.spark.conf.get("spark.sql.shuffle.partitions", "200") or 200),
        )
        return files_of(written)

    def write(self, files: dict[str, list[DataFile]], touched: DataFrame | None) -> dict[str, int]:
        """Write the rows, and the snapshots last: a run that is killed before goes on from the old ones again."""
        warehouse = self.warehouse
        if touched is not None and self.is_plain:
            return self.put_plainly(files, paths_of(touched))

        def go_on(name: str) -> int:
            mine = _of_table(files, name)
            if touched is None or self.are_new[name]:
                return warehouse.add_files(name, mine)
            return warehouse.go_on(name, warehouse.rows(name, mine), touched, self.given.cluster)

        with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
            versions = dict(zip(GROUP_TABLES, pool.map(go_on, GROUP_TABLES), strict=True))
        states = files.get(STATE_TABLE, [])
        if self.are_new[STATE_TABLE]:
            return versions | {STATE_TABLE: warehouse.add_files(STATE_TABLE, states)}
        rows = warehouse.rows(STATE_TABLE, states)
        return versions | {STATE_TABLE: warehouse.replace_groups(STATE_TABLE, rows)}

    def put_plainly(self, files: dict[str, list[DataFile]], touched: Sequence[str]) -> dict[str, int]:
        """Write the rows, and the snapshots last, where no rows of touched groups have to go but those not final.

        Such rows lie in few files. So these are written anew without them, instead of a look at all.
        """
        warehouse = self.warehouse
        replaced = []
        for name in self.names:
            is_state = name == STATE_TABLE
            paths = [
                file.path for file in warehouse.held(name) or [] if is_state or file.nulls.get("settled_at_offset") != 0
            ]
            going = GroupsGo(touched, self.given.cluster, only_open=not is_state)
            replaced.append(Rewritten(name, warehouse.own_part(name), paths, going))
        stay = rewritten(warehouse.spark, replaced)
        return {
            table.name: warehouse.swap(
                table.name, [*_of_table(files, table.name), *stay.get(table.name, [])], table.paths
            )
            for table in replaced
        }

    def run(self) -> Replayed:
        records = self.mine("group_records")
        touched: DataFrame | None = None
        if not all(self.are_new.values()):
            are_plain = self.are_plain()
            if are_plain and (gone := self.go_on()) is not None:
                return gone
            touched = self.keep("touched", self.touched(records))
            reach = reach_of(touched)
            if not reach.groups:
                return Replayed({}, None)
            # All that new rows replace is what was not final, unless a group begins anew.
            self.is_plain = are_plain and not reach.told_anew
            records = unseen_records(records, touched, reach)
        versions = self.write(self.replay(records, touched), touched)
        return Replayed(versions, None if touched is None else touched.where(F.col("from_offset") == START))


def _of_table(files: dict[str, list[DataFile]], name: str) -> list[DataFile]:
    return [*files.get(name, []), *files.get(f"{name}{NOT_FINAL}", [])]


def write_group_tables(warehouse: Warehouse, given: Given, news: News, staging: str) -> Replayed:
    """Replay the groups that have records which their replay has not seen, and write what comes of it.

    Args:
        warehouse: holds the tables of records.
        given: what every group's replay is given.
        news: what makes replays begin anew.
        staging: a folder for what is needed more than once.
    """
    return _Groups(warehouse, given, news, staging).run()
