package org.apache.kafka.coordinator.group;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.server.util.timer.TimerTask;

/** The inner state of all groups and the timers that run, read out of private fields. */
final class OracleState {
    private final Object context;

    OracleState(OracleCoordinator coordinator) throws ReflectiveOperationException {
        context = ((Map<?, ?>) field(coordinator.runtime, "coordinators")).get(OracleCoordinator.PARTITION);
    }

    /** Milliseconds that each timer has left, by its key. */
    Map<String, Object> timers() throws ReflectiveOperationException {
        Map<TimerTask, Long> left = new IdentityHashMap<>();
        long now = OracleTime.CLOCK.milliseconds();
        OracleTime.TIMERS.running().forEach(due -> left.put(due.entry().timerTask, due.at() - now));
        Map<String, Object> timers = new TreeMap<>();
        ((Map<?, ?>) field(field(context, "timer"), "tasks")).forEach((key, task) -> timers.put((String) key, left.get(task)));
        return timers;
    }

    /** State by group id. */
    Map<String, Object> dump() throws ReflectiveOperationException {
        GroupMetadataManager manager = (GroupMetadataManager) field(shard(), "groupMetadataManager");
        Map<String, Object> groups = new TreeMap<>();
        for (String id : manager.groupIds()) {
            Group group = manager.group(id);
            Map<String, Object> state = new LinkedHashMap<>();
            state.put("type", group.type().toString());
            state.put("state", group.stateAsString());
            if (group instanceof ClassicGroup classic) addClassic(state, classic);
            else if (group instanceof ConsumerGroup consumer) addConsumer(state, consumer);
            groups.put(id, state);
        }
        return groups;
    }

    private static void addClassic(Map<String, Object> state, ClassicGroup group) {
        state.put("generation", group.generationId());
        state.put("protocolType", group.protocolType().orElse(null));
        state.put("protocol", group.protocolName().orElse(null));
        state.put("leader", group.leaderOrNull());
        List<Object> members = new ArrayList<>();
        for (ClassicGroupMember member : group.allMembers()) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("memberId", member.memberId());
            one.put("instanceId", member.groupInstanceId().orElse(null));
            one.put("clientId", member.clientId());
            one.put("clientHost", member.clientHost());
            one.put("sessionTimeoutMs", member.sessionTimeoutMs());
            one.put("rebalanceTimeoutMs", member.rebalanceTimeoutMs());
            one.put("assignment", member.assignment());
            one.put("awaitingJoin", member.isAwaitingJoin());
            one.put("awaitingSync", member.isAwaitingSync());
            members.add(one);
        }
        state.put("members", members);
    }

    private static void addConsumer(Map<String, Object> state, ConsumerGroup group) {
        state.put("epoch", group.groupEpoch());
        state.put("assignmentEpoch", group.assignmentEpoch());
        state.put("assignor", group.preferredServerAssignor().orElse(null));
        state.put("metadataHash", String.valueOf(group.metadataHash()));
        state.put("subscriptionType", String.valueOf(group.subscriptionType()));
        state.put("classicMembers", group.numClassicProtocolMembers());
        Map<String, Object> expressions = new TreeMap<>();
        group.resolvedRegularExpressions().forEach((text, resolved) -> expressions.put(text, new TreeSet<>(resolved.topics())));
        state.put("regexes", expressions);
        List<Object> members = new ArrayList<>();
        new TreeMap<>(group.members()).values().forEach(member -> members.add(consumerMember(group, member)));
        state.put("members", members);
    }

    private static Map<String, Object> consumerMember(ConsumerGroup group, ConsumerGroupMember member) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("memberId", member.memberId());
        one.put("instanceId", member.instanceId());
        one.put("clientId", member.clientId());
        one.put("rackId", member.rackId());
        one.put("rebalanceTimeoutMs", member.rebalanceTimeoutMs());
        one.put("memberEpoch", member.memberEpoch());
        one.put("previousMemberEpoch", member.previousMemberEpoch());
        one.put("memberState", String.valueOf(member.state()));
        one.put("topics", new TreeSet<>(member.subscribedTopicNames()));
        one.put("regex", member.subscribedTopicRegex());
        one.put("assignor", member.serverAssignorName().orElse(null));
        one.put("usesClassicProtocol", member.useClassicProtocol());
        one.put("assigned", sorted(member.assignedPartitions()));
        one.put("pendingRevocation", sorted(member.partitionsPendingRevocation()));
        one.put("target", sorted(group.targetAssignment(member.memberId(), member.instanceId()).partitions()));
        return one;
    }

    private static <K, V> Map<String, Object> sorted(Map<K, V> partitions) {
        Map<String, Object> sorted = new TreeMap<>();
        partitions.forEach((topic, value) -> sorted.put(String.valueOf(topic),
            value instanceof Set<?> set ? new TreeSet<>(set) : value instanceof Map<?, ?> map ? new TreeMap<>(map) : value));
        return sorted;
    }

    private GroupCoordinatorShard shard() throws ReflectiveOperationException {
        Object snapshottable = field(context, "coordinator");
        Method coordinator = snapshottable.getClass().getDeclaredMethod("coordinator");
        coordinator.setAccessible(true);
        return (GroupCoordinatorShard) coordinator.invoke(snapshottable);
    }

    private static Object field(Object owner, String name) throws ReflectiveOperationException {
        for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field.get(owner);
                }
            }
        }
        throw new NoSuchFieldException(name);
    }
}
