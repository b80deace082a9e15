"""A life in which requests also come that no client would send then: stale, malformed, of strangers, for other groups.

The consumers of the group are those of every life, and react to what becomes of them.
"""

import base64
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from coordinator_replay.records.blobs import write_assignment
from coordinator_replay.simulation.coordinator import Topic
from scripts.world.client_bytes import JAVA, subscription
from scripts.world.consumers import ClassicConsumer, Consumer, ModernConsumer
from scripts.world.life import GROUP, Life
from scripts.world.mixes import UNIFORM

GROUPS = (GROUP, GROUP, "other", "third")
"""Groups that odd requests name; the second half has no consumers."""
INSTANCES = ("instance-0", "instance-1", "instance-2")
TOPICS = ("orders", "payments", "clicks", "audit", "nothing")
REGEXES = ("o.*", "(clicks|audit)", ".*", "q.+", "none", "", "[bad")

ODD = (
    *("beat_oddly", "leave_oddly", "own_oddly", "resend", "join_again", "join_as_another", "join_oddly", "sync_oddly"),
    *("twin", "ghost_beats", "strange_heartbeat", "strange_leave", "commit_oddly", "commit_in_transaction"),
    *("end_any_transaction", "fetch", "describe", "delete_some", "delete_an_offset", "configure_group"),
    *("hold_jobs", "move_topic", "let_time_pass"),
)
"""The names of all odd events, which are methods of ``OddLife``."""
OFTEN = ("commit_oddly", "sync_oddly", "fetch", "beat_oddly", "join", "join_again", "let_time_pass")

MIX = UNIFORM._replace(
    name="odd",
    weights={
        **dict.fromkeys(UNIFORM.weights, 0.7), **dict.fromkeys(ODD, 1.0), **dict.fromkeys(OFTEN, 3.0),
        "quiet": 0.1, "delete_group": 0.2, "delete_some": 0.3, "reload": 0.4, "roll": 0.2, "all_leave": 0.2,
    },
    overlap_share=1.0,
    fault_share=0,
)  # fmt: skip


def _settings(random: Random) -> dict[str, Any]:
    choice = random.choice
    settings: dict[str, Any] = {"group.initial.rebalance.delay.ms": choice([0, 0, 500, 3000])}
    if random.random() < 0.2:
        settings |= {"group.consumer.max.size": choice([2, 4]), "group.max.size": choice([2, 4])}
    if random.random() < 0.3:
        settings["group.consumer.migration.policy"] = choice(["disabled", "upgrade", "downgrade", "bidirectional"])
    if random.random() < 0.5:
        settings["group.consumer.assignors"] = choice(
            [["uniform"], ["range"], ["range", "uniform"], ["uniform", "range"]]
        )
    return settings


