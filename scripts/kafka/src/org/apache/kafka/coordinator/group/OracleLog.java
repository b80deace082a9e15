package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/** The log partition in memory: every batch is an event, is committed at once, and can be loaded again. */
final class OracleLog implements PartitionWriter, CoordinatorLoader<CoordinatorRecord> {
    static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    private final List<Written> written = new ArrayList<>();
    private final List<Listener> listeners = new ArrayList<>();
    private LogConfig config = new LogConfig(Map.of());
    private long end = 0;

    private record Written(long offset, long producerId, short producerEpoch, CoordinatorRecord record,
                           ControlRecordType marker) { }

    void setMaxMessageBytes(Object bytes) {
        config = new LogConfig(Map.of("max.message.bytes", bytes));
    }

    @Override public long append(
        TopicPartition partition, VerificationGuard guard, MemoryRecords records, short transactionVersion
    ) {
        for (RecordBatch batch : records.batches()) {
            ArrayNode list = OracleEvents.JSON.createArrayNode();
            for (Record record : batch) {
                ObjectNode shown = list.addObject().put("offset", end);
                if (batch.isControlBatch()) addMarker(batch, record, shown);
                else addRecord(batch, record, shown);
                end++;
            }
            ObjectNode event = OracleEvents.add();
            event.set("records", list);
            if (batch.isTransactional() && !batch.isControlBatch()) {
                event.put("producerId", batch.producerId()).put("producerEpoch", batch.producerEpoch());
            }
        }
        for (Listener listener : List.copyOf(listeners)) listener.onHighWatermarkUpdated(partition, end);
        return end;
    }

    private void addMarker(RecordBatch batch, Record record, ObjectNode shown) {
        ControlRecordType marker = ControlRecordType.parse(record.key());
        shown.put("kind", "marker:" + marker);
        written.add(new Written(end, batch.producerId(), batch.producerEpoch(), null, marker));
    }

    private void addRecord(RecordBatch batch, Record record, ObjectNode shown) {
        CoordinatorRecord decoded = SERDE.deserialize(
            record.key().duplicate(), record.value() == null ? null : record.value().duplicate());
        written.add(new Written(end, batch.producerId(), batch.producerEpoch(), decoded, null));
        short type = decoded.key().apiKey();
        shown.put("kind", CoordinatorRecordType.fromId(type).name()).put("keyVersion", type);
        shown.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(decoded.key()));
        if (decoded.value() == null) {
            shown.putNull("value");
            return;
        }
        short version = decoded.value().version();
        shown.put("valueVersion", version);
        shown.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(decoded.value().message(), version));
    }

    @Override public CompletableFuture<LoadSummary> load(
        TopicPartition partition, CoordinatorPlayback<CoordinatorRecord> playback
    ) {
        for (Written one : written) {
            if (one.marker == null) {
                playback.replay(one.offset, one.producerId, one.producerEpoch, one.record);
            } else {
                playback.replayEndTransactionMarker(one.producerId, one.producerEpoch,
                    one.marker == ControlRecordType.COMMIT ? TransactionResult.COMMIT : TransactionResult.ABORT);
            }
        }
        if (end > 0) {
            playback.updateLastWrittenOffset(end);
            playback.updateLastCommittedOffset(end);
        }
        long now = OracleTime.CLOCK.milliseconds();
        return CompletableFuture.completedFuture(new LoadSummary(now, now, 0, written.size(), 0));
    }

    @Override public void registerListener(TopicPartition partition, Listener listener) {
        listeners.add(listener);
    }

    @Override public void deregisterListener(TopicPartition partition, Listener listener) {
        listeners.remove(listener);
    }

    @Override public LogConfig config(TopicPartition partition) {
        return config;
    }

    @Override public CompletableFuture<VerificationGuard> maybeStartTransactionVerification(
        TopicPartition partition, String transactionalId, long producerId, short producerEpoch, int version
    ) {
        return CompletableFuture.completedFuture(new VerificationGuard());
    }

    @Override public CompletableFuture<Void> deleteRecords(TopicPartition partition, long before) {
        return CompletableFuture.completedFuture(null);
    }

    @Override public void close() { }
}
