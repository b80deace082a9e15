package coordinatorreplay;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.MemberAssignment;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Asks a broker for all it has to say of classic and consumer groups: one label per line of standard input, one
 * checkpoint per line of standard output.
 *
 * <p>The answer about a group belongs to exactly the end offset of its log partition if that is the same before and
 * after. {@code quiet} says that this holds for all groups, and that none was in a state that is never written.
 */
public final class Checkpoints {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String OFFSETS_TOPIC = "__consumer_offsets";
    /** A classic group on its way to the next generation, of which the log tells only when it has arrived. */
    private static final Set<GroupState> NEVER_WRITTEN =
        Set.of(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE);

    private static final Comparator<TopicPartition> BY_NAME =
        Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition);

    private final Admin admin;

    private Checkpoints(Admin admin) {
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]))) {
            Checkpoints checkpoints = new Checkpoints(admin);
            BufferedReader labels = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String label = labels.readLine(); label != null; label = labels.readLine()) {
                System.out.println(JSON.writeValueAsString(checkpoints.take(label)));
            }
        }
    }

    private ObjectNode take(String label) throws Exception {
        ObjectNode checkpoint = JSON.createObjectNode();
        checkpoint.put("label", label);
        checkpoint.put("at", System.currentTimeMillis());
        Map<Integer, Long> before = endOffsets();
        checkpoint.set("endOffsets", JSON.valueToTree(before));
        checkpoint.set("topics", topics());
        ArrayNode groups = checkpoint.putArray("groups");
        boolean allWritten = true;
        Set<String> groupIds = groupIds();
        Offsets stored = offsets(groupIds, false);
        Offsets stable = offsets(groupIds, true);
        for (ConsumerGroupDescription group : describe(groupIds)) {
            groups.add(told(group, stored.of(group.groupId()), stable.of(group.groupId())));
            allWritten &= !NEVER_WRITTEN.contains(group.groupState());
        }
        Map<Integer, Long> after = endOffsets();
        checkpoint.set("endOffsetsAfter", JSON.valueToTree(after));
        checkpoint.put("quiet", before.equals(after) && allWritten);
        return checkpoint;
    }

    private Map<Integer, Long> endOffsets() throws Exception {
        Map<Integer, Long> ends = new TreeMap<>();
        try {
            TopicDescription topic =
                admin.describeTopics(Set.of(OFFSETS_TOPIC)).allTopicNames().get().get(OFFSETS_TOPIC);
            Map<TopicPartition, OffsetSpec> asked = topic.partitions().stream().collect(
                Collectors.toMap(part -> new TopicPartition(OFFSETS_TOPIC, part.partition()), part -> OffsetSpec.latest()));
            // Records of open transactions are in the log too.
            ListOffsetsOptions uncommitted = new ListOffsetsOptions(IsolationLevel.READ_UNCOMMITTED);
            admin.listOffsets(asked, uncommitted).all().get()
                .forEach((partition, end) -> ends.put(partition.partition(), end.offset()));
        } catch (ExecutionException problem) {
            // Before the first group comes there is no such topic.
            if (!(problem.getCause() instanceof UnknownTopicOrPartitionException)) {
                throw problem;
            }
        }
        return ends;
    }

    private ObjectNode topics() throws Exception {
        ObjectNode topics = JSON.createObjectNode();
        for (String name : new TreeSet<>(admin.listTopics().names().get())) {
            try {
                TopicDescription topic = admin.describeTopics(Set.of(name)).allTopicNames().get().get(name);
                topics.putObject(name).put("id", topic.topicId().toString()).put("partitions", topic.partitions().size());
            } catch (ExecutionException problem) {
                // Deleted since it was listed.
                if (!(problem.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw problem;
                }
            }
        }
        return topics;
    }

    private Set<String> groupIds() throws Exception {
        ListGroupsOptions types = new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC, GroupType.CONSUMER));
        return admin.listGroups(types).all().get().stream()
            .map(group -> group.groupId())
            .collect(Collectors.toCollection(TreeSet::new));
    }

    /** What a future holds; empty for a group that was deleted since it was listed. */
    private static <T> Optional<T> unlessDeleted(KafkaFuture<T> future) throws Exception {
        try {
            return Optional.of(future.get());
        } catch (ExecutionException problem) {
            if (problem.getCause() instanceof GroupIdNotFoundException) {
                return Optional.empty();
            }
            throw problem;
        }
    }

    private List<ConsumerGroupDescription> describe(Set<String> groupIds) throws Exception {
        var described = admin.describeConsumerGroups(groupIds).describedGroups();
        List<ConsumerGroupDescription> groups = new ArrayList<>();
        for (String groupId : groupIds) {
            unlessDeleted(described.get(groupId)).ifPresent(groups::add);
        }
        return groups;
    }

    /** Offsets of many groups, all asked for at once so that little time passes. */
    private record Offsets(Map<String, Map<TopicPartition, OffsetAndMetadata>> byGroup) {
        Map<TopicPartition, OffsetAndMetadata> of(String groupId) {
            return byGroup.getOrDefault(groupId, Map.of());
        }
    }

    private Offsets offsets(Set<String> groupIds, boolean requireStable) throws Exception {
        var all = new ListConsumerGroupOffsetsSpec();
        var options = new ListConsumerGroupOffsetsOptions().requireStable(requireStable);
        var asked = groupIds.stream().collect(Collectors.toMap(groupId -> groupId, groupId -> all));
        var found = admin.listConsumerGroupOffsets(asked, options);
        Map<String, Map<TopicPartition, OffsetAndMetadata>> byGroup = new TreeMap<>();
        for (String groupId : groupIds) {
            Map<TopicPartition, OffsetAndMetadata> sorted = new TreeMap<>(BY_NAME);
            unlessDeleted(found.partitionsToOffsetAndMetadata(groupId)).orElse(Map.of()).forEach((partition, offset) -> {
                if (offset != null) {
                    sorted.put(partition, offset);
                }
            });
            byGroup.put(groupId, sorted);
        }
        return new Offsets(byGroup);
    }

    private static ObjectNode told(
        ConsumerGroupDescription group,
        Map<TopicPartition, OffsetAndMetadata> stored,
        Map<TopicPartition, OffsetAndMetadata> stable
    ) {
        boolean isClassic = group.type() == GroupType.CLASSIC;
        ObjectNode told = JSON.createObjectNode();
        told.put("groupId", group.groupId());
        told.put("type", group.type().toString());
        told.put("protocol", group.isSimpleConsumerGroup() ? "" : "consumer");
        told.put("state", group.groupState().toString());
        ArrayNode members = told.putArray("members");
        group.members().forEach(member -> members.add(told(member, isClassic)));
        told.put("epoch", group.groupEpoch().orElse(null));
        told.put("assignmentEpoch", group.targetAssignmentEpoch().orElse(null));
        told.put("assignor", group.partitionAssignor());
        told.put("simple", group.isSimpleConsumerGroup());
        ObjectNode offsets = told.putObject("offsets");
        ArrayNode unstable = told.putArray("unstable");
        stored.forEach((partition, offset) -> {
            ObjectNode one = offsets.putObject(partition.toString());
            one.put("offset", offset.offset());
            one.put("metadata", offset.metadata());
            one.put("leaderEpoch", offset.leaderEpoch().orElse(null));
            if (!stable.containsKey(partition)) {
                unstable.add(partition.toString());
            }
        });
        return told;
    }

    private static ObjectNode told(MemberDescription member, boolean isClassic) {
        ObjectNode told = JSON.createObjectNode();
        told.put("memberId", member.consumerId());
        told.put("instanceId", member.groupInstanceId().orElse(null));
        told.put("rackId", member.rackId().orElse(null));
        told.put("clientId", member.clientId());
        told.put("host", member.host());
        told.put("memberEpoch", member.memberEpoch().orElse(null));
        told.put("upgraded", member.upgraded().orElse(null));
        told.set("assignment", JSON.valueToTree(partitions(member.assignment())));
        if (!isClassic) {
            told.set("target", JSON.valueToTree(member.targetAssignment().map(Checkpoints::partitions).orElse(Set.of())));
        }
        return told;
    }

    private static Set<String> partitions(MemberAssignment assignment) {
        return assignment.topicPartitions().stream()
            .map(TopicPartition::toString)
            .collect(Collectors.toCollection(TreeSet::new));
    }
}
