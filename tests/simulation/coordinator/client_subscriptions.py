"""Random subscriptions of consumers, in the oracle's ``{"assign": …}`` form and in ours."""

import random
from typing import Any

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.coordinator.script.assign import assign

TOPICS = ["foo", "bar", "baz", "a", "übung", "orders-eu"]


def random_question(randomness: random.Random, assignor: str) -> dict[str, Any]:
    """Topics and members: racks, static members, owned partitions of several generations, claims that contradict."""
    names = randomness.sample(TOPICS, randomness.randint(1, 5))
    topics = {name: randomness.choice([0, 1, 2, 3, 5, 8, 12]) for name in names if randomness.random() < 0.95}
    with_racks = randomness.random() < 0.4
    question: dict[str, Any] = {"assign": assignor, "topics": topics}
    if with_racks:
        question["racks"] = {
            name: [randomness.sample("abc", randomness.choice([0, 1, 2, 2, 3])) for _ in range(count)]
            for name, count in topics.items()
        }
    common = randomness.sample(names, randomness.randint(1, len(names)))
    all_alike = randomness.random() < 0.5
    free = [(name, number) for name, count in topics.items() for number in range(count)]
    randomness.shuffle(free)
    question["members"] = {
        member: _random_member(randomness, names if not all_alike else common, all_alike, with_racks, free, topics)
        for member in _ids(randomness)
    }
    return question


def answer(question: dict[str, Any]) -> dict[str, dict[str, list[int]]] | None:
    """What our assignor gives, None where it fails."""
    try:
        return assign(question)
    except UsageError:
        return None


def _ids(randomness: random.Random) -> list[str]:
    count = randomness.choice([1, 2, 3, 3, 5, 8, 15])
    if randomness.random() < 0.5:
        ids = [f"m{number}" for number in randomness.sample(range(100), count)]
    else:
        ids = [f"consumer-{number}-{randomness.getrandbits(128):032x}" for number in range(count)]
    return ids


def _random_member(
    randomness: random.Random,
    names: list[str],
    all_alike: bool,
    with_racks: bool,
    free: list[tuple[str, int]],
    topics: dict[str, int],
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "topics": names if all_alike else randomness.sample(names, randomness.randint(0, len(names)))
    }
    if with_racks and randomness.random() < 0.8:
        told["rack"] = randomness.choice(["a", "b", "c", "d", ""])
    if randomness.random() < 0.25:
        told["instance"] = f"i{randomness.getrandbits(30)}"
    if randomness.random() < 0.7:
        told["generation"] = randomness.choice([5, 5, 5, 4, 3, -1])
        owned: dict[str, list[int]] = {}
        for _ in range(randomness.choice([0, 1, 3, 6])):
            if free and (randomness.random() < 0.9 or not any(topics.values())):
                topic, number = free.pop()
            else:
                topic = randomness.choice(TOPICS)
                number = randomness.randrange(max(topics.get(topic, 0), 1))
            if number not in owned.setdefault(topic, []):
                owned[topic].append(number)
        told["owned"] = owned
    return told
