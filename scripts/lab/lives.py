"""The scripted lives. Each is a small function, and one or two rows of the table at the end."""

from collections.abc import Callable
from dataclasses import dataclass

from lab.life import Life

SESSION_SECONDS = 5.0
"""Session timeout of the broker and of the classic members."""


def join_and_leave(life: Life) -> None:
    """Two members come one after the other and go again."""
    topic = life.topic("orders", 4)
    life.start("first", topic)
    life.settle()
    life.start("second", topic)
    life.settle()
    life.close("first")
    life.settle()
    life.close()
    life.settle_empty()


def crash(life: Life) -> None:
    """One of two members dies, and is removed when its session is over."""
    topic = life.topic("orders", 4)
    life.start("stays", topic)
    life.start("dies", topic)
    life.settle()
    life.crash("dies")
    life.settle()


def poll_timeout(life: Life) -> None:
    """A member hangs for longer than max.poll.interval.ms, and comes back."""
    topic = life.topic("orders", 4)
    life.start("works", topic)
    life.start("hangs", topic, max_poll_interval_ms=6_000)
    life.settle()
    life.stall("hangs", 8)
    life.settle()


def rolling_restart(life: Life) -> None:
    """Each of two dynamic members is closed and started again."""
    topic = life.topic("orders", 4)
    life.start("one", topic)
    life.start("two", topic)
    life.settle()
    for name in ("one", "two"):
        life.restart(name)
        life.settle()


def killed_and_back(life: Life) -> None:
    """A member is killed and started again at once, three times; another one is closed and started again."""
    topic = life.topic("orders", 6)
    for name in ("stays", "killed", "closed"):
        life.start(name, topic)
    life.settle()
    for _ in range(3):
        life.crash("killed")
        life.start("killed", topic, action="restart")
        life.settle()
        life.restart("closed")
        life.settle()


def cooperative(life: Life) -> None:
    """Members give up only partitions that move, so each change takes two generations."""
    topic = life.topic("orders", 4)
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    life.start("first", topic, **strategy)
    life.settle()
    life.start("second", topic, **strategy)
    life.settle()
    life.close("first")
    life.settle()


def static_restart(life: Life) -> None:
    """A static member is back before its session is over, so the group does not rebalance."""
    topic = life.topic("orders", 4)
    for number in range(2):
        life.start(f"app-{number}", topic, instance=f"instance-{number}")
    life.settle()
    life.restart("app-1", instance="instance-1")
    life.settle()


def static_expiry(life: Life) -> None:
    """A static member dies, is removed after its session, and comes back with its instance id."""
    topic = life.topic("orders", 4)
    for number in range(2):
        life.start(f"app-{number}", topic, instance=f"instance-{number}")
    life.settle()
    life.crash("app-1")
    life.settle()
    life.start("app-1", topic, action="restart_after_expiry", instance="instance-1")
    life.settle()


def static_replacement(life: Life) -> None:
    """A second process takes an instance id that is in use; the first is fenced."""
    topic = life.topic("orders", 4)
    for number in range(2):
        life.start(f"app-{number}", topic, instance=f"instance-{number}")
    life.settle()
    replaced = life.members.pop("app-1")
    life.start("rival", topic, action="replace", instance="instance-1")
    life.settle()
    replaced.crash()


def subscription_change(life: Life) -> None:
    """One of two members takes up another topic, and drops it again."""
    orders, clicks = life.topic("orders", 4), life.topic("clicks", 2)
    life.start("plain", orders)
    # The first member leads a classic group, and the coordinator has another log line for a leader.
    life.settle()
    life.start("changes", orders)
    life.settle()
    life.subscribe("changes", orders, clicks)
    life.settle()
    life.subscribe("changes", orders)
    life.settle()


def partitions_added(life: Life) -> None:
    """The topic gets more partitions."""
    topic = life.topic("orders", 2)
    life.start("one", topic)
    life.start("two", topic)
    life.settle()
    life.add_partitions(topic, 5)
    life.settle()


def pattern(life: Life) -> None:
    """A topic is created that the members' pattern matches."""
    life.topic("feed-1", 2)
    matching = "^" + life.group.replace(".", "[.]") + "[.]feed-.*"
    life.start("one", matching)
    life.start("two", matching)
    life.settle()
    life.topic("feed-2", 2)
    life.settle()


def topic_deleted(life: Life) -> None:
    """One of two topics is deleted, with the offsets that were committed for it."""
    kept, gone = life.topic("kept", 2), life.topic("gone", 2)
    life.start("one", kept, gone)
    life.settle()
    life.delete_topic(gone)
    life.settle()


def assignor_change_of_clients(life: Life) -> None:
    """Clients with two assignors are restarted with only the second assignor, one by one."""
    topic = life.topic("orders", 4)
    for name in ("one", "two"):
        life.start(name, topic, partition_assignment_strategy="range,roundrobin")
    life.settle()
    for name in ("one", "two"):
        life.restart(name, action="upgrade_assignor", partition_assignment_strategy="roundrobin")
        life.settle()


