"""How clients close: what they send last, when it reaches the coordinator, and when they may start again."""

from coordinator_replay.simulation.what_if.clients import ClassicConsumer
from coordinator_replay.simulation.what_if.libraries import JAVA, LIBRDKAFKA
from coordinator_replay.simulation.what_if.schedule import JAVA_MS, LIBRDKAFKA_MS, Agenda, Closing
from coordinator_replay.simulation.what_if.settings import COOPERATIVE


def consumer(library: str = LIBRDKAFKA, strategy: str = COOPERATIVE, generation: int = 3) -> ClassicConsumer:
    return ClassicConsumer(
        name="c#1",
        client_id="c",
        host="127.0.0.1",
        topics=("t",),
        instance_id=None,
        session_ms=6_000,
        rebalance_ms=60_000,
        library=library,
        strategy=strategy,
        member_id="c-1",
        generation=generation,
    )


def test_a_cooperative_consumer_of_librdkafka_without_partitions_closes_without_leaving() -> None:
    assert not consumer().leaves
    assert consumer(library=JAVA).leaves
    assert consumer(strategy="range").leaves
    assert consumer(generation=-1).leaves
    one = consumer()
    one.owned = [("t", 0)]
    assert one.leaves


def test_a_client_that_is_owed_an_answer_starts_again_when_it_has_closed() -> None:
    agenda, steps = Agenda(1_000), list[str]()
    closing, one = Closing(agenda.at), consumer()
    assert not closing.wait("c#1", lambda: steps.append("too early"))
    closing.begin(one, 1_000)
    assert closing.wait("c#1", lambda: steps.append("started"))
    assert not closing.wait("c#2", lambda: steps.append("another client"))
    assert not steps
    assert closing.answered(one)
    assert steps == ["started"]
    assert not closing.answered(one)
    agenda.take_put_off()()
    assert steps == ["started"]


def test_closing_waits_no_longer_than_its_library_does_and_leaves_all_the_same() -> None:
    for library, longest_ms in ((LIBRDKAFKA, LIBRDKAFKA_MS), (JAVA, JAVA_MS)):
        agenda, steps = Agenda(1_000), list[str]()
        closing, one = Closing(agenda.at), consumer(library=library)
        closing.begin(one, 1_000)
        closing.wait("c#1", lambda steps=steps: steps.append("started"))  # type: ignore[misc]
        assert agenda.next_put_off_ms == 1_000 + longest_ms
        agenda.take_put_off()()
        assert steps == ["started"]
        assert closing.answered(one)


def test_a_late_answer_to_one_closing_does_not_end_the_next_one_of_the_same_client() -> None:
    agenda, steps = Agenda(1_000), list[str]()
    closing, first, second = Closing(agenda.at), consumer(), consumer()
    closing.begin(first, 1_000)
    agenda.take_put_off()()
    closing.begin(second, 1_000 + LIBRDKAFKA_MS)
    closing.wait("c#1", lambda: steps.append("started"))
    assert closing.answered(first)
    assert not steps
    assert closing.answered(second)
    assert steps == ["started"]


def test_the_longest_time_of_one_closing_does_not_end_the_next_one_of_the_same_client() -> None:
    agenda, steps = Agenda(1_000), list[str]()
    closing, first, second = Closing(agenda.at), consumer(), consumer()
    closing.begin(first, 1_000)
    assert closing.answered(first)
    closing.begin(second, 3_000)
    closing.wait("c#1", lambda: steps.append("started"))
    assert agenda.next_put_off_ms == 1_000 + LIBRDKAFKA_MS
    agenda.take_put_off()()
    assert not steps
    agenda.take_put_off()()
    assert steps == ["started"]
