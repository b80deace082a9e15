"""Groups of both protocols in a random life: members that behave, members that don't, topics, offsets and time."""

import base64
import json
import random
from collections.abc import Callable
from typing import Any

from coordinator_replay.simulation.coordinator.script import ScriptRun
from tests.simulation.coordinator.random_members import (
    MEMBER_ID_REQUIRED,
    Body,
    ClassicMember,
    Member,
    ModernMember,
    Parts,
)

NAMES = ["foo", "bar", "baz", "fob", "qux"]
REGEXES = ["f.*", "ba[rz]", ".*", "q.+", "none", "", "[bad"]
GROUPS = ["g0", "g1", "g2", "g3"]
INSTANCES = ["i1", "i2", "i3"]
MOST_MEMBERS = 14

Responder = Callable[[Body], None]


class Script:
    """The lines so far; our coordinator answers while they are made, so that Kafka's has to run only once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._run = ScriptRun()
        self._waiting: dict[int, Responder] = {}

    def send(self, command: Body, responder: Responder | None = None) -> Body | None:
        """Add a command; every response goes to its responder, the one to this command is returned."""
        line = json.dumps(command, separators=(",", ":"))
        index = len(self.lines)
        self.lines.append(line)
        if responder is not None:
            self._waiting[index] = responder
        own = None
        for event in json.loads(self._run.run(line))["out"]:
            if "to" not in event:
                continue
            response = event.get("response") or {"error": event.get("error")}
            waiting = self._waiting.pop(event["to"], None)
            if waiting is not None:
                waiting(response)
            if event["to"] == index:
                own = response
        return own

    def request(
        self,
        api: str,
        group: str | None = None,
        body: Body | None = None,
        *,
        version: int | None = None,
        client: Body | None = None,
        responder: Responder | None = None,
    ) -> Body | None:
        optional = {"version": version, "group": group, "client": client}
        given = {name: value for name, value in optional.items() if value is not None}
        return self.send({"request": api, **given, "body": body or {}}, responder)

    def waits(self, member: object) -> bool:
        return any(getattr(responder, "__self__", None) is member for responder in self._waiting.values())


class World:
    """The life of a few groups."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.script = Script()
        self.members: list[Member] = []
        self._count = 0
        self._topics: dict[str, Body] = {}
        self._topic_count = 0
        self._kinds = {group: self.random.choice(["modern", "classic", "mixed", "mixed"]) for group in GROUPS}
        self._has_racks = self._chance(0.3)
        self.script.send({"config": self._config()})
        for name in NAMES[:3]:
            self._create_topic(name)
        self._send_topics()

    def run(self, steps: int) -> list[str]:
        """Live for about so many lines; the inner state is compared every ten steps and at the end."""
        turn = 0
        while len(self.script.lines) < steps:
            self._step()
            turn += 1
            if turn % 10 == 0:
                self.script.send({"dump": True})
        self.script.send({"dump": True})
        return self.script.lines

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _config(self) -> Body:
        choice = self.random.choice
        config: Body = {
            "group.initial.rebalance.delay.ms": choice([0, 0, 500, 3000]),
            "group.consumer.assignment.interval.ms": choice([0, 0, 0, 1000]),
        }
        if self._chance(0.2):
            config["group.consumer.max.size"] = choice([2, 4])
        if self._chance(0.2):
            config["group.max.size"] = choice([2, 4])
        if self._chance(0.3):
            config["group.consumer.migration.policy"] = choice(["disabled", "upgrade", "downgrade", "bidirectional"])
        if self._chance(0.5):
            assignors = [["uniform"], ["range"], ["range", "uniform"], ["uniform", "range"]]
            config["group.consumer.assignors"] = choice(assignors)
        return config

    def _step(self) -> None:
        is_full = len(self.members) >= MOST_MEMBERS
        if not self.members or (not is_full and self._chance(0.08)):
            self._new_member()
            return
        steps: list[tuple[Callable[[], object], int]] = [
            (self._behave_once, 520),
            (self._all_behave, 100),
            (self._misbehave, 100),
            (self._advance, 70),
            (self._change_topics, 30),
            (self._offsets, 60),
            (self._look, 25),
            (self._delete, 5),
            (lambda: self.script.send({"reload": True}), 3),
            (self._set_group_config, 3),
            (self._hold_jobs, 4),
        ]
        step = self.random.choices([one for one, _ in steps], [weight for _, weight in steps])[0]
        step()

    # -- members -----------------------------------------------------------------------------------------------------

    def _new_member(self) -> None:
        group = self.random.choice(GROUPS)
        share = {"modern": 0.95, "mixed": 0.5, "classic": 0.05}[self._kinds[group]]
        if self._chance(share):
            self._new_modern(group)
        else:
            self._new_classic(group)

    def _subjects(self) -> list[str]:
        return self.random.sample(NAMES, self.random.randint(0 if self._chance(0.1) else 1, 3))

    def _maybe_instance(self) -> str | None:
        return self.random.choice(INSTANCES) if self._chance(0.25) else None

    def _new_modern(self, group: str, instance_id: str | None = None) -> None:
        choice = self.random.choice
        self._count += 1
        regex = choice(REGEXES) if self._chance(0.2) else None
        member = ModernMember(
            self.script,
            group,
            f"M{self._count}",
            topics=self._subjects() if regex is None or self._chance(0.3) else None,
            regex=regex,
            instance_id=instance_id or self._maybe_instance(),
            rack=choice("abc") if self._chance(0.3) else None,
            assignor=choice(["uniform", "range", "range", "nope"]) if self._chance(0.25) else None,
            rebalance_ms=choice([5000, 20000, 60000]),
        )
        self.members.append(member)
        member.join()

    def _new_classic(self, group: str, instance_id: str | None = None) -> None:
        choice = self.random.choice
        self._count += 1
        protocols = [["range"], ["range", "roundrobin"], ["cooperative-sticky", "range"], ["cooperative-sticky"]]
        member = ClassicMember(
            self.script,
            group,
            f"c{self._count}",
            self._subjects(),
            instance_id or self._maybe_instance(),
            choice([*protocols, ["range"]]),
            choice([6000, 10000, 45000]),
            choice([5000, 20000, 60000]),
            choice([None, None, "a"]),
            "connect" if self._chance(0.03) else "consumer",
            choice([*[None] * 8, 3, 5, 8]),
        )
        self.members.append(member)
        self._behave(member)

    def _behave_once(self) -> None:
        self._behave(self.random.choice(self.members))

    def _all_behave(self) -> None:
        for member in list(self.members):
            self._behave(member)

    def _behave(self, member: Member) -> None:
        """Do what a client would do now."""
        if isinstance(member, ModernMember):
            self._behave_modern(member)
        elif self.script.waits(member):
            if member.member_id and self._chance(0.3):
                member.beat()
        elif member.stage == "new":
            self._start(member)
        elif member.stage == "joined":
            self._go_on_from_join(member)
        else:
            self._go_on_from_sync(member)

    def _behave_modern(self, member: ModernMember) -> None:
        if member.error in (110, 25, 69):
            # Fenced, unknown, or the group does not exist.
            member.join()
        elif member.error:
            self.members.remove(member)
        elif member.epoch < 0:
            member.join()
        elif self._chance(0.75):
            member.acknowledge()
        else:
            member.poll()

    def _start(self, member: ClassicMember) -> None:
        member.join()
        member.stage = "joined"

    def _go_on_from_join(self, member: ClassicMember) -> None:
        if member.join_error is None or member.join_error == MEMBER_ID_REQUIRED:
            member.send_join()
        elif member.join_error in (25, 82, 27):
            member.start_again(member.join_error)
            self._start(member)
        elif member.join_error:
            self.members.remove(member)
        else:
            member.sync(self._assignment(member) if member.leader == member.member_id else None)
            member.stage = "synced"

    def _go_on_from_sync(self, member: ClassicMember) -> None:
        if member.sync_error:
            member.start_again(member.sync_error)
            self._start(member)
            return
        error = member.beat()
        if error == 27:
            self._start(member)
        elif error:
            member.start_again(error)

    def _assignment(self, member: ClassicMember) -> dict[str, Parts]:
        """What a leader makes up: in turns, seldom without a member, or with one that is not there."""
        members = member.members or [member.member_id]
        assignment: dict[str, Parts] = {one: {} for one in members}
        known = [name for name in member.topics if name in self._topics]
        partitions = [(name, number) for name in known for number in range(self._topics[name]["partitions"])]
        for turn, (topic, number) in enumerate(partitions):
            assignment[members[turn % len(members)]].setdefault(topic, []).append(number)
        if self._chance(0.05):
            assignment.pop(self.random.choice(members))
        if self._chance(0.05):
            assignment["ghost"] = {"foo": [0]}
        return assignment

    # -- members that don't behave -----------------------------------------------------------------------------------

    def _misbehave(self) -> None:
        member = self.random.choice(self.members)
        moves = self._odd_modern(member) if isinstance(member, ModernMember) else self._odd_classic(member)
        self.random.choice(moves)()

    def _odd_modern(self, member: ModernMember) -> list[Callable[[], object]]:
        choice = self.random.choice
        return [
            member.leave,
            lambda: member.leave(-2),
            lambda: self._changed(member, topics=self._subjects()),
            lambda: self._changed(member, regex=choice(REGEXES)),
            lambda: self._changed(member, assignor=choice(["uniform", "range"])),
            member.join,
            lambda: member.poll(member.epoch + choice([-2, -1, 1])),
            lambda: member.own(member.owned, member.epoch - 1),
            lambda: member.own({topic: one[: self.random.randint(0, len(one))] for topic, one in member.owned.items()}),
            member.resend,
            lambda: self._new_modern(member.group, member.instance_id),
            lambda: self._odd_heartbeat(member),
        ]

    def _changed(self, member: ModernMember, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(member, name, value)
        member.resend()

    def _odd_heartbeat(self, member: ModernMember) -> None:
        member_id, epoch = member.member_id, member.epoch
        bodies: list[Body] = [
            {"memberId": member_id, "memberEpoch": -3},
            {"memberId": "ghost", "memberEpoch": 3},
            {"memberId": "ghost", "memberEpoch": -1},
            {"memberId": "", "memberEpoch": 0},
            {"memberId": member_id, "memberEpoch": 0},
            {"memberId": member_id, "memberEpoch": epoch, "instanceId": "i1"},
            {"memberId": member_id, "memberEpoch": -2, "instanceId": "i2"},
            {
                "memberId": member_id,
                "memberEpoch": 0,
                "rebalanceTimeoutMs": 1000,
                "topicPartitions": [],
                "subscribedTopicRegex": "(a",
            },
        ]
        self.script.request("ConsumerGroupHeartbeat", self.random.choice([*GROUPS, ""]), self.random.choice(bodies))

    def _odd_classic(self, member: ClassicMember) -> list[Callable[[], object]]:
        choice = self.random.choice
        return [
            lambda: self._leave(member),
            lambda: self._join_with(member, topics=self._subjects()),
            lambda: self._join_with(
                member, protocols=choice([["range"], ["roundrobin"], ["sticky", "range"], ["cooperative-sticky"]])
            ),
            member.send_join,
            lambda: member.beat(member.generation + choice([-1, 1])),
            lambda: member.sync(self._assignment(member), generationId=member.generation + choice([-1, 0, 0, 1])),
            lambda: member.sync({}, protocolName=choice(["nope", "range"]), protocolType=choice(["nope", "consumer"])),
            lambda: self._new_classic(member.group, member.instance_id),
            lambda: self._ghost_heartbeat(member),
            lambda: self._odd_leave(member),
            lambda: member.send_join(memberId="ghost"),
            lambda: self._odd_join(member),
            lambda: self.script.request(
                "SyncGroup",
                choice([*GROUPS, ""]),
                {"memberId": member.member_id or "x", "generationId": member.generation},
            ),
        ]

    def _leave(self, member: ClassicMember) -> None:
        member.leave()
        member.member_id = ""
        member.start_again()

    def _join_with(self, member: ClassicMember, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(member, name, value)
        member.send_join()

    def _ghost_heartbeat(self, member: ClassicMember) -> None:
        body = {
            "memberId": self.random.choice(["ghost", ""]),
            "generationId": member.generation,
            "groupInstanceId": self.random.choice([None, "i1"]),
        }
        self.script.request("Heartbeat", member.group, body)

    def _odd_leave(self, member: ClassicMember) -> None:
        identities: list[Body] = [
            {"memberId": "ghost"},
            {"groupInstanceId": "i1"},
            {"memberId": member.member_id},
            {"memberId": member.member_id, "groupInstanceId": "i2"},
        ]
        members = [self.random.choice(identities) for _ in range(self.random.randint(0, 3))]
        self.script.request("LeaveGroup", member.group, {"members": members})

    def _odd_join(self, member: ClassicMember) -> None:
        choice = self.random.choice
        malformed = base64.b64encode(bytes(3)).decode()
        body = {
            "memberId": "",
            "sessionTimeoutMs": choice([1, 6000]),
            "rebalanceTimeoutMs": 5000,
            "protocolType": choice(["", "consumer", "connect"]),
            "protocols": choice([[], [{"name": "range", "metadata": malformed}], [{"name": "odd", "metadata": ""}]]),
        }
        self.script.request("JoinGroup", member.group, body, version=choice([None, 3]))

    # -- all else ----------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        times = [0, 1, 100, 500, 1000, 1000, 3000, 3000, 5000, 6000, 10_000, 20_000]
        long_times = [45_000, 60_000, 600_000] if self._chance(0.2) else []
        self.script.send({"advance_ms": self.random.choice([*times, *long_times])})

    def _look(self) -> None:
        look = self.random.randrange(3)
        if look == 0:
            self.script.request("ConsumerGroupDescribe", body={"groupIds": GROUPS})
            self.script.request("DescribeGroups", body={"groups": GROUPS})
        elif look == 1:
            self.script.request("ListGroups", body={"statesFilter": [], "typesFilter": []})
        else:
            self.script.send({"timers": True})

    def _delete(self) -> None:
        names = self.random.sample([*GROUPS, "none"], self.random.randint(1, 2))
        self.script.request("DeleteGroups", body={"groupsNames": names})

    def _set_group_config(self) -> None:
        configs: list[Body] = [{"consumer.session.timeout.ms": 50_000}, {"consumer.heartbeat.interval.ms": 6000}, {}]
        self.script.send({"groupConfig": self.random.choice(configs), "group": self.random.choice(GROUPS)})

    def _hold_jobs(self) -> None:
        self.script.send({"async": "hold"})
        for _ in range(self.random.randint(1, 4)):
            modern = [member for member in self.members if isinstance(member, ModernMember)]
            if modern:
                self._behave_modern(self.random.choice(modern))
        self.script.send({"async": "run"})

    def _create_topic(self, name: str) -> None:
        self._topic_count += 1
        number = self._topic_count.to_bytes(16, "big")
        partitions = self.random.randint(1, 8)
        topic: Body = {"name": name, "id": base64.urlsafe_b64encode(number).decode().rstrip("=")}
        self._topics[name] = {**topic, "partitions": partitions}
        if self._has_racks:
            self._topics[name]["racks"] = [self._racks() for _ in range(partitions)]

    def _racks(self) -> list[str]:
        return self.random.sample("abc", 2)

    def _send_topics(self) -> None:
        self.script.send({"topics": list(self._topics.values())})

    def _change_topics(self) -> None:
        """Create a topic, also in place of one of that name, let one grow, move it to other racks, or delete it."""
        change = self.random.choices(["create", "grow", "move", "delete"], [35, 35, 10, 20])[0]
        if change == "create" or not self._topics:
            self._create_topic(self.random.choice(NAMES))
            self._send_topics()
            return
        topic = self._topics[self.random.choice(list(self._topics))]
        if change == "grow":
            more = self.random.randint(1, 3)
            topic["partitions"] += more
            if "racks" in topic:
                topic["racks"] = [*topic["racks"], *(self._racks() for _ in range(more))]
        elif change == "move" and "racks" in topic:
            topic["racks"] = [self._racks() for _ in range(topic["partitions"])]
        else:
            del self._topics[topic["name"]]
        self._send_topics()

    def _offsets(self) -> None:
        member = self.random.choice(self.members)
        steps: list[tuple[Callable[[], object], int]] = [
            (lambda: self._commit(member), 60),
            (self._odd_commit, 10),
            (lambda: self._fetch(member), 10),
            (lambda: self._fetch(None), 10),
            (self._delete_offset, 5),
            (self._commit_in_transaction, 3),
            (self._end_transaction, 2),
        ]
        step = self.random.choices([one for one, _ in steps], [weight for _, weight in steps])[0]
        step()

    def _commit(self, member: Member) -> None:
        body: Body = {
            "memberId": member.member_id,
            "generationIdOrMemberEpoch": _epoch(member) + self.random.choice([0, 0, 0, 0, -1, -2, 1]),
            "topics": [self._committed(self.random.choice(NAMES), self.random.randint(0, 4))],
        }
        if member.instance_id is not None and self._chance(0.5):
            body["groupInstanceId"] = member.instance_id
        self.script.request("OffsetCommit", member.group, body, version=8 if self._chance(0.05) else None)

    def _odd_commit(self) -> None:
        choice = self.random.choice
        body = {
            "memberId": choice(["", "ghost"]),
            "generationIdOrMemberEpoch": choice([-1, -1, 0, 2]),
            "topics": [self._committed("foo", 0)],
        }
        self.script.request("OffsetCommit", choice(GROUPS), body)

    def _committed(self, topic: str, number: int) -> Body:
        offset = {"partitionIndex": number, "committedOffset": self.random.randint(0, 99), "committedMetadata": ""}
        return {"name": topic, "partitions": [offset]}

    def _fetch(self, member: Member | None) -> None:
        group: Body = {"groupId": self.random.choice(GROUPS), "memberId": None, "memberEpoch": -1, "topics": None}
        if member is not None:
            group |= {"groupId": member.group, "memberId": member.member_id, "memberEpoch": _epoch(member)}
        is_stable = member is not None and self._chance(0.5)
        self.script.request("OffsetFetch", body={"groups": [group], "requireStable": is_stable})

    def _delete_offset(self) -> None:
        partitions = [{"partitionIndex": self.random.randint(0, 3)}]
        topics = [{"name": self.random.choice(NAMES), "partitions": partitions}]
        self.script.request("OffsetDelete", self.random.choice(GROUPS), {"topics": topics})

    def _commit_in_transaction(self) -> None:
        body = {
            "transactionalId": "t",
            "producerId": self.random.randint(1, 2),
            "producerEpoch": 0,
            "memberId": "",
            "generationId": -1,
            "topics": [self._committed("foo", 0)],
        }
        self.script.request("TxnOffsetCommit", self.random.choice(GROUPS), body)

    def _end_transaction(self) -> None:
        end = {"producerId": self.random.randint(1, 2), "producerEpoch": 0, "commit": self._chance(0.5)}
        self.script.send({"endTxn": end})


def _epoch(member: Member) -> int:
    return member.epoch if isinstance(member, ModernMember) else member.generation