def assignor_change_of_broker(life: Life) -> None:
    """Members are restarted with the coordinator's other assignor, one by one."""
    topic = life.topic("orders", 4)
    for name in ("one", "two"):
        life.start(name, topic, group_remote_assignor="uniform")
    life.settle()
    for name in ("one", "two"):
        life.restart(name, action="upgrade_assignor", group_remote_assignor="range")
        life.settle()


def upgrade(life: Life) -> None:
    """Classic members are restarted with the new protocol, one by one."""
    topic = life.topic("orders", 4)
    for name in ("one", "two"):
        life.start(name, topic, protocol="classic")
    life.settle()
    for name in ("one", "two"):
        life.restart(name, action="upgrade_protocol", protocol="consumer")
        life.settle()


def downgrade(life: Life) -> None:
    """Members of the new protocol are restarted with the classic one, one by one."""
    topic = life.topic("orders", 4)
    for name in ("one", "two"):
        life.start(name, topic, protocol="consumer")
    life.settle()
    for name in ("one", "two"):
        life.restart(name, action="downgrade_protocol", protocol="classic")
        life.settle()


def offset_reset(life: Life) -> None:
    """An administrator sets the offsets back while no member runs. A member then continues from there."""
    topic = life.topic("orders", 3)
    life.start("one", topic)
    life.settle()
    life.close()
    life.settle_empty()
    life.reset_offsets(topic, 3)
    life.start("one", topic, action="restart")
    life.settle()


def group_deleted(life: Life) -> None:
    """An administrator deletes the group with its offsets, and a member creates it again."""
    topic = life.topic("orders", 3)
    life.start("one", topic)
    life.settle()
    life.close()
    life.settle_empty()
    life.delete_group()
    life.pause(1)
    life.start("one", topic)
    life.settle()


def transactions(life: Life) -> None:
    """Offsets are committed in transactions: one commits, one aborts, one stays open."""
    topic = life.topic("orders", 3)
    life.start("one", topic)
    life.settle()
    for offset, outcome in ((100, "commit"), (200, "abort"), (300, "commit"), (400, "open")):
        life.transact("one", offset, outcome)
        life.pause(0.5)


@dataclass(frozen=True, slots=True)
class Script:
    """A row of the table.

    Attributes:
        act: the function that runs the script.
        protocol: protocol of the members.
        leaves: text of a line in the broker's log that proves the script's event; None if no line proves it.
    """

    act: Callable[[Life], None]
    protocol: str
    leaves: str | None = None


_LEAVE = "has left group through explicit `LeaveGroup` request"
_MISSED = "has failed, removing it from the group"
_FENCED = "fenced from the group because the member session expired"
_DELETED = "The following groups were deleted"

LIVES = {
    "classic-join-leave": Script(join_and_leave, "classic", _LEAVE),
    "classic-crash": Script(crash, "classic", _MISSED),
    "classic-poll-timeout": Script(poll_timeout, "classic", _LEAVE),
    "classic-rolling-restart": Script(rolling_restart, "classic", _LEAVE),
    "classic-killed-and-back": Script(killed_and_back, "classic", _MISSED),
    "classic-cooperative": Script(cooperative, "classic", _LEAVE),
    "classic-static-restart": Script(static_restart, "classic"),
    "classic-static-expiry": Script(static_expiry, "classic", _MISSED),
    "classic-static-replacement": Script(static_replacement, "classic"),
    "classic-subscription": Script(subscription_change, "classic", "Updating metadata for member"),
    "classic-partitions": Script(partitions_added, "classic"),
    "classic-pattern": Script(pattern, "classic"),
    "classic-topic-deleted": Script(topic_deleted, "classic"),
    "classic-assignor": Script(assignor_change_of_clients, "classic"),
    "classic-offset-reset": Script(offset_reset, "classic"),
    "classic-group-deleted": Script(group_deleted, "classic", _DELETED),
    "classic-transactions": Script(transactions, "classic"),
    "consumer-join-leave": Script(join_and_leave, "consumer", "left the consumer group"),
    "consumer-crash": Script(crash, "consumer", _FENCED),
    "consumer-poll-timeout": Script(poll_timeout, "consumer", "left the consumer group"),
    "consumer-rolling-restart": Script(rolling_restart, "consumer", "left the consumer group"),
    "consumer-killed-and-back": Script(killed_and_back, "consumer", _FENCED),
    "consumer-static-restart": Script(static_restart, "consumer", "temporarily left the consumer group"),
    "consumer-static-expiry": Script(static_expiry, "consumer", _FENCED),
    "consumer-subscription": Script(subscription_change, "consumer"),
    "consumer-partitions": Script(partitions_added, "consumer"),
    "consumer-pattern": Script(pattern, "consumer", "to refresh regular expressions"),
    "consumer-topic-deleted": Script(topic_deleted, "consumer"),
    "consumer-assignor": Script(assignor_change_of_broker, "consumer", "with 'range' assignor"),
    "consumer-offset-reset": Script(offset_reset, "consumer"),
    "consumer-group-deleted": Script(group_deleted, "consumer", _DELETED),
    "consumer-transactions": Script(transactions, "consumer"),
    "upgrade": Script(upgrade, "classic", "Converted the classic group to a consumer group"),
    "downgrade": Script(downgrade, "consumer", "Converted the consumer group to a classic group"),
}
"""Every life by its name, which is its group's id. Lives share only the broker, so they can run at the same time."""
