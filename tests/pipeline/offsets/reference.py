"""What happens to committed offsets at random, and a reference that takes one record after the other."""

from dataclasses import dataclass

TOPICS = ["a", "b"]
PRODUCERS = [7, 8, 9]

STEPS = ["plain", "plain", "transactional", "transactional", "COMMIT", "COMMIT", "ABORT", "tombstone"]


def random_steps(random):
    """A history of up to 30 steps: what is done, to which topic, by which producer."""
    for _ in range(random.randrange(31)):
        step = random.choice(STEPS)
        producer = random.choice(PRODUCERS)
        if step in ("COMMIT", "ABORT"):
            yield step, None, producer
        else:
            is_plain = step == "plain" or (step == "tombstone" and random.random() < 0.5)
            yield step, random.choice(TOPICS), None if is_plain else producer


@dataclass
class Stored:
    record: int
    since: int


class Reference:
    """A coordinator's memory of one log partition."""

    def __init__(self, log_partition):
        self.log_partition = log_partition
        self.stored, self.pending = {}, {}
        self.history, self.waited = [], []

    def end(self, topic, offset, ended_by):
        held = self.stored.pop(topic, None)
        if held is not None:
            self.history.append((self.log_partition, topic, 1000 + held.record, held.since, offset, ended_by))

    def store(self, topic, record, offset):
        self.end(topic, offset, "COMMIT")
        self.stored[topic] = Stored(record, offset)

    def settle(self, key, offset, ended_by):
        record, since = self.pending.pop(key)
        self.waited.append((self.log_partition, key[1], key[0], record, since, offset, ended_by))

    def apply(self, offset, step, topic, producer):
        if step == "plain":
            self.store(topic, offset, offset)
        elif step == "transactional":
            key, since = (producer, topic), offset
            if key in self.pending:
                since = self.pending[key][1]
                self.settle(key, offset, "REPLACED")
            self.pending[key] = (offset, since)
        elif step == "tombstone":
            self.end(topic, offset, "TOMBSTONE")
            for key in [key for key in self.pending if key[1] == topic]:
                self.settle(key, offset, "TOMBSTONE")
        else:
            self.apply_marker(offset, step, producer)

    def apply_marker(self, offset, step, producer):
        for key in [key for key in self.pending if key[0] == producer]:
            record, topic = self.pending[key][0], key[1]
            outcome = step
            if step == "COMMIT":
                held = self.stored.get(topic)
                if held is None or record > held.record:
                    self.store(topic, record, offset)
                else:
                    outcome = "SUPERSEDED"
            self.settle(key, offset, outcome)

    def replay(self, steps):
        for offset, (step, topic, producer) in enumerate(steps):
            self.apply(offset, step, topic, producer)
        for topic in list(self.stored):
            self.end(topic, None, None)
        for key in list(self.pending):
            self.settle(key, None, None)
        return self
