package org.apache.kafka.coordinator.group;

import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorEvent;
import org.apache.kafka.coordinator.common.runtime.CoordinatorEventProcessor;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/** One thread in place of many, and a clock that moves only when a command lets time pass. */
final class OracleTime {
    static final Clock CLOCK = new Clock();
    static final Timers TIMERS = new Timers();
    static final Background BACKGROUND = new Background();

    private OracleTime() { }

    /** Runs what is due now: background jobs first, then timers. */
    static void settle() {
        while (true) {
            if (!BACKGROUND.isOnHold && !BACKGROUND.jobs.isEmpty()) {
                BACKGROUND.jobs.removeFirst().run();
                continue;
            }
            Due due = TIMERS.next(CLOCK.ms);
            if (due == null) return;
            due.entry.timerTask.run();
        }
    }

    /** Lets time pass; timers fire one by one at their own times, those of one time in the order they were set. */
    static void advance(long ms) {
        long until = CLOCK.ms + ms;
        settle();
        for (Due due; (due = TIMERS.next(until)) != null; ) {
            CLOCK.ms = Math.max(CLOCK.ms, due.at);
            due.entry.timerTask.run();
            settle();
        }
        CLOCK.ms = until;
    }

    static final class Clock implements Time {
        private static final long START = 1_000_000_000_000L;
        private long ms = START;

        long sinceStart() {
            return ms - START;
        }

        @Override public long milliseconds() {
            return ms;
        }

        @Override public long nanoseconds() {
            return ms * 1_000_000L;
        }

        @Override public long hiResClockMs() {
            return ms;
        }

        @Override public void sleep(long duration) {
            throw new IllegalStateException("nothing sleeps in one thread");
        }

        @Override public void waitObject(Object lock, Supplier<Boolean> condition, long deadline) {
            throw new IllegalStateException("nothing waits in one thread");
        }
    }

    record Due(long at, long sequence, TimerTaskEntry entry) { }

    static final class Timers implements Timer {
        private final PriorityQueue<Due> queue =
            new PriorityQueue<>(Comparator.comparingLong(Due::at).thenComparingLong(Due::sequence));
        private long sequence = 0;

        /** Every timer that runs. */
        List<Due> running() {
            queue.removeIf(due -> due.entry.cancelled());
            return List.copyOf(queue);
        }

        Due next(long until) {
            while (!queue.isEmpty() && queue.peek().entry.cancelled()) queue.poll();
            return queue.isEmpty() || queue.peek().at > until ? null : queue.poll();
        }

        @Override public void add(TimerTask task) {
            long at = CLOCK.ms + Math.max(0, task.delayMs);
            queue.add(new Due(at, sequence++, new TimerTaskEntry(task, at)));
        }

        @Override public boolean advanceClock(long timeoutMs) {
            throw new UnsupportedOperationException();
        }

        @Override public int size() {
            return queue.size();
        }

        @Override public void close() { }
    }

    /** Background threads: jobs run right after the command that started them, unless they are on hold. */
    static final class Background extends AbstractExecutorService {
        private final Deque<Runnable> jobs = new ArrayDeque<>();
        boolean isOnHold = false;

        @Override public void execute(Runnable job) {
            jobs.addLast(job);
        }

        @Override public void shutdown() { }

        @Override public List<Runnable> shutdownNow() {
            return List.of();
        }

        @Override public boolean isShutdown() {
            return false;
        }

        @Override public boolean isTerminated() {
            return false;
        }

        @Override public boolean awaitTermination(long timeout, TimeUnit unit) {
            return true;
        }
    }

    /** The coordinator's own threads: events run one after the other, at once. */
    static final class Processor implements CoordinatorEventProcessor {
        private final Deque<CoordinatorEvent> events = new ArrayDeque<>();
        private boolean isRunning = false;

        @Override public void enqueueLast(CoordinatorEvent event) {
            events.addLast(event);
            run();
        }

        @Override public void enqueueFirst(CoordinatorEvent event) {
            events.addFirst(event);
            run();
        }

        @Override public void close() { }

        private void run() {
            if (isRunning) return;
            isRunning = true;
            while (!events.isEmpty()) {
                CoordinatorEvent event = events.removeFirst();
                try {
                    event.run();
                } catch (Throwable problem) {
                    event.complete(problem);
                }
            }
            isRunning = false;
        }
    }
}
