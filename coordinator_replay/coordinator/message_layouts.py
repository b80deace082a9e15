"""Fields of the requests and responses that the coordinator knows, as Kafka's message definitions have them.

One block a message: its name and versions, then a line a field: name, type, versions where it is not in all of them,
default where it is not the type's own. ``?`` marks a field that may be null, indentation the fields of a struct.
Source: the message definitions of kafka-clients 4.3.1. Names and defaults are those of Kafka's JSON form.
"""

REQUESTS = """
ConsumerGroupHeartbeat 0-1
    groupId string
    memberId string
    memberEpoch int32
    instanceId ?string = null
    rackId ?string = null
    rebalanceTimeoutMs int32 = -1
    subscribedTopicNames ?[]string = null
    subscribedTopicRegex ?string 1+ = null
    serverAssignor ?string = null
    topicPartitions ?[]struct = null
        topicId uuid
        partitions []int32
ConsumerGroupDescribe 0-1
    groupIds []string
    includeAuthorizedOperations bool
JoinGroup 0-9
    groupId string
    sessionTimeoutMs int32
    rebalanceTimeoutMs int32 1+ = -1
    memberId string
    groupInstanceId ?string 5+ = null
    protocolType string
    protocols []struct
        name string
        metadata bytes
    reason ?string 8+ = null
SyncGroup 0-5
    groupId string
    generationId int32
    memberId string
    groupInstanceId ?string 3+ = null
    protocolType ?string 5+ = null
    protocolName ?string 5+ = null
    assignments []struct
        memberId string
        assignment bytes
Heartbeat 0-4
    groupId string
    generationId int32
    memberId string
    groupInstanceId ?string 3+ = null
LeaveGroup 0-5
    groupId string
    memberId string 0-2
    members []struct 3+
        memberId string
        groupInstanceId ?string = null
        reason ?string 5+ = null
DescribeGroups 0-6
    groups []string
    includeAuthorizedOperations bool 3+
ListGroups 0-5
    statesFilter []string 4+
    typesFilter []string 5+
DeleteGroups 0-2
    groupsNames []string
OffsetCommit 2-10
    groupId string
    generationIdOrMemberEpoch int32 = -1
    memberId string
    groupInstanceId ?string 7+ = null
    retentionTimeMs int64 2-4 = -1
    topics []struct
        name string 0-9
        topicId uuid 10+
        partitions []struct
            partitionIndex int32
            committedOffset int64
            committedLeaderEpoch int32 6+ = -1
            committedMetadata ?string
TxnOffsetCommit 0-5
    transactionalId string
    groupId string
    producerId int64
    producerEpoch int16
    generationId int32 3+ = -1
    memberId string 3+ = ""
    groupInstanceId ?string 3+ = null
    topics []struct
        name string
        partitions []struct
            partitionIndex int32
            committedOffset int64
            committedLeaderEpoch int32 2+ = -1
            committedMetadata ?string
OffsetFetch 1-10
    groupId string 0-7
    topics ?[]struct 0-7
        name string
        partitionIndexes []int32
    groups []struct 8+
        groupId string
        memberId ?string 9+ = null
        memberEpoch int32 9+ = -1
        topics ?[]struct
            name string 8-9
            topicId uuid 10+
            partitionIndexes []int32
    requireStable bool 7+ = false
OffsetDelete 0-0
    groupId string
    topics []struct
        name string
        partitions []struct
            partitionIndex int32
"""

