"""Operations on hash tables in the lines that ``scripts/kafka/.../HashOrders.java`` reads, done by our tables."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product

from coordinator_replay.java_strings import string_hash
from coordinator_replay.simulation.coordinator.java_order import HashOrder, TimelineOrder, partition_hash

TABLES = ["map", "timeline", "partitions"]

MOST_IN_A_BIN = 7
"""Of keys that share a bin of a table with 64 places: with one or two more Java makes a tree of it."""


def random_line(randomness: random.Random) -> str:
    """A table and what is done to it; often with ids such as the coordinator makes, sometimes colliding ones."""
    table = randomness.choice(TABLES)
    width = randomness.choice([3, 12, 13, 40, 200])
    if table == "map" and randomness.random() < 0.3:
        # Tables with few bins for all keys; none is so crowded that Java makes a tree of it.
        crowd = randomness.choice([_same_hash, _same_place])(randomness)
        keys = [randomness.choice(crowd) for _ in range(width)]
    else:
        keys = [_key(randomness, table, number) for number in range(width)]
    operations = [randomness.choice("+++-" if table != "map" else "+++^^-") + randomness.choice(keys) for _ in keys * 2]
    if table == "map" and randomness.random() < 0.3:
        operations.insert(randomness.randrange(len(operations)), "=")
    return "\t".join([table, *operations])


def order_of(line: str) -> str:
    """The keys in the order our table gives them out."""
    table, *operations = line.split("\t")
    return "\t".join(_partitions(operations) if table == "partitions" else _keys(table, operations))


def _keys(table: str, operations: list[str]) -> Iterator[str]:
    tables = {"map": HashOrder, "timeline": TimelineOrder}
    keys = tables[table](string_hash)
    for operation in operations:
        kind, key = operation[0], operation[1:]
        if kind == "=":
            keys = HashOrder.copy_of(string_hash, keys.items())
        elif kind == "-":
            keys.pop(key, None)
        elif kind == "^" and isinstance(keys, HashOrder):
            keys.put_first(key, key)
        else:
            keys[key] = key
    return iter(keys)


def _partitions(operations: list[str]) -> Iterator[str]:
    keys: HashOrder[tuple[str, int], None] = HashOrder(partition_hash)
    for operation in operations:
        topic, number = operation[1:].rsplit("-", 1)
        if operation[0] == "+":
            keys[topic, int(number)] = None
        else:
            keys.pop((topic, int(number)), None)
    return (f"{topic}-{number}" for topic, number in keys)


def _same_hash(randomness: random.Random) -> list[str]:
    """A few keys of one hash."""
    keys = ["".join(pairs) for pairs in product(["Aa", "BB"], repeat=3)]
    return randomness.sample(keys, MOST_IN_A_BIN)


def _same_place(randomness: random.Random) -> list[str]:
    """Keys in one bin of the smallest table, which grows for them, and in several bins of a larger one."""
    wanted = randomness.getrandbits(4)
    crowd: list[str] = []
    counts: Counter[int] = Counter()
    while len(crowd) < 16:
        key = f"{randomness.getrandbits(64):x}"
        hash_code = string_hash(key) & 0xFFFFFFFF
        place = (hash_code ^ (hash_code >> 16)) & 0x3F
        if place & 0xF == wanted and counts[place] < MOST_IN_A_BIN:
            counts[place] += 1
            crowd.append(key)
    return crowd


def _key(randomness: random.Random, table: str, number: int) -> str:
    if table == "partitions":
        return f"{randomness.choice(['orders', 'ö', 't'])}-{randomness.randrange(60)}"
    kind = randomness.randrange(4)
    if kind == 0:
        return f"client-{number}-00000000-0000-4000-8000-{randomness.getrandbits(48):012x}"
    if kind == 1:
        return "".join(randomness.choice(["Aa", "BB"]) for _ in range(randomness.choice([1, 2])))
    return randomness.choice(["g", "käse", "\U0001f600", "member"]) + str(randomness.randrange(1000))
