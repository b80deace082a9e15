package coordinatorreplay;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumers of the Java client, each on a thread of its own, that are started and ended by lines on standard input.
 *
 * <p>{@code start KEY TOPIC,TOPIC name=value …} starts a consumer with these settings, when the one before it has
 * closed; {@code close KEY} closes it, {@code stall KEY MS} lets it not poll for a while. A dynamic member leaves its
 * group when it is closed; the client has no way to die without closing its connections, so nothing here crashes.
 */
public final class Members {

    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final long RESTART_MS = 100;

    private Members() {
    }

    /** Reads lines until standard input ends; then closes all that still runs. */
    public static void main(String[] args) throws IOException, InterruptedException {
        Map<String, Member> members = new HashMap<>();
        Map<String, Member> closing = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.trim().split(" ");
            switch (words[0]) {
                case "start" -> {
                    Member member = new Member(List.of(words[2].split(",")), settings(words), closing.remove(words[1]));
                    members.put(words[1], member);
                    member.start();
                }
                case "close" -> {
                    closing.put(words[1], members.remove(words[1]));
                    closing.get(words[1]).isClosing = true;
                }
                case "stall" -> members.get(words[1]).stallMs = Long.parseLong(words[2]);
                default -> throw new IllegalArgumentException(line);
            }
        }
        for (Member member : members.values()) {
            member.isClosing = true;
        }
        for (Member member : members.values()) {
            member.join();
        }
    }

    private static Properties settings(String[] words) {
        Properties found = new Properties();
        for (int i = 3; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            found.setProperty(pair[0], pair[1]);
        }
        return found;
    }

    private static final class Member extends Thread {
        private final List<String> topics;
        private final Properties settings;
        private final Member before;
        private volatile boolean isClosing;
        private volatile long stallMs;

        Member(List<String> topics, Properties settings, Member before) {
            this.topics = topics;
            this.settings = settings;
            this.before = before;
        }

        @Override
        public void run() {
            if (before != null) {
                waitFor(before);
            }
            while (!isClosing) {
                try {
                    live();
                } catch (KafkaException fatal) {
                    System.err.println(settings.getProperty("client.id") + ": " + fatal);
                    sleepFor(RESTART_MS);
                }
            }
        }

        private void live() {
            var bytes = new ByteArrayDeserializer();
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes);
            try {
                consumer.subscribe(topics);
                while (!isClosing) {
                    consumer.poll(POLL);
                    if (stallMs > 0) {
                        sleepFor(stallMs);
                        stallMs = 0;
                    }
                }
            } finally {
                consumer.close(CloseOptions.timeout(PATIENCE));
            }
        }

        private static void waitFor(Member member) {
            try {
                member.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        private static void sleepFor(long ms) {
            try {
                Thread.sleep(ms);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
