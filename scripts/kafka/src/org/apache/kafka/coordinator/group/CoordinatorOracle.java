package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Kafka's own group coordinator, driven by a script: JSON lines in, one answer a line out.
 *
 * <p>The real GroupCoordinatorService with its runtime and shard runs in one thread, on a clock that moves only when the
 * script says so, over one partition that is in memory. Log, clock, timers, threads and random ids are replaced, nothing
 * else. The forms of lines and answers are those of {@code coordinator-replay simulate}; an answer has Kafka's log lines,
 * too, as {@code {"at", "log"}}, and {@code {"to", "oracleError"}} for a line that can't be run.
 */
public final class CoordinatorOracle {
    private static final PrintStream STDERR = System.err;
    private static final Pattern LOG_LINE = Pattern.compile("([A-Z]+) [\\w.$]*?([\\w$]+) - "
        + "(?:\\[GroupCoordinator id=0(?: topic=__consumer_offsets partition=0)?\\] )?(.*)");

    private OracleCoordinator coordinator;
    private int index = 0;

    private CoordinatorOracle() { }

    public static void main(String[] arguments) throws IOException {
        Security.insertProviderAt(new CountingProvider(), 1);
        makeEventsOfLogLines();
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CoordinatorOracle oracle = new CoordinatorOracle();
        for (String line; (line = in.readLine()) != null; ) {
            if (!line.isBlank()) out.println(oracle.answer(line));
            out.flush();
        }
    }

    private String answer(String line) throws IOException {
        String did = "?";
        try {
            JsonNode command = OracleEvents.JSON.readTree(line);
            did = run(command);
        } catch (Throwable problem) {
            Throwable cause = problem instanceof InvocationTargetException wrapped ? wrapped.getCause() : problem;
            OracleEvents.add().put("to", index)
                .put("oracleError", cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        ObjectNode answer = OracleEvents.JSON.createObjectNode().put("i", index++)
            .put("now", OracleTime.CLOCK.sinceStart()).put("did", did);
        answer.set("out", OracleEvents.take());
        return OracleEvents.withNames(OracleEvents.JSON.writeValueAsString(answer));
    }

    /** Runs a command; returns what the answer calls it. */
    private String run(JsonNode command) throws Exception {
        if (command.has("config")) {
            if (coordinator != null) throw new IllegalStateException("config comes first");
            start(settings(command.get("config")));
            return "config";
        }
        if (command.has("assign")) {
            Map<String, Object> assignment = new OracleAssignors(command).assign();
            OracleEvents.add().set("assignment", OracleEvents.JSON.valueToTree(assignment));
            return "assign";
        }
        if (coordinator == null && !command.has("note")) start(Map.of());
        for (String name : new String[] {"topics", "groupConfig", "request", "endTxn", "advance_ms", "async", "reload",
            "dump", "timers", "note"}) {
            if (command.has(name)) {
                run(name, command);
                return name.equals("request") ? command.get("request").asText() : name;
            }
        }
        throw new IllegalArgumentException("unknown command");
    }

    private void run(String name, JsonNode command) throws Exception {
        JsonNode value = command.get(name);
        switch (name) {
            case "topics" -> coordinator.setTopics(value);
            case "groupConfig" -> coordinator.setGroupConfig(command.get("group").asText(), value);
            case "request" -> new OracleRequests(coordinator.service, index, command).send();
            case "endTxn" -> coordinator.endTransaction(index, value);
            case "advance_ms" -> OracleTime.advance(value.asLong());
            case "async" -> OracleTime.BACKGROUND.isOnHold = value.asText().equals("hold");
            case "reload" -> coordinator.reload();
            case "dump" -> {
                Map<String, Object> groups = new OracleState(coordinator).dump();
                OracleEvents.add().set("dump", OracleEvents.JSON.valueToTree(groups));
            }
            case "timers" -> {
                Map<String, Object> timers = new OracleState(coordinator).timers();
                OracleEvents.add().set("timers", OracleEvents.JSON.valueToTree(timers));
            }
            default -> { }
        }
        if (!name.equals("note")) OracleTime.settle();
    }

    private void start(Map<String, Object> settings) {
        coordinator = new OracleCoordinator(settings);
        // What happens while it starts is no answer to a line.
        OracleEvents.take();
    }

    private static Map<String, Object> settings(JsonNode config) {
        Map<String, Object> settings = new HashMap<>();
        config.properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().isArray()
            ? String.join(",", OracleEvents.JSON.convertValue(entry.getValue(), String[].class))
            : entry.getValue().asText()));
        return settings;
    }

    private static void makeEventsOfLogLines() {
        System.setProperty("org.slf4j.simpleLogger.showDateTime", "false");
        System.setProperty("org.slf4j.simpleLogger.showThreadName", "false");
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "info");
        for (String loud : new String[] {"common.config", "common.utils", "coordinator.group.GroupCoordinatorConfig"}) {
            System.setProperty("org.slf4j.simpleLogger.log.org.apache.kafka." + loud, "error");
        }
        System.setErr(new PrintStream(new LogLines(), true, StandardCharsets.UTF_8));
    }

    /** slf4j-simple writes its lines to standard error. */
    private static final class LogLines extends OutputStream {
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();

        @Override public void write(int one) {
            if (one != '\n') {
                line.write(one);
                return;
            }
            String text = line.toString(StandardCharsets.UTF_8);
            line.reset();
            Matcher matcher = LOG_LINE.matcher(text);
            if (matcher.matches()) {
                String message = matcher.group(3).replaceAll("\\[B@[0-9a-f]+", "[B@");
                OracleEvents.add().put("log", matcher.group(1) + " " + matcher.group(2) + ": " + message);
            } else if (text.startsWith("SLF4J")) {
                STDERR.println(text);
            }
        }
    }

    /** Random numbers that count, so that every run makes the same UUIDs. */
    public static final class CountingRandom extends SecureRandomSpi {
        private static final long serialVersionUID = 1L;
        private static long number = 0;

        @Override protected void engineSetSeed(byte[] seed) { }

        @Override protected void engineNextBytes(byte[] bytes) {
            number++;
            Arrays.fill(bytes, (byte) 0);
            for (int at = 0; at < Math.min(6, bytes.length); at++) {
                bytes[bytes.length - 1 - at] = (byte) (number >>> (8 * at));
            }
        }

        @Override protected byte[] engineGenerateSeed(int length) {
            return new byte[length];
        }
    }

    private static final class CountingProvider extends Provider {
        private static final long serialVersionUID = 1L;

        CountingProvider() {
            super("Counting", "1", "UUIDs that count");
            put("SecureRandom.Counting", CountingRandom.class.getName());
        }
    }
}