class OddLife(Life):
    """A life of a group with consumers of all kinds, and with odd events."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, MIX, settings=_settings(Random(f"settings {seed}")))
        self._kind = self.random.choice(["modern", "classic", "mixed", "mixed"])
        self._has_racks = self._chance(0.3)

    def script(self, commands: int) -> list[str]:
        """Live until there are about so many commands, and return the script."""
        names, weights = zip(*self.mix.weights.items(), strict=True)
        while len(self.coordinator.asked) < commands:
            before = self._steps
            getattr(self, self.random.choices(names, weights)[0])()
            self.pass_time(self.random.choice([0, 0, 20, 300, 1000, 3000]))
            if self._steps == before:
                # The life has ended, because it had so many rebalances.
                break
        return self.coordinator.script()

    def _new_topic(self, name: str) -> Topic:
        """Make a topic with the next id.

        A Java HashMap of few such ids has each in a bin of its own. In a shared bin, ours may have another order than
        Kafka's in the assignment that a classic member of a consumer group gets.
        """
        number = (len(self.topics) + 1).to_bytes(16, "big")
        topic_id = base64.urlsafe_b64encode(number).decode().rstrip("=")
        topic = Topic(name, topic_id, self.random.randint(1, 8))
        self.names[topic_id] = name
        self.topics.append(topic)
        return topic

    # -- consumers of all kinds ----------------------------------------------------------------------------------------

    def _new_consumer(self, *, is_modern: bool) -> Consumer:
        """Make a consumer with settings of its own; several may have one instance id."""
        choice = self.random.choice
        share = {"modern": 0.95, "classic": 0.05, "mixed": 0.5}[self._kind]
        assignors = [("range",), ("range", "roundrobin"), ("cooperative-sticky", "range"), ("cooperative-sticky",)]
        self.habits = self.habits._replace(
            library=JAVA, assignors=choice([*assignors, ("range",)]), session_ms=choice([6000, 10_000, 45_000]),
            rebalance_ms=choice([5000, 20_000, 60_000]), join_version=choice([3, 5, 8, 9, 9, 9]),
            protocol_type="connect" if self._chance(0.03) else "consumer",
            regex=choice(REGEXES) if self._chance(0.2) else None, request_ms=30_000,
        )  # fmt: skip
        made = super()._new_consumer(is_modern=self._chance(share))
        made.instance_id = choice(INSTANCES) if self._chance(0.25) else None
        made.rack = choice("abc") if self._chance(0.3) else None
        if isinstance(made, ModernConsumer) and self._chance(0.25):
            made.server_assignor = choice(["uniform", "range", "range", "nope"])
        return made

    def twin(self) -> None:
        """Start a consumer with the instance id of another one."""
        other = self._any([one for one in self._on if one.instance_id is not None])
        if other is not None:
            twin = self._new_consumer(is_modern=False)
            twin.instance_id = other.instance_id
            twin.start(self)

    # -- requests in the name of a consumer that does not know of them -------------------------------------------------

    def _some(self, kind: type[Consumer]) -> Any:
        return self._any([one for one in self.consumers if isinstance(one, kind) and one.member_id])

    def _silently(self, consumer: Consumer, api: str, body: Mapping[str, Any], version: int | None = None) -> None:
        self.send(consumer, api, body, lambda _: None, version)

    def beat_oddly(self) -> None:
        """Send a heartbeat of another epoch or generation, or without anything new."""
        one = self._any([one for one in self.consumers if one.member_id])
        epoch = 0 if one is None else one.generation + self.random.choice([-2, -1, 0, 1])
        if isinstance(one, ModernConsumer):
            body = {"memberId": one.member_id, "memberEpoch": epoch, "instanceId": one.instance_id}
            self._silently(one, "ConsumerGroupHeartbeat", body)
        elif one is not None:
            body = {"memberId": one.member_id, "generationId": epoch, "groupInstanceId": one.instance_id}
            self._silently(one, "Heartbeat", body)

    def leave_oddly(self) -> None:
        """Let a member leave whose consumer goes on."""
        one = self._any([one for one in self.consumers if one.member_id])
        if isinstance(one, ModernConsumer):
            epoch = self.random.choice([-1, -2])
            body = {"memberId": one.member_id, "memberEpoch": epoch, "instanceId": one.instance_id}
            self._silently(one, "ConsumerGroupHeartbeat", body)
        elif one is not None:
            member = {"memberId": one.member_id, "groupInstanceId": one.instance_id, "reason": "bye"}
            self._silently(one, "LeaveGroup", {"members": [member]})

    def own_oddly(self) -> None:
        """Report partitions with a late epoch, or only some of the partitions."""
        one = self._some(ModernConsumer)
        if one is not None:
            some = one.owned[: self.random.randint(0, len(one.owned))]
            late, owned = self.random.choice([(1, one.owned), (0, some)])
            body = {"memberId": one.member_id, "memberEpoch": one.generation - late, "instanceId": one.instance_id}
            self._silently(one, "ConsumerGroupHeartbeat", {**body, "topicPartitions": self.by_id(owned)})

    def resend(self) -> None:
        """Send every field of a member again, one of them changed."""
        one = self._some(ModernConsumer)
        if one is None:
            return
        choice = self.random.choice
        changed: list[dict[str, Any]] = [
            {},
            {"subscribedTopicNames": self._some_topics()},
            {"subscribedTopicRegex": choice(REGEXES)},
            {"serverAssignor": choice(["uniform", "range"])},
            {"rackId": choice("abc")},
            {"rebalanceTimeoutMs": 1000},
        ]
        body = {
            "memberId": one.member_id, "memberEpoch": one.generation, "instanceId": one.instance_id,
            "rebalanceTimeoutMs": one.rebalance_ms, "subscribedTopicNames": list(one.topics),
            "topicPartitions": self.by_id(one.owned), **choice(changed),
        }  # fmt: skip
        self._silently(one, "ConsumerGroupHeartbeat", body)

    def join_again(self) -> None:
        """Let a consumer join once more, some with other topics or assignors."""
        one = self._any(self._on)
        if one is not None:
            if isinstance(one, ClassicConsumer) and self._chance(0.3):
                one.assignors = self.random.choice([("range",), ("roundrobin",), ("sticky", "range")])
            if self._chance(0.3):
                one.topics = tuple(self._some_topics())
            one.join(self)

    def _some_topics(self) -> list[str]:
        return self.random.sample(TOPICS, self.random.randint(0 if self._chance(0.1) else 1, 3))

    # -- requests of strangers -----------------------------------------------------------------------------------------

    def _group(self) -> str:
        return self.random.choice([*GROUPS, ""]) if self._chance(0.1) else self.random.choice(GROUPS)

    def join_as_another(self) -> None:
        """Join with a member id that nobody has, or as a new member of any group."""
        choice = self.random.choice
        metadata = subscription(JAVA, self._some_topics(), {}, -1)
        body = {
            "groupId": self._group(), "memberId": choice(["", "", "ghost"]), "groupInstanceId": self._instance(),
            "sessionTimeoutMs": choice([6000, 30_000]), "rebalanceTimeoutMs": 5000,
            "protocolType": choice(["consumer", "consumer", "connect"]),
            "protocols": [{"name": choice(["range", "roundrobin"]), "metadata": metadata}],
        }  # fmt: skip
        self.ask("JoinGroup", body, choice([None, 3, 5]))

    def _instance(self) -> str | None:
        return self.random.choice(INSTANCES) if self._chance(0.2) else None

    def join_oddly(self) -> None:
        """Join with what the coordinator refuses."""
        choice = self.random.choice
        malformed = base64.b64encode(bytes(3)).decode()
        body = {
            "groupId": self._group(), "memberId": "", "sessionTimeoutMs": choice([1, 6000]),
            "rebalanceTimeoutMs": 5000, "protocolType": choice(["", "consumer", "connect"]),
            "protocols": choice([[], [{"name": "range", "metadata": malformed}], [{"name": "odd", "metadata": ""}]]),
        }  # fmt: skip
        self.ask("JoinGroup", body, choice([None, 3]))

    def sync_oddly(self) -> None:
        """Send SyncGroup with an assignment that was made up, or for what is not there."""
        one, choice = self._some(ClassicConsumer), self.random.choice
        if one is None:
            return
        members = [one.member_id for one in self.consumers if isinstance(one, ClassicConsumer) and one.member_id]
        body = {
            "groupId": self._group() if self._chance(0.1) else self.group, "memberId": one.member_id,
            "groupInstanceId": one.instance_id, "generationId": one.generation + choice([-1, 0, 0, 0, 1]),
            "protocolType": choice(["consumer", "consumer", "consumer", "nope"]),
            "protocolName": choice([one.protocol, one.protocol, one.protocol, "nope"]),
            "assignments": choice([self._made_up(members), self._made_up(members), []]),
        }  # fmt: skip
        self._silently(one, "SyncGroup", body)

    def _made_up(self, members: Sequence[str]) -> list[dict[str, str]]:
        """Return an assignment in turns, seldom without a member, or with a member that is not there."""
        chosen = [one for one in members if not self._chance(0.05)] + (["ghost"] if self._chance(0.05) else [])
        parts = [(name, number) for name, count in self.partitions().items() for number in range(count)]
        made = []
        for turn, member_id in enumerate(chosen):
            by_topic: dict[str, list[int]] = {}
            for name, number in parts[turn :: len(chosen)]:
                by_topic.setdefault(name, []).append(number)
            made.append({"memberId": member_id, "assignment": write_assignment(by_topic, 3)})
        return made

    def ghost_beats(self) -> None:
        """Send a heartbeat for a member that is not there."""
        body = {"memberId": self.random.choice(["ghost", ""]), "generationId": self.random.choice([-1, 0, 1, 2])}
        self.ask("Heartbeat", {"groupId": self._group(), "groupInstanceId": self._instance(), **body})

    def strange_heartbeat(self) -> None:
        """Send a heartbeat of the new protocol that is malformed, or is a stranger's."""
        one = self._some(ModernConsumer)
        member_id, epoch = (one.member_id, one.generation) if one is not None else ("stranger", 1)
        joins = {"rebalanceTimeoutMs": 1000, "topicPartitions": []}
        bodies: list[dict[str, Any]] = [
            {"memberId": member_id, "memberEpoch": -3},
            {"memberId": "ghost", "memberEpoch": 3},
            {"memberId": "ghost", "memberEpoch": -1},
            {"memberId": "", "memberEpoch": 0},
            {"memberId": member_id, "memberEpoch": 0},
            {"memberId": member_id, "memberEpoch": epoch, "instanceId": INSTANCES[0]},
            {"memberId": member_id, "memberEpoch": -2, "instanceId": INSTANCES[1]},
            {"memberId": member_id, "memberEpoch": 0, **joins, "subscribedTopicRegex": "(a"},
            {"memberId": "stranger", "memberEpoch": 0, **joins, "subscribedTopicNames": self._some_topics()},
            {"memberId": "racked", "memberEpoch": 0, **joins, "subscribedTopicNames": ["orders"], "rackId": "a"},
        ]
        self.ask("ConsumerGroupHeartbeat", {"groupId": self._group(), **self.random.choice(bodies)})

    def strange_leave(self) -> None:
        """Remove members by ids that may not be theirs."""
        one = self._some(ClassicConsumer)
        member_id = one.member_id if one is not None else "x"
        identities: list[dict[str, Any]] = [
            {"memberId": "ghost"},
            {"groupInstanceId": INSTANCES[0]},
            {"memberId": member_id},
            {"memberId": member_id, "groupInstanceId": INSTANCES[1]},
        ]
        members = [self.random.choice(identities) for _ in range(self.random.randint(0, 3))]
        self.ask("LeaveGroup", {"groupId": self._group(), "members": members})

    # -- offsets -------------------------------------------------------------------------------------------------------

    def _committed(self) -> list[dict[str, Any]]:
        offset = {"partitionIndex": self.random.randint(0, 4), "committedOffset": self.random.randint(0, 99)}
        return [{"name": self.random.choice(TOPICS), "partitions": [{**offset, "committedMetadata": ""}]}]

    def commit_oddly(self) -> None:
        """Commit for a member, in most cases with its epoch, or for nobody."""
        one, choice = self._any([one for one in self.consumers if one.member_id]), self.random.choice
        if one is None or self._chance(0.15):
            body = {"memberId": choice(["", "ghost"]), "generationIdOrMemberEpoch": choice([-1, -1, 0, 2])}
            self.ask("OffsetCommit", {"groupId": self._group(), "topics": self._committed(), **body})
            return
        body = {
            "memberId": one.member_id, "topics": self._committed(),
            "generationIdOrMemberEpoch": one.generation + choice([0, 0, 0, 0, -1, -2, 1]),
        }  # fmt: skip
        if one.instance_id is not None and self._chance(0.5):
            body["groupInstanceId"] = one.instance_id
        self._silently(one, "OffsetCommit", body, 8 if self._chance(0.15) else None)

    def commit_in_transaction(self) -> None:
        """Commit in a transaction of one of two producers."""
        body = {
            "groupId": self._group(), "transactionalId": "t", "producerId": self.random.randint(1, 2),
            "producerEpoch": 0, "memberId": "", "generationId": -1, "topics": self._committed(),
        }  # fmt: skip
        self.ask("TxnOffsetCommit", body)

    def end_any_transaction(self) -> None:
        """End a producer's transaction, also if there is none."""
        self.end_transaction(self.random.randint(1, 2), committed=self._chance(0.5))

    def fetch(self) -> None:
        """Fetch the offsets of a group, for a member or for nobody."""
        one = self._any(self.consumers) if self._chance(0.5) else None
        group: dict[str, Any] = {"groupId": self._group(), "memberId": None, "memberEpoch": -1, "topics": None}
        if one is not None:
            group |= {"groupId": self.group, "memberId": one.member_id, "memberEpoch": one.generation}
        self.ask("OffsetFetch", {"groups": [group], "requireStable": one is not None and self._chance(0.5)})

    def delete_an_offset(self) -> None:
        """Delete the offset of a partition."""
        topics = [{"name": self.random.choice(TOPICS), "partitions": [{"partitionIndex": self.random.randint(0, 3)}]}]
        self.ask("OffsetDelete", {"groupId": self._group(), "topics": topics})

    # -- all else ------------------------------------------------------------------------------------------------------

    def describe(self) -> None:
        """Describe or list the groups."""
        if self._chance(0.5):
            self.ask("ConsumerGroupDescribe", {"groupIds": list(GROUPS[1:])})
            self.ask("DescribeGroups", {"groups": list(GROUPS[1:])})
        else:
            self.ask("ListGroups", {"statesFilter": [], "typesFilter": []})

    def delete_some(self) -> None:
        """Delete groups, whether they have members or not."""
        names = self.random.sample([*GROUPS[1:], "none"], self.random.randint(1, 2))
        self.ask("DeleteGroups", {"groupsNames": names})

    def configure_group(self) -> None:
        """Give a group settings of its own."""
        configs = [{"consumer.session.timeout.ms": 50_000}, {"consumer.heartbeat.interval.ms": 6000}, {}]
        self.coordinator.set_group_config(self.random.choice(GROUPS), self.random.choice(configs))

    def hold_jobs(self) -> None:
        """Hold background jobs while consumers go on."""
        self._take(self.coordinator.hold_jobs(hold=True))
        for _ in range(self.random.randint(1, 3)):
            self.random.choice([self.resend, self.own_oddly, self.join_again])()
        self.pass_time(self.random.choice([0, 20, 6000]))
        self._take(self.coordinator.hold_jobs(hold=False))

    def move_topic(self) -> None:
        """Move a topic to other racks."""
        topic = self._any_topic()
        if topic is not None and self._has_racks:
            racks = tuple(tuple(self.random.sample("abc", 2)) for _ in range(topic.partitions))
            self._topics[topic.name] = topic._replace(racks=racks)
            self._topics_changed(topic.name)

    def let_time_pass(self) -> None:
        """Let time pass, at times for so long that sessions end."""
        times = [1, 100, 500, 1000, 3000, 5000, 6000, 10_000]
        self.pass_time(self.random.choice([*times, 45_000, 60_000, 700_000] if self._chance(0.2) else times))
