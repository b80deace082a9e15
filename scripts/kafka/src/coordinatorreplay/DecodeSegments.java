package coordinatorreplay;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.io.File;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * Prints every record of some segments of {@code __consumer_offsets}, one JSON line each: what its batch says of it, and
 * what {@link Judge} makes of key and value. The partition is that in the name of the segment's folder.
 */
public final class DecodeSegments {
    private static final ObjectMapper JSON = new ObjectMapper();

    private DecodeSegments() {}

    public static void main(String[] args) throws IOException {
        try (BufferedWriter lines = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String name : args) {
                File segment = new File(name);
                String folder = segment.getAbsoluteFile().getParentFile().getName();
                int partition = Integer.parseInt(folder.substring(folder.lastIndexOf('-') + 1));
                try (FileRecords records = FileRecords.open(segment, false)) {
                    for (RecordBatch batch : records.batches()) {
                        for (Record record : batch) {
                            lines.write(JSON.writeValueAsString(told(partition, batch, record)));
                            lines.newLine();
                        }
                    }
                }
            }
        }
    }

    private static ObjectNode told(int partition, RecordBatch batch, Record record) {
        ObjectNode told = JSON.createObjectNode();
        told.put("partition", partition);
        told.put("offset", record.offset());
        told.put("timestamp", record.timestamp());
        told.put("magic", batch.magic());
        told.put("compression", batch.compressionType().name);
        told.put("leaderEpoch", batch.partitionLeaderEpoch());
        told.put("producerId", batch.producerId());
        told.put("producerEpoch", batch.producerEpoch());
        told.put("transactional", batch.isTransactional());
        ByteBuffer key = record.key();
        if (batch.isControlBatch()) {
            return told.put("control", ControlRecordType.parse(key).name());
        }
        return told.setAll(Judge.decode(key, record.value()));
    }
}
