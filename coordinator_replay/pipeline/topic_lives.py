"""The ids of topics for commits whose records have no topic id.

The cluster's metadata shows which topic had a name at the time of a commit.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import Numbers, as_bools, numbers_of
from coordinator_replay.int64 import LARGEST_INT64


class TopicLife(NamedTuple):
    """The times at which a topic was created and deleted, in milliseconds.

    ``removed_ms`` is None if the topic still exists.
    """

    topic: str
    topic_id: str
    created_ms: int
    removed_ms: int | None


@dataclass(frozen=True, slots=True)
class _Round:
    """For each topic name, the n-th topic of this name: its id, and when it was created and deleted (microseconds).

    A name has several topics if a topic was deleted and created again. If a name has fewer than n topics, the time of
    creation is LARGEST_INT64.
    """

    begins: Numbers
    ends: Numbers
    ids: pa.Array


class TopicLives:
    """Look-up of the topic id for the name of a topic and the time of a commit.

    Args:
        lives: for each topic, its id and name, and the times of its creation and its deletion.
    """

    def __init__(self, lives: Iterable[TopicLife]) -> None:
        by_topic: dict[str, list[TopicLife]] = defaultdict(list)
        for life in lives:
            by_topic[life.topic].append(life)
        self._topics = pa.array(list(by_topic), pa.string())
        longest = max(map(len, by_topic.values()), default=0)
        self._rounds = [_round(number, list(by_topic.values())) for number in range(longest)]

    def with_ids(self, commits: pa.RecordBatch) -> pa.RecordBatch:
        """Return commits with topic ids. A commit without an id gets the id that its topic had at the commit's time.

        Args:
            commits: rows with topic, topic_id and commit_timestamp.
        """
        if not self._rounds or not commits.num_rows:
            return commits
        ids, topics = commits.column("topic_id"), commits.column("topic").dictionary_encode()
        of_dictionary = numbers_of(pc.index_in(topics.dictionary.cast(pa.string()), self._topics), -1)
        places = np.append(of_dictionary, -1)[numbers_of(topics.indices, -1)]
        times = numbers_of(commits.column("commit_timestamp"), -1)
        for lives in self._rounds:
            is_in = (places >= 0) & (times >= lives.begins[places]) & (times < lives.ends[places])
            found = lives.ids.take(pa.array(places, mask=~(is_in & as_bools(pc.is_null(ids)))))
            ids = pc.coalesce(ids, found)
        place = commits.schema.get_field_index("topic_id")
        return commits.set_column(place, commits.schema.field(place), ids)


def _round(number: int, topics: Sequence[Sequence[TopicLife]]) -> _Round:
    """Return, for each topic name, the n-th topic of this name."""
    chosen = [lives[number] if number < len(lives) else None for lives in topics]
    return _Round(
        np.array([LARGEST_INT64 if life is None else life.created_ms * 1000 for life in chosen], np.int64),
        np.array(
            [LARGEST_INT64 if life is None or life.removed_ms is None else life.removed_ms * 1000 for life in chosen],
            np.int64,
        ),
        pa.array([None if life is None else life.topic_id for life in chosen], pa.string()),
    )


NO_LIVES = TopicLives(())
