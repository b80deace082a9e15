package coordinatorreplay;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.Deserializer;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;

/**
 * How long Kafka takes to decode the segments under a folder on one thread: {@code TimeDecode FOLDER REPETITIONS
 * [WARM_UPS]}. It goes about it as the coordinator does when it loads a partition (CoordinatorLoaderImpl): pieces of
 * the log through one buffer of {@code offsets.load.buffer.size}, batch by batch, record by record. Two things differ:
 * the loader leaves checksums to whoever wrote the log, here each batch is checked; and what is decoded is dropped.
 */
public final class TimeDecode {
    private static final int LOAD_BUFFER_BYTES = 5 * 1024 * 1024;
    private static final int WARM_UPS = 6;

    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private ByteBuffer buffer = ByteBuffer.allocate(LOAD_BUFFER_BYTES);
    private long records;
    private long bytes;
    // Every record must end up somewhere, or the compiler may leave out its decoding.
    private CoordinatorRecord kept;

    private TimeDecode() {}

    public static void main(String[] args) throws IOException {
        List<Path> segments = segments(Path.of(args[0]));
        int repetitions = Integer.parseInt(args[1]);
        int warmUps = args.length > 2 ? Integer.parseInt(args[2]) : WARM_UPS;
        ObjectMapper json = new ObjectMapper();
        ObjectNode answer = json.createObjectNode();
        ArrayNode seconds = json.createArrayNode();
        TimeDecode run = new TimeDecode();
        for (int repetition = -warmUps; repetition < repetitions; repetition++) {
            long before = System.nanoTime();
            run.decodeAll(segments);
            double took = (System.nanoTime() - before) / 1e9;
            // Until the compiler has seen the loop a few times its speed is not Kafka's.
            if (repetition >= 0) {
                seconds.add(took);
            }
        }
        answer.put("records", run.records).put("bytes", run.bytes);
        answer.set("seconds", seconds);
        System.out.println(json.writeValueAsString(answer));
    }

    private static List<Path> segments(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(file -> file.toString().endsWith(".log")).sorted().toList();
        }
    }

    private void decodeAll(List<Path> segments) throws IOException {
        records = 0;
        bytes = 0;
        for (Path segment : segments) {
            try (FileRecords log = FileRecords.open(segment.toFile(), false)) {
                decode(log);
            }
        }
    }

    private void decode(FileRecords log) throws IOException {
        int position = 0;
        while (position < log.sizeInBytes()) {
            MemoryRecords piece = read(log, position);
            int decoded = decode(piece);
            if (decoded == 0 && piece.sizeInBytes() < log.sizeInBytes() - position) {
                // One batch is larger than the buffer; the loader makes room in the same way.
                buffer = ByteBuffer.allocate(buffer.capacity() * 2);
            } else if (decoded == 0) {
                return; // The tail is torn.
            }
            position += decoded;
        }
    }

    private MemoryRecords read(FileRecords log, int position) throws IOException {
        buffer.clear();
        log.slice(position, buffer.capacity()).readInto(buffer, 0);
        return MemoryRecords.readableRecords(buffer);
    }

    private int decode(MemoryRecords piece) {
        int decoded = 0;
        for (MutableRecordBatch batch : piece.batches()) {
            batch.ensureValid();
            decoded += batch.sizeInBytes();
            if (batch.isControlBatch()) {
                continue;
            }
            for (Record record : batch) {
                records++;
                try {
                    kept = serde.deserialize(record.key(), record.value());
                } catch (Deserializer.UnknownRecordTypeException leftOver) {
                    // The loader takes it for a remnant of an aborted upgrade and goes on.
                    continue;
                }
            }
        }
        bytes += decoded;
        return decoded;
    }
}
