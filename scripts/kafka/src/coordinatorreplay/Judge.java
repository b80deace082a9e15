package coordinatorreplay;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;

/**
 * Says what Kafka's own classes make of coordinator records: one question per line of standard input, one answer per
 * line of standard output, both JSON. A question that Kafka can't answer is answered by the class and message of what
 * it threw. README.md lists the questions.
 */
public final class Judge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    private Judge() {}

    public static void main(String[] args) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter answers = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.write(JSON.writeValueAsString(answer(line)));
            answers.newLine();
            // Who asks many questions at once need not wait for each of them.
            if (!questions.ready()) {
                answers.flush();
            }
        }
        answers.flush();
    }

    private static ObjectNode answer(String line) {
        try {
            JsonNode question = JSON.readTree(line);
            if (question.has("kinds")) {
                return kinds();
            }
            if (question.has("random")) {
                return random(question);
            }
            if (question.has("encode")) {
                return encode(question.get("encode"));
            }
            if (question.has("subscription")) {
                return ProtocolBlobs.subscription(buffer(question.get("subscription")));
            }
            if (question.has("assignment")) {
                return ProtocolBlobs.assignment(buffer(question.get("assignment")));
            }
            return decode(buffer(question.get("key")), buffer(question.get("value")));
        } catch (Exception problem) {
            return JSON.createObjectNode()
                .put("error", problem.getClass().getSimpleName())
                .put("message", problem.getMessage());
        }
    }

    private static ByteBuffer buffer(JsonNode base64) throws IOException {
        return base64 == null || base64.isNull() ? null : ByteBuffer.wrap(base64.binaryValue());
    }

    static ObjectNode decode(ByteBuffer key, ByteBuffer value) {
        CoordinatorRecord record = SERDE.deserialize(key, value);
        ObjectNode answer = JSON.createObjectNode();
        answer.put("keyVersion", record.key().apiKey());
        if (record.value() == null) {
            answer.put("tombstone", true);
        } else {
            answer.put("valueVersion", record.value().version());
        }
        answer.put("kind", kindOf(record.key()));
        answer.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        if (record.value() != null) {
            short version = record.value().version();
            answer.set(
                "value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(record.value().message(), version));
        }
        return answer;
    }

    private static String kindOf(ApiMessage key) {
        String name = key.getClass().getSimpleName();
        return name.substring(0, name.length() - "Key".length());
    }

    private static ObjectNode encode(JsonNode record) {
        short kind = record.get("keyVersion").shortValue();
        ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(record.get("key"), kind);
        if (!record.hasNonNull("value")) {
            return bytes(key, null, (short) 0);
        }
        short version = record.get("valueVersion").shortValue();
        return bytes(
            key, CoordinatorRecordJsonConverters.readRecordValueFromJson(record.get("value"), kind, version), version);
    }

    private static ObjectNode random(JsonNode question) throws ReflectiveOperationException {
        CoordinatorRecordType kind = CoordinatorRecordType.fromId(question.get("kind").shortValue());
        short version = question.get("version").shortValue();
        RandomMessage random = new RandomMessage(question.get("random").longValue());
        // Keys have one layout; the versions that the kind declares for them are those of its values.
        ApiMessage key = random.fill(kind.newRecordKey(), (short) 0);
        return bytes(key, random.fill(kind.newRecordValue(), version), version);
    }

    private static ObjectNode bytes(ApiMessage key, ApiMessage value, short version) {
        ObjectNode answer = JSON.createObjectNode().put("key", MessageUtil.toCoordinatorTypePrefixedBytes(key));
        return value == null
            ? answer.putNull("value")
            : answer.put("value", MessageUtil.toVersionPrefixedBytes(version, value));
    }

    private static ObjectNode kinds() {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode kinds = answer.putArray("kinds");
        for (CoordinatorRecordType type : CoordinatorRecordType.values()) {
            ApiMessage value = type.newRecordValue();
            kinds.addObject()
                .put("kind", kindOf(type.newRecordKey()))
                .put("keyVersion", type.id())
                .put("lowestVersion", value.lowestSupportedVersion())
                .put("highestVersion", value.highestSupportedVersion());
        }
        return answer;
    }
}
