package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** What an assignor of kafka-clients makes of topics and subscriptions; no coordinator takes part. */
final class OracleAssignors {
    private final JsonNode command;
    private final List<Node> nodes = new ArrayList<>(List.of(new Node(0, "host", 1)));
    private final Map<String, Node> nodesByRack = new LinkedHashMap<>();

    OracleAssignors(JsonNode command) {
        this.command = command;
    }

    /** Partitions by topic, by member. */
    Map<String, Object> assign() {
        List<PartitionInfo> partitions = new ArrayList<>();
        command.get("topics").properties().forEach(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                Node[] replicas = replicas(topic.getKey(), number);
                partitions.add(new PartitionInfo(topic.getKey(), number, replicas[0], replicas, replicas));
            }
        });
        Map<String, Subscription> subscriptions = new LinkedHashMap<>();
        command.get("members").properties().forEach(
            member -> subscriptions.put(member.getKey(), subscription(member.getKey(), member.getValue())));
        Cluster cluster = new Cluster("cluster", nodes, partitions, Set.of(), Set.of());
        Map<String, Object> assigned = new TreeMap<>();
        newAssignor().assign(cluster, new GroupSubscription(subscriptions)).groupAssignment().forEach((member, one) -> {
            Map<String, List<Integer>> byTopic = new TreeMap<>();
            for (TopicPartition partition : one.partitions()) {
                byTopic.computeIfAbsent(partition.topic(), topic -> new ArrayList<>()).add(partition.partition());
            }
            assigned.put(member, byTopic);
        });
        return assigned;
    }

    private ConsumerPartitionAssignor newAssignor() {
        return switch (command.get("assign").asText()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("unknown assignor");
        };
    }

    private Node[] replicas(String topic, int number) {
        List<Node> replicas = new ArrayList<>();
        for (JsonNode rack : command.path("racks").path(topic).path(number)) {
            replicas.add(nodesByRack.computeIfAbsent(rack.asText(), name -> {
                Node node = new Node(100 + nodesByRack.size(), "host", 1, name);
                nodes.add(node);
                return node;
            }));
        }
        if (replicas.isEmpty()) replicas.add(nodes.get(0));
        return replicas.toArray(new Node[0]);
    }

    // Kafka 4.3 has no other way to give an assignor its generation.
    @SuppressWarnings("removal")
    private Subscription subscription(String memberId, JsonNode member) {
        List<TopicPartition> owned = new ArrayList<>();
        member.path("owned").properties().forEach(topic ->
            topic.getValue().forEach(number -> owned.add(new TopicPartition(topic.getKey(), number.asInt()))));
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        int generation = member.path("generation").asInt(-1);
        ConsumerPartitionAssignor assignor = newAssignor();
        if (member.has("owned")) {
            assignor.onAssignment(
                new Assignment(owned), new ConsumerGroupMetadata("g", generation, memberId, Optional.empty()));
        }
        Subscription subscription = new Subscription(topics, assignor.subscriptionUserData(new HashSet<>(topics)), owned,
            generation, textOf(member, "rack"));
        subscription.setGroupInstanceId(textOf(member, "instance"));
        return subscription;
    }

    private static Optional<String> textOf(JsonNode member, String name) {
        return member.has(name) ? Optional.of(member.get(name).asText()) : Optional.empty();
    }
}
