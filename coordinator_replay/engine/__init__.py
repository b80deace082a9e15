"""Records of one group in, events out: the state machines of the group coordinator, and nothing else.

Two rules hold in this room. Whatever changes the state of a group happens here, and nothing here knows where records
come from or who asks: no files, no clock, no randomness, no logging, the standard library only.
"""

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupState, GroupType, Marker, Member, MemberState, Record
from coordinator_replay.engine.offsets import Offsets
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.engine.share_group import ShareGroup
from coordinator_replay.engine.streams_group import StreamsGroup

__all__ = [
    "ClassicGroup",
    "ConsumerGroup",
    "Event",
    "EventKind",
    "GroupState",
    "GroupType",
    "Marker",
    "Member",
    "MemberState",
    "Offsets",
    "Record",
    "ShareGroup",
    "StateReplay",
    "StreamsGroup",
]
