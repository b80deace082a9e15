"""Iteration order of Java's and Kafka's hash tables.

The order of a hash table decides some of Kafka's choices, such as the new leader, the winner of a tied vote, and the
order of members in a record. The coordinator makes the same choices, because its tables iterate in the same order. Only
the order is reproduced; look-ups use a ``dict``.

Sources: ``java.util.HashMap`` (OpenJDK 17), ``org.apache.kafka.timeline.BaseHashTable`` and
``SnapshottableHashTable``.

One thing is not reproduced. Once a table has 64 bins, a HashMap turns a bin with nine keys or more into a red-black
tree, which has another order. Here the bin keeps the order of insertion. This makes a difference, for example, if a
member's target has eleven partitions of a topic with the numbers 0, 64, 128 and so on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TypeVar

from coordinator_replay.java_strings import UINT_MAX, as_int, string_hash

K = TypeVar("K")
V = TypeVar("V")

DEFAULT_CAPACITY = 16
TREE_CAPACITY = 64
"""Smallest size of a table that turns a crowded bin into a tree. A smaller table grows instead, even if its other bins
are empty."""

CROWD = 9
"""Number of keys with which a bin is crowded after ``put``. After ``compute`` and the like, one key fewer is enough."""

_LONG = 0xFFFFFFFFFFFFFFFF
_FIBONACCI = -7046029254386353131


def string_order(text: str) -> bytes:
    """Return a sort key with the order of ``String.compareTo``: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def member_order(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """Return the sort key of a member in assignors.

    Static members come first, by instance id; then the others by member id.
    """
    return instance_id is None, string_order(member_id if instance_id is None else instance_id)


def partition_hash(partition: tuple[str, int]) -> int:
    """Return ``TopicPartition.hashCode`` of a topic name and a partition number."""
    topic, number = partition
    return as_int(31 * (31 + number) + string_hash(topic))


def table_size_for(capacity: int) -> int:
    """Return the number of bins of a Java hash table: the smallest power of two that is not below the capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


class _Order(MutableMapping[K, V]):
    """The base of this module's mappings. Each subclass defines its order of iteration in ``__iter__``."""

    __slots__ = ("_hash_of", "_places", "_values")

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        self._hash_of = hash_of
        self._values: dict[K, V] = {}
        self._places: dict[K, tuple[int, int]] = {}

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.items())!r})"


class HashOrder(_Order[K, V]):
    """A mapping that iterates like a ``java.util.HashMap`` to which the same operations were applied.

    As in Java, the hash of a key chooses the bin of the key. Iteration goes through the bins in turn. Inside a bin,
    keys are in the order of insertion. Only ``compute`` and similar methods put a new key first.

    Args:
        hash_of: function that returns the ``hashCode`` of a key.
        capacity: the capacity with which the table was created; the table only grows.
    """

    __slots__ = ("_capacity", "_counts", "_head", "_tail")

    def __init__(self, hash_of: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> None:
        super().__init__(hash_of)
        self._capacity = table_size_for(capacity)
        self._counts: Counter[int] = Counter()
        self._tail = 0
        self._head = 0

    @classmethod
    def copy_of(cls, hash_of: Callable[[K], int], items: Iterable[tuple[K, V]]) -> "HashOrder[K, V]":
        """Copy a hash table, as ``new HashMap<>(other)`` does in Java. The copy has the order of Java's copy.

        Args:
            hash_of: function that returns the hash of a key.
            items: the entries of the other table, in its iteration order.
        """
        entries = list(items)
        table: HashOrder[K, V] = cls(hash_of, int(len(entries) / 0.75 + 1.0) if entries else DEFAULT_CAPACITY)
        for key, value in entries:
            table[key] = value
        return table

    def __setitem__(self, key: K, value: V) -> None:
        """Put a value.

        A new key goes to the end of its bin.
        """
        is_new = key not in self._values
        self._values[key] = value
        if is_new:
            self._tail += 1
            self._place(key, self._tail, CROWD)
            if self._size_is_over():
                self._grow()

    def put_first(self, key: K, value: V) -> None:
        """Put a value. A new key becomes the first of its bin.

        Java's methods ``compute``, ``computeIfAbsent`` and ``merge`` do this.
        """
        if self._size_is_over():
            self._grow()
        is_new = key not in self._values
        self._values[key] = value
        if is_new:
            self._head -= 1
            self._place(key, self._head, CROWD - 1)

    def __delitem__(self, key: K) -> None:
        del self._values[key]
        self._counts[self._places.pop(key)[0] & (self._capacity - 1)] -= 1

    def __iter__(self) -> Iterator[K]:
        mask, places = self._capacity - 1, self._places
        return iter(sorted(places, key=lambda key: (places[key][0] & mask, places[key][1])))

    def _place(self, key: K, turn: int, crowd: int) -> None:
        """Put a new key into its bin.

        Args:
            key: the new key.
            turn: the key's place in its bin: keys with lower numbers come first.
            crowd: number of keys in the bin from which on a small table is enlarged.
        """
        hash_code = self._hash_of(key) & UINT_MAX
        spread = hash_code ^ (hash_code >> 16)
        self._places[key] = (spread, turn)
        place = spread & (self._capacity - 1)
        self._counts[place] += 1
        if self._counts[place] >= crowd and self._capacity < TREE_CAPACITY:
            self._grow()

    def _size_is_over(self) -> bool:
        return len(self._values) * 4 > self._capacity * 3

    def _grow(self) -> None:
        self._capacity *= 2
        mask = self._capacity - 1
        self._counts = Counter(spread & mask for spread, _ in self._places.values())


def hash_map() -> HashOrder[str, V]:
    """Return an empty ``HashMap<String, …>``."""
    return HashOrder(string_hash)


def hash_set(items: Iterable[K], hash_of: Callable[[K], int], size: int = 0) -> HashOrder[K, None]:
    """Return a ``HashSet`` to which the items were added in their order.

    Args:
        items: the elements of the set.
        hash_of: ``hashCode`` of an element.
        size: size of the collection that Java passes to the constructor; 0 for the constructor without arguments.
    """
    table: HashOrder[K, None] = HashOrder(hash_of, max(int(size / 0.75) + 1, DEFAULT_CAPACITY))
    for item in items:
        table[item] = None
    return table


class TimelineOrder(_Order[K, V]):
    """A mapping that iterates like a ``TimelineHashMap`` that was created without an initial size.

    A key's bin is given by the highest bits of the key's hash after multiplication by a constant. Within a bin, the
    youngest key comes first. A larger table keeps this order.
    """

    __slots__ = ("_log2_capacity", "_turn")

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        super().__init__(hash_of)
        self._log2_capacity = 1
        self._turn = 0

    def __setitem__(self, key: K, value: V) -> None:
        """Put a value.

        A key that is already in the table keeps its place in the order. The table doubles before it would have more
        than 4/3 keys for each bin.
        """
        if (len(self._values) + 1) * 3 > 4 << self._log2_capacity:
            self._log2_capacity += 1
        if key not in self._values:
            self._turn += 1
            self._places[key] = ((self._hash_of(key) * _FIBONACCI) & _LONG, -self._turn)
        self._values[key] = value

    def __delitem__(self, key: K) -> None:
        del self._values[key]
        del self._places[key]

    def __iter__(self) -> Iterator[K]:
        shift, places = 64 - self._log2_capacity, self._places
        return iter(sorted(places, key=lambda key: (places[key][0] >> shift, places[key][1])))
