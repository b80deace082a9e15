"""Random lives of a group, drawn from a seed: the times at which clients start, end, die, hang and come back.

A life is drawn before anything runs, and does not depend on settings. So groups with different settings get the same
life.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

JAVA, LIBRDKAFKA = "java", "librdkafka"

CLASSIC = {"group.protocol": "classic", "partition.assignment.strategy": "range", "group.instance.id": "none"}
CONSUMER = {"group.protocol": "consumer", "group.remote.assignor": "uniform", "group.instance.id": "none"}
STATIC = {"group.instance.id": "per-client"}


@dataclass
class Client:
    """One client and its steps.

    Attributes:
        steps: the seconds since the beginning, the name, and for ``stall`` the duration in seconds, of each step.
    """

    name: str
    library: str
    steps: list[tuple[float, str, float]] = field(default_factory=list)


@dataclass
class Drawn:
    """A life.

    Attributes:
        intervals: settings that all groups share, by Kafka's names.
        groups: settings by group.
        topics: partitions by topic.
        growth: the seconds since the beginning, the topic, and its new number of partitions, of each change.
        seconds: duration of the life.
        commits: whether clients commit offsets.
        poll_seconds: max.poll.interval.ms in seconds.
    """

    seed: int
    intervals: dict[str, str]
    groups: dict[str, dict[str, str]]
    topics: dict[str, int]
    growth: list[tuple[float, str, int]]
    clients: list[Client]
    seconds: float
    commits: bool
    poll_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the life as values for JSON."""
        return asdict(self)


def draw(seed: int) -> Drawn:
    """Draw a life."""
    return _Drawing(seed).life()


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)  # noqa: S311 -- a seed is to give the same life again
        self.clients: list[Client] = []
        self.here: list[Client] = []
        self.growth: list[tuple[float, str, int]] = []
        self.topics = {
            f"topic-{number}": self.random.randint(2, 8) for number in range(1, self.random.choice((1, 1, 2, 3)) + 1)
        }
        self.session = self.random.choice((6, 8, 10))
        self.poll_seconds = self.random.choice((15.0, 300.0, 300.0))
        self.libraries = self.random.choice(((LIBRDKAFKA,), (JAVA,), (LIBRDKAFKA, JAVA)))
        self.release = 1

    def life(self) -> Drawn:
        random = self.random
        count = random.choice((2, 3, 3, 4, 4, 5, 6, 8))
        for _ in range(count):
            self.start(random.uniform(0, 1.5) if random.random() < 0.5 else 0.2)
        at = 14.0
        for _ in range(random.randint(4, 7)):
            at = random.choice(self.happenings())(at) + random.choice((1.0, 4.0, 8.0, 8.0)) + random.random()
        intervals = {
            "heartbeat.interval.ms": str(random.choice((500, 1000, 2000))),
            "group.initial.rebalance.delay.ms": str(random.choice((0, 300, 1000, 3000))),
            "metadata.max.age.ms": str(random.choice((1000, 2000, 5000))),
        }
        return Drawn(
            self.seed,
            intervals,
            self.groups(f"life-{self.seed}"),
            self.topics,
            self.growth,
            self.clients,
            at + self.session + 6,
            random.random() < 0.5,
            self.poll_seconds,
        )

    def groups(self, name: str) -> dict[str, dict[str, str]]:
        session = {"session.timeout.ms": str(self.session * 1000)}
        patient = {"session.timeout.ms": "15000"}
        cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
        return {
            f"{name}-dynamic": CLASSIC | session,
            f"{name}-static": CLASSIC | STATIC | session,
            f"{name}-patient": CLASSIC | STATIC | patient,
            f"{name}-coop": CLASSIC | cooperative | session,
            f"{name}-new": CONSUMER | session,
            f"{name}-newstatic": CONSUMER | STATIC | session,
        }

    def happenings(self) -> list[Any]:
        found = [self.restart, self.restart, self.rolling, self.scale_up, self.scale_down, self.grow, self.deploy]
        if any(client.library == LIBRDKAFKA for client in self.here):
            found += [self.crash, self.crash]
        if self.poll_seconds < 60:
            found.append(self.stall)
        return found

    def start(self, at: float, library: str | None = None) -> None:
        name = f"release-{self.release}-client-{len(self.clients) + 1}"
        client = Client(name, library or self.random.choice(self.libraries), [(at, "start", 0.0)])
        self.clients.append(client)
        self.here.append(client)

    def away(self) -> float:
        """Return how long a client is away: about the time to start a process, or about its session timeout."""
        if self.random.random() < 0.5:
            return self.random.uniform(0.3, 3)
        return self.random.uniform(0.6, 1.5) * self.session

    def restart(self, at: float) -> float:
        return self.end(self.random.choice(self.here), at, "close", self.away())

    def end(self, client: Client, at: float, how: str, away: float | None) -> float:
        client.steps.append((at, how, 0.0))
        if away is None:
            self.here.remove(client)
            return at
        client.steps.append((at + away, "start", 0.0))
        return at + away

    def crash(self, at: float) -> float:
        client = self.random.choice([one for one in self.here if one.library == LIBRDKAFKA])
        is_back = len(self.here) == 1 or self.random.random() < 0.7
        self.end(client, at, "crash", self.away() if is_back else None)
        return at + self.session

    def rolling(self, at: float) -> float:
        away = self.random.uniform(0.3, 3)
        for client in self.here:
            at = self.end(client, at, "close", away) + self.random.uniform(0.2, 4)
        return at

    def scale_up(self, at: float) -> float:
        for _ in range(self.random.randint(1, max(1, min(4, 12 - len(self.here))))):
            self.start(at)
            at += self.random.choice((0.1, 0.1, 2.0))
        return at

    def scale_down(self, at: float) -> float:
        for client in self.here[1 : 1 + self.random.randint(1, 3)]:
            self.end(client, at, "close", None)
            at += self.random.choice((0.1, 1.0))
        return at

    def grow(self, at: float) -> float:
        topic = self.random.choice(list(self.topics))
        now = max([self.topics[topic], *(count for _, name, count in self.growth if name == topic)])
        self.growth.append((at, topic, now + self.random.randint(1, 4)))
        return at + 3

    def deploy(self, at: float) -> float:
        """Replace all present clients by other clients, one by one or all at once."""
        self.release += 1
        old, is_rolling = list(self.here), self.random.random() < 0.5
        for client in old:
            self.end(client, at, "close", None)
            self.start(at + 1.0, client.library)
            at += self.random.uniform(1, 3) if is_rolling else 0.05
        return at + 1

    def stall(self, at: float) -> float:
        seconds = self.poll_seconds + self.random.uniform(1, 5)
        self.random.choice(self.here).steps.append((at, "stall", seconds))
        return at + seconds


def settings_of(life: Drawn, group: Mapping[str, str], client: Client) -> dict[str, str]:
    """Return the settings of a client, by Kafka's names."""
    wanted = {
        "client.id": client.name,
        "group.protocol": group["group.protocol"],
        "max.poll.interval.ms": str(round(life.poll_seconds * 1000)),
        "enable.auto.commit": str(life.commits).lower(),
        "auto.offset.reset": "earliest",
    }
    if group["group.instance.id"] == "per-client":
        wanted["group.instance.id"] = client.name
    if group["group.protocol"] == "classic":
        wanted["session.timeout.ms"] = group["session.timeout.ms"]
        wanted["heartbeat.interval.ms"] = life.intervals["heartbeat.interval.ms"]
        wanted["partition.assignment.strategy"] = group["partition.assignment.strategy"]
    return wanted
