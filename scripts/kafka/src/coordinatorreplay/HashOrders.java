package coordinatorreplay;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Does to real tables what a line says and answers with the keys in the tables' order.
 *
 * <p>A line is a table (map, timeline, partitions) and operations, separated by tabs: {@code +key} puts, {@code ^key}
 * puts by computeIfAbsent, {@code -key} removes, {@code =} copies the map. A key of partitions is {@code topic-number}.
 */
public final class HashOrders {
    private HashOrders() { }

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split("\t");
            out.println(String.join("\t", words[0].equals("partitions") ? partitions(words) : keys(words)));
        }
    }

    private static Iterable<String> keys(String[] words) {
        Map<String, String> map = words[0].equals("map") ? new HashMap<>()
            : new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        for (int i = 1; i < words.length; i++) {
            String key = words[i].substring(1);
            switch (words[i].charAt(0)) {
                case '+' -> map.put(key, key);
                case '^' -> map.computeIfAbsent(key, k -> k);
                case '-' -> map.remove(key);
                default -> map = new HashMap<>(map);
            }
        }
        return map.keySet();
    }

    private static Iterable<String> partitions(String[] words) {
        Set<TopicPartition> set = new HashSet<>();
        for (int i = 1; i < words.length; i++) {
            int dash = words[i].lastIndexOf('-');
            TopicPartition key = new TopicPartition(words[i].substring(1, dash), Integer.parseInt(words[i].substring(dash + 1)));
            if (words[i].charAt(0) == '+') set.add(key); else set.remove(key);
        }
        return set.stream().map(TopicPartition::toString).toList();
    }
}
