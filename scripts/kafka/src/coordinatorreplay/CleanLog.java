package coordinatorreplay;

import java.io.File;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Lets Kafka's own log cleaner do one round in each of some folders of a log partition, whose segments it replaces.
 *
 * <p>Arguments, again and again: folder, first dirty offset, the broker's clock in milliseconds, delete.retention.ms,
 * keys that the offset map takes. Prints a line for each: the first offset that was not cleaned.
 */
public final class CleanLog {
    private static final int ARGUMENTS = 5;

    private CleanLog() {}

    public static void main(String[] args) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (int at = 0; at < args.length; at += ARGUMENTS) {
            File folder = new File(args[at]);
            long firstDirty = Long.parseLong(args[at + 1]);
            long now = Long.parseLong(args[at + 2]);
            System.out.println(clean(scheduler, folder, firstDirty, now, args[at + 3], Integer.parseInt(args[at + 4])));
        }
        scheduler.shutdown();
    }

    private static long clean(
            KafkaScheduler scheduler, File folder, long firstDirty, long now, String deleteRetention, int keys)
            throws Exception {
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "delete.retention.ms", deleteRetention));
        UnifiedLog log = UnifiedLog.create(
                folder,
                config,
                0,
                0,
                scheduler,
                new BrokerTopicStats(),
                Time.SYSTEM,
                300_000,
                new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
                600_000,
                new LogDirFailureChannel(1),
                false,
                Optional.empty());
        try {
            log.updateHighWatermark(log.logEndOffset());
            long bound = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
            LogToClean work = new LogToClean(log, firstDirty, Math.max(firstDirty, bound), true);
            if (work.firstUncleanableOffset() <= firstDirty) {
                return firstDirty;
            }
            SkimpyOffsetMap offsets = new SkimpyOffsetMap(keys * 24);
            Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner-io", "bytes", Time.SYSTEM);
            Cleaner cleaner = new Cleaner(0, offsets, 1 << 20, 1 << 20, 1.0, throttler, Time.SYSTEM, partition -> {});
            return cleaner.doClean(work, now).getKey();
        } finally {
            log.close();
        }
    }
}