RESPONSES = """
ConsumerGroupHeartbeat 0-1
    throttleTimeMs int32
    errorCode int16
    errorMessage ?string = null
    memberId ?string = null
    memberEpoch int32
    heartbeatIntervalMs int32
    assignment ?struct = null
        topicPartitions []struct
            topicId uuid
            partitions []int32
ConsumerGroupDescribe 0-1
    throttleTimeMs int32
    groups []struct
        errorCode int16
        errorMessage ?string = null
        groupId string
        groupState string
        groupEpoch int32
        assignmentEpoch int32
        assignorName string
        members []struct
            memberId string
            instanceId ?string = null
            rackId ?string = null
            memberEpoch int32
            clientId string
            clientHost string
            subscribedTopicNames []string
            subscribedTopicRegex ?string = null
            assignment struct
                topicPartitions []struct
                    topicId uuid
                    topicName string
                    partitions []int32
            targetAssignment struct
                topicPartitions []struct
                    topicId uuid
                    topicName string
                    partitions []int32
            memberType int8 1+ = -1
        authorizedOperations int32 = -2147483648
JoinGroup 0-9
    throttleTimeMs int32 2+
    errorCode int16
    generationId int32 = -1
    protocolType ?string 7+ = null
    protocolName ?string
    leader string
    skipAssignment bool 9+ = false
    memberId string
    members []struct
        memberId string
        groupInstanceId ?string 5+ = null
        metadata bytes
SyncGroup 0-5
    throttleTimeMs int32 1+
    errorCode int16
    protocolType ?string 5+ = null
    protocolName ?string 5+ = null
    assignment bytes
Heartbeat 0-4
    throttleTimeMs int32 1+
    errorCode int16
LeaveGroup 0-5
    throttleTimeMs int32 1+
    errorCode int16
    members []struct 3+
        memberId string
        groupInstanceId ?string
        errorCode int16
DescribeGroups 0-6
    throttleTimeMs int32 1+
    groups []struct
        errorCode int16
        errorMessage ?string 6+ = null
        groupId string
        groupState string
        protocolType string
        protocolData string
        members []struct
            memberId string
            groupInstanceId ?string 4+ = null
            clientId string
            clientHost string
            memberMetadata bytes
            memberAssignment bytes
        authorizedOperations int32 3+ = -2147483648
ListGroups 0-5
    throttleTimeMs int32 1+
    errorCode int16
    groups []struct
        groupId string
        protocolType string
        groupState string 4+
        groupType string 5+
DeleteGroups 0-2
    throttleTimeMs int32
    results []struct
        groupId string
        errorCode int16
OffsetCommit 2-10
    throttleTimeMs int32 3+
    topics []struct
        name string 0-9
        topicId uuid 10+
        partitions []struct
            partitionIndex int32
            errorCode int16
TxnOffsetCommit 0-5
    throttleTimeMs int32
    topics []struct
        name string
        partitions []struct
            partitionIndex int32
            errorCode int16
OffsetFetch 1-10
    throttleTimeMs int32 3+
    topics []struct 0-7
        name string
        partitions []struct
            partitionIndex int32
            committedOffset int64
            committedLeaderEpoch int32 5-7 = -1
            metadata ?string
            errorCode int16
    errorCode int16 2-7 = 0
    groups []struct 8+
        groupId string
        topics []struct
            name string 8-9
            topicId uuid 10+
            partitions []struct
                partitionIndex int32
                committedOffset int64
                committedLeaderEpoch int32 = -1
                metadata ?string
                errorCode int16
        errorCode int16 = 0
OffsetDelete 0-0
    errorCode int16
    throttleTimeMs int32
    topics []struct
        name string
        partitions []struct
            partitionIndex int32
            errorCode int16
"""

DRAFT_REQUESTS = """
ConsumerGroupHeartbeat 0-1
    groupId string
    memberId string
    memberEpoch int32
    instanceId ?string = null
    rackId ?string = null
    rebalanceTimeoutMs int32 = -1
    subscribedTopicNames ?[]string = null
    subscribedTopicRegex ?string 1+ = null
    serverAssignor ?string = null
    clientAssignors ?[]struct = null
        name string
        minimumVersion int16
        maximumVersion int16
        reason int8
        version int16
        metadata bytes
    topicPartitions ?[]struct = null
        topicId uuid
        partitions []int32
PrepareAssignment 0-0
    groupId string
    memberId string
    memberEpoch int32
InstallAssignment 0-0
    groupId string
    memberId string
    memberEpoch int32
    groupEpoch int32
    error int8
    members []struct
        memberId string
        error int8
        topicPartitions []struct
            topicId uuid
            partitions []int32
        version int16
        metadata bytes
"""
"""Requests of KIP-848's draft, where they differ from what was shipped; names are our reading of its text."""

DRAFT_RESPONSES = """
ConsumerGroupHeartbeat 0-1
    throttleTimeMs int32
    errorCode int16
    errorMessage ?string = null
    memberId ?string = null
    memberEpoch int32
    heartbeatIntervalMs int32
    shouldComputeAssignment bool
    assignment ?struct = null
        error int8
        topicPartitions []struct
            topicId uuid
            partitions []int32
        pendingTopicPartitions []struct
            topicId uuid
            partitions []int32
        metadataVersion int16
        metadataBytes bytes
PrepareAssignment 0-0
    throttleTimeMs int32
    errorCode int16
    errorMessage ?string = null
    groupEpoch int32
    assignorName ?string = null
    members []struct
        memberId string
        memberEpoch int32
        instanceId ?string = null
        subscribedTopicIds []uuid
        assignorVersion int16
        reason int8
        metadata bytes
        topicPartitions []struct
            topicId uuid
            partitions []int32
    topics []struct
        topicId uuid
        numPartitions int32
InstallAssignment 0-0
    throttleTimeMs int32
    errorCode int16
    errorMessage ?string = null
"""
"""Responses of KIP-848's draft, where they differ from what was shipped."""
