package coordinatorreplay;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;

/** What a consumer reads in the blobs of a classic group: the version as it stands there, then the fields. */
final class ProtocolBlobs {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ProtocolBlobs() {}

    static ObjectNode subscription(ByteBuffer blob) {
        short version = ConsumerProtocol.deserializeVersion(blob);
        short readAs = (short) Math.min(version, ConsumerProtocolSubscription.HIGHEST_SUPPORTED_VERSION);
        return versioned(
            version,
            ConsumerProtocolSubscriptionJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolSubscription(blob, version), readAs));
    }

    static ObjectNode assignment(ByteBuffer blob) {
        short version = ConsumerProtocol.deserializeVersion(blob);
        short readAs = (short) Math.min(version, ConsumerProtocolAssignment.HIGHEST_SUPPORTED_VERSION);
        return versioned(
            version,
            ConsumerProtocolAssignmentJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolAssignment(blob, version), readAs));
    }

    private static ObjectNode versioned(short version, JsonNode fields) {
        return JSON.createObjectNode().put("version", version).setAll((ObjectNode) fields);
    }
}
