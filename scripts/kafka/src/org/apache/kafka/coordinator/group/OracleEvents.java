package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.protocol.Errors;

/** What happened since the last command, and the short names of member ids that the coordinator made. */
final class OracleEvents {
    static final ObjectMapper JSON = new ObjectMapper();

    private static final Pattern CLASSIC_ID =
        Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*-00000000-0000-4000-8000-[0-9a-f]{12})\"");
    private static final Pattern UUID = Pattern.compile("\"(AAAAAAAAQACAA[A-Za-z0-9_-]{9})\"");

    private static final Map<String, String> NAMES = new LinkedHashMap<>();
    private static ArrayNode events = JSON.createArrayNode();

    private OracleEvents() { }

    /** A new event at the time of now. */
    static ObjectNode add() {
        return events.addObject().put("at", OracleTime.CLOCK.sinceStart());
    }

    /** All events since they were last taken. */
    static ArrayNode take() {
        ArrayNode taken = events;
        events = JSON.createArrayNode();
        return taken;
    }

    static void thrown(int index, String api, Throwable problem) {
        Throwable cause = Errors.maybeUnwrapException(problem);
        add().put("to", index).put("api", api).put("thrown", cause.getClass().getSimpleName())
            .put("error", Errors.forException(cause).name()).put("message", cause.getMessage());
    }

    static void answered(int index, String api, JsonNode response) {
        ObjectNode event = add().put("to", index).put("api", api);
        event.set("response", response);
        JsonNode code = response.get("errorCode");
        if (code != null && code.asInt() != 0) event.put("error", Errors.forCode((short) code.asInt()).name());
    }

    /** Makes an event of an answer as soon as it is there, which may be many commands later. */
    static <T> void when(int index, String api, CompletableFuture<T> answer, Function<T, JsonNode> asJson) {
        answer.whenComplete((response, problem) -> {
            try {
                if (problem != null) thrown(index, api, problem);
                else answered(index, api, asJson.apply(response));
            } catch (RuntimeException unwritable) {
                thrown(index, api, unwritable);
            }
        });
    }

    /** Writes $m1, $m2, ... for ids that the coordinator made, in order of appearance. */
    static String withNames(String line) {
        Map<Integer, String> found = new TreeMap<>();
        for (Pattern pattern : List.of(CLASSIC_ID, UUID)) {
            Matcher matcher = pattern.matcher(line);
            while (matcher.find()) found.put(matcher.start(), matcher.group(1));
        }
        for (String id : found.values()) NAMES.putIfAbsent(id, "$m" + (NAMES.size() + 1));
        String named = line;
        for (Map.Entry<String, String> entry : NAMES.entrySet()) named = named.replace(entry.getKey(), entry.getValue());
        return named;
    }

    /** Puts the ids back in place of their names. */
    static JsonNode withIds(JsonNode value) {
        if (value.isArray()) {
            ArrayNode list = JSON.createArrayNode();
            value.forEach(one -> list.add(withIds(one)));
            return list;
        }
        if (value.isObject()) {
            ObjectNode object = JSON.createObjectNode();
            value.properties().forEach(entry -> object.set(entry.getKey(), withIds(entry.getValue())));
            return object;
        }
        for (Map.Entry<String, String> entry : NAMES.entrySet()) {
            if (value.isTextual() && entry.getValue().equals(value.asText())) return new TextNode(unescaped(entry.getKey()));
        }
        return value;
    }

    private static String unescaped(String text) {
        try {
            return JSON.readValue("\"" + text + "\"", String.class);
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }
}
