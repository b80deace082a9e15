package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.message.ConsumerGroupDescribeRequestData;
import org.apache.kafka.common.message.ConsumerGroupDescribeResponseData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.DeleteGroupsRequestData;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.DescribeGroupsRequestData;
import org.apache.kafka.common.message.DescribeGroupsResponseData;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.ListGroupsRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.JoinGroupRequest;
import org.apache.kafka.common.requests.LeaveGroupResponse;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.SyncGroupRequest;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Requests in Kafka's JSON form, handed to the service.
 *
 * <p>What KafkaApis does before and after is done here too where it shows: the rebalance timeout of JoinGroup version
 * 0, SyncGroup from version 5 on without a protocol, LeaveGroup before version 3, the errors of OffsetFetch. Left out are
 * authorization, throttling, topic ids of version 10, and topics that OffsetCommit would not know.
 */
final class OracleRequests {
    private static final Set<String> NAMED_BY_BODY =
        Set.of("ConsumerGroupDescribe", "DescribeGroups", "ListGroups", "DeleteGroups", "OffsetFetch");

    private final GroupCoordinatorService service;
    private final int index;
    private final String api;
    private final short version;
    private final ObjectNode body;
    private final RequestContext context;

    OracleRequests(GroupCoordinatorService service, int index, JsonNode command) throws IOException {
        this.service = service;
        this.index = index;
        api = command.get("request").asText();
        ApiKeys key = Arrays.stream(ApiKeys.values()).filter(one -> one.name.equals(api)).findFirst()
            .orElseThrow(() -> new IllegalArgumentException("unknown request " + api));
        // From version 10 on topics come by id, which the broker resolves before the coordinator sees the request.
        boolean hasTopics = api.equals("OffsetCommit") || api.equals("OffsetFetch");
        version = command.has("version") ? (short) command.get("version").asInt()
            : hasTopics ? (short) 9 : key.latestVersion();
        body = command.has("body") ? (ObjectNode) OracleEvents.withIds(command.get("body"))
            : OracleEvents.JSON.createObjectNode();
        if (command.has("group") && !body.has("groupId") && !NAMED_BY_BODY.contains(api)) {
            body.put("groupId", command.get("group").asText());
        }
        String clientId = command.path("client").path("id").asText("client");
        String host = command.path("client").path("host").asText("127.0.0.1");
        context = new RequestContext(new RequestHeader(key, version, clientId, index), "1", InetAddress.getByName(host),
            KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }

    void send() throws Exception {
        BufferSupplier buffers = BufferSupplier.NO_CACHING;
        switch (api) {
            case "ConsumerGroupHeartbeat" -> OracleEvents.when(index, api,
                service.consumerGroupHeartbeat(context, read(ConsumerGroupHeartbeatRequestData.class)), this::response);
            case "JoinGroup" -> OracleEvents.when(index, api,
                service.joinGroup(context, new JoinGroupRequest(read(JoinGroupRequestData.class), version).data(), buffers),
                join -> response(version < 7 && join.protocolName() == null
                    ? join.duplicate().setProtocolName("") : join));
            case "SyncGroup" -> sync(new SyncGroupRequest(read(SyncGroupRequestData.class), version));
            case "Heartbeat" -> OracleEvents.when(index, api,
                service.heartbeat(context, read(HeartbeatRequestData.class)), this::response);
            case "LeaveGroup" -> leave(read(LeaveGroupRequestData.class));
            case "ListGroups" -> OracleEvents.when(index, api,
                service.listGroups(context, read(ListGroupsRequestData.class)), this::response);
            case "ConsumerGroupDescribe" -> OracleEvents.when(index, api,
                service.consumerGroupDescribe(context, read(ConsumerGroupDescribeRequestData.class).groupIds()),
                groups -> response(new ConsumerGroupDescribeResponseData().setGroups(groups)));
            case "DescribeGroups" -> OracleEvents.when(index, api,
                service.describeGroups(context, read(DescribeGroupsRequestData.class).groups()),
                groups -> response(new DescribeGroupsResponseData().setGroups(groups)));
            case "DeleteGroups" -> OracleEvents.when(index, api,
                service.deleteGroups(context, read(DeleteGroupsRequestData.class).groupsNames(), buffers),
                results -> response(new DeleteGroupsResponseData().setResults(results)));
            case "OffsetCommit" -> OracleEvents.when(index, api,
                service.commitOffsets(context, read(OffsetCommitRequestData.class), buffers), this::response);
            case "OffsetDelete" -> OracleEvents.when(index, api,
                service.deleteOffsets(context, read(OffsetDeleteRequestData.class), buffers), this::response);
            case "TxnOffsetCommit" -> OracleEvents.when(index, api,
                service.commitTransactionalOffsets(context, read(TxnOffsetCommitRequestData.class), buffers),
                this::response);
            case "OffsetFetch" -> fetch(read(OffsetFetchRequestData.class));
            default -> throw new IllegalArgumentException("unsupported request " + api);
        }
    }

    private void sync(SyncGroupRequest request) {
        if (request.areMandatoryProtocolTypeAndNamePresent()) {
            OracleEvents.when(index, api, service.syncGroup(context, request.data(), BufferSupplier.NO_CACHING),
                this::response);
            return;
        }
        SyncGroupResponseData refused = new SyncGroupResponseData();
        OracleEvents.answered(index, api, response(refused.setErrorCode(Errors.INCONSISTENT_GROUP_PROTOCOL.code())));
    }

    private void leave(LeaveGroupRequestData request) {
        LeaveGroupRequestData members = version >= 3 ? request
            : new LeaveGroupRequestData().setGroupId(request.groupId()).setMembers(
                List.of(new LeaveGroupRequestData.MemberIdentity().setMemberId(request.memberId())));
        OracleEvents.when(index, api, service.leaveGroup(context, members),
            answer -> response(new LeaveGroupResponse(answer, version).data()));
    }

    private void fetch(OffsetFetchRequestData request) {
        for (OffsetFetchRequestData.OffsetFetchRequestGroup group : request.groups()) {
            OracleEvents.when(index, api,
                service.fetchOffsets(context, group, request.requireStable()).exceptionally(problem ->
                    OffsetFetchResponse.groupError(
                        group, Errors.forException(Errors.maybeUnwrapException(problem)), version)),
                answer -> response(new OffsetFetchResponseData().setGroups(List.of(answer))));
        }
    }

    // -- Kafka's JSON form ----------------------------------------------------------------------------------------------

    private JsonNode response(Object data) {
        return write("Response", data);
    }

    private JsonNode write(String side, Object data) {
        Class<?>[] types = {data.getClass(), short.class};
        try {
            return (JsonNode) converter(side).getMethod("write", types).invoke(null, data, version);
        } catch (InvocationTargetException problem) {
            throw problem.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(problem);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private Class<?> converter(String side) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.common.message." + api + side + "DataJsonConverter");
    }

    /** The request; fields that the script leaves out have the message's defaults. */
    private <T> T read(Class<T> type) throws Exception {
        ObjectNode full = (ObjectNode) write("Request", type.getConstructor().newInstance());
        body.properties().forEach(entry -> full.set(entry.getKey(), entry.getValue()));
        complete(full);
        Class<?>[] types = {JsonNode.class, short.class};
        try {
            return type.cast(converter("Request").getMethod("read", types).invoke(null, full, version));
        } catch (InvocationTargetException problem) {
            throw problem.getCause() instanceof RuntimeException cause ? cause : problem;
        }
    }

    private void complete(ObjectNode full) throws IOException {
        switch (api) {
            case "JoinGroup" -> fill(full, "protocols", "{'name': '', 'metadata': ''}");
            case "SyncGroup" -> fill(full, "assignments", "{'memberId': '', 'assignment': ''}");
            case "LeaveGroup" -> fill(full, "members", "{'memberId': '', 'groupInstanceId': null, 'reason': null}");
            case "OffsetCommit", "TxnOffsetCommit" -> {
                boolean hasIds = api.equals("OffsetCommit") && version >= 10;
                fill(full, "topics", hasIds ? "{'topicId': 'AAAAAAAAAAAAAAAAAAAAAA', 'partitions': []}"
                    : "{'name': '', 'partitions': []}");
                for (JsonNode topic : full.path("topics")) {
                    fill(topic, "partitions", "{'partitionIndex': 0, 'committedOffset': 0, "
                        + "'committedLeaderEpoch': -1, 'committedMetadata': ''}");
                }
            }
            case "OffsetFetch" ->
                fill(full, "groups", "{'groupId': '', 'memberId': null, 'memberEpoch': -1, 'topics': null}");
            default -> { }
        }
    }

    /** Gives every entry of a list the defaults that it lacks. */
    private static void fill(JsonNode parent, String list, String defaults) throws IOException {
        JsonNode blank = OracleEvents.JSON.readTree(defaults.replace('\'', '"'));
        for (JsonNode entry : parent.path(list)) {
            if (entry instanceof ObjectNode object) {
                blank.properties().forEach(field -> object.putIfAbsent(field.getKey(), field.getValue()));
            }
        }
    }
}
