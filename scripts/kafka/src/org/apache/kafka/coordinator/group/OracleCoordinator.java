package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.util.PartitionMetadataClient;

/** Kafka's GroupCoordinatorService with runtime and shard, over one partition, fed with topics as a broker feeds it. */
final class OracleCoordinator {
    static final TopicPartition PARTITION = new TopicPartition(Topic.GROUP_METADATA_TOPIC_NAME, 0);

    final CoordinatorRuntime<GroupCoordinatorShard, CoordinatorRecord> runtime;
    final GroupCoordinatorService service;

    private final OracleLog log = new OracleLog();
    private final Map<String, Integer> brokers = new LinkedHashMap<>();
    private MetadataImage image = MetadataImage.EMPTY;
    private long version = 0;
    private int leaderEpoch = 0;

    OracleCoordinator(Map<String, Object> settings) {
        Map<String, Object> properties = new HashMap<>(settings);
        Object maxMessageBytes = properties.remove("max.message.bytes");
        if (maxMessageBytes != null) log.setMaxMessageBytes(maxMessageBytes);
        // Without lingering every operation is a batch of its own.
        properties.putIfAbsent("group.coordinator.append.linger.ms", 0);
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(properties);
        ConfigDef definitions = new ConfigDef(ShareGroupConfig.CONFIG_DEF);
        GroupCoordinatorConfig.CONFIG_DEF.configKeys().values().forEach(key -> {
            if (!definitions.names().contains(key.name)) definitions.define(key);
        });
        ShareGroupConfig share = new ShareGroupConfig(new AbstractConfig(definitions, properties, false));
        // As in BrokerServer: what a group does not set itself is the broker's setting.
        GroupConfigManager groups = new GroupConfigManager(config.extractGroupConfigMap(share), config, share);
        LogContext logContext = new LogContext("[GroupCoordinator id=0] ");
        GroupCoordinatorMetrics metrics = new GroupCoordinatorMetrics();
        runtime = new CoordinatorRuntime.Builder<GroupCoordinatorShard, CoordinatorRecord>()
            .withTime(OracleTime.CLOCK)
            .withTimer(OracleTime.TIMERS)
            .withLogPrefix("GroupCoordinator id=0")
            .withLogContext(logContext)
            .withEventProcessor(new OracleTime.Processor())
            .withPartitionWriter(log)
            .withLoader(log)
            .withCoordinatorShardBuilderSupplier(
                () -> new GroupCoordinatorShard.Builder(config, groups).withAuthorizerPlugin(Optional.empty()))
            .withWriteTimeout(Duration.ofMillis(config.offsetCommitTimeoutMs()))
            .withCoordinatorRuntimeMetrics(inert(CoordinatorRuntimeMetrics.class))
            .withCoordinatorMetrics(metrics)
            .withSerializer(OracleLog.SERDE)
            .withCompression(Compression.NONE)
            .withAppendLingerMs(config.appendLingerMs())
            .withExecutorService(OracleTime.BACKGROUND)
            .withCachedBufferMaxBytesSupplier(config::cachedBufferMaxBytes)
            .build();
        service = new GroupCoordinatorService(logContext, config, runtime, metrics, groups, inert(Persister.class),
            OracleTime.TIMERS, inert(PartitionMetadataClient.class));
        service.startup(() -> 1);
        // As a broker does: an image first, then the election.
        apply(new MetadataDelta.Builder().setImage(image).build());
        service.onElection(0, 0);
    }

    /** Something of an interface that the script never comes near: it does nothing. */
    @SuppressWarnings("unchecked")
    private static <T> T inert(Class<T> type) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) ->
            method.getReturnType() == boolean.class ? (Object) false
                : method.getReturnType() == int.class ? (Object) 0 : null);
    }

    private void apply(MetadataDelta delta) {
        image = delta.apply(new MetadataProvenance(version++, 0, 0L, true));
        service.onMetadataUpdate(delta, image);
    }

    /** The leader of the partition resigns and is elected again: the coordinator is built from the log. */
    void reload() {
        service.onResignation(0, OptionalInt.of(++leaderEpoch));
        OracleTime.settle();
        service.onElection(0, ++leaderEpoch);
        OracleTime.settle();
    }

    void setGroupConfig(String group, JsonNode settings) {
        Properties properties = new Properties();
        settings.properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        service.updateGroupConfig(group, properties);
    }

    void endTransaction(int index, JsonNode end) {
        boolean isCommitted = end.get("commit").asBoolean();
        service.completeTransaction(PARTITION, end.get("producerId").asLong(), (short) end.get("producerEpoch").asInt(),
            0, isCommitted ? TransactionResult.COMMIT : TransactionResult.ABORT, (short) 2)
            .whenComplete((nothing, problem) -> {
                if (problem != null) OracleEvents.thrown(index, "endTxn", problem);
                else OracleEvents.add().put("marker", isCommitted ? "COMMIT" : "ABORT");
            });
    }

    /** Replaces all topics: created, grown and deleted ones, and those with another id, follow from the difference. */
    void setTopics(JsonNode list) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        Map<String, JsonNode> wanted = new LinkedHashMap<>();
        list.forEach(topic -> wanted.put(topic.get("name").asText(), topic));
        for (TopicImage old : List.copyOf(image.topics().topicsById().values())) {
            JsonNode topic = wanted.get(old.name());
            if (topic == null || !idOf(topic).equals(old.id())) {
                delta.replay(new RemoveTopicRecord().setTopicId(old.id()));
            }
        }
        wanted.values().forEach(topic -> setTopic(topic, delta));
        apply(delta);
    }

    private static Uuid idOf(JsonNode topic) {
        return Uuid.fromString(topic.get("id").asText());
    }

    private void setTopic(JsonNode topic, MetadataDelta delta) {
        Uuid id = idOf(topic);
        TopicImage old = image.topics().getTopic(id);
        if (old == null) delta.replay(new TopicRecord().setTopicId(id).setName(topic.get("name").asText()));
        for (int partition = 0; partition < topic.get("partitions").asInt(); partition++) {
            List<Integer> replicas = replicas(topic.get("racks"), partition, delta);
            int leader = replicas.isEmpty() ? -1 : replicas.get(0);
            if (old == null || !old.partitions().containsKey(partition)) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(replicas).setIsr(replicas).setLeader(leader));
            } else if (!Arrays.stream(old.partitions().get(partition).replicas).boxed().toList().equals(replicas)) {
                delta.replay(new PartitionChangeRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(replicas).setIsr(replicas).setLeader(leader));
            }
        }
    }

    /** Brokers with the partition's replicas: one for each rack, or two without a rack. */
    private List<Integer> replicas(JsonNode racks, int partition, MetadataDelta delta) {
        if (racks == null || partition >= racks.size()) return List.of(0, 1);
        List<Integer> replicas = new ArrayList<>();
        for (JsonNode rack : racks.get(partition)) {
            replicas.add(brokers.computeIfAbsent(rack.asText(), name -> {
                int broker = 100 + brokers.size();
                delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setRack(name));
                return broker;
            }));
        }
        return replicas;
    }
}
