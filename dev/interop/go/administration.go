package main

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func offsetsOfAGroup() {
	topic, group := topic("offsets", 2), "offsets-"+run
	at := kadm.Offsets{}
	at.Add(kadm.Offset{Topic: topic, Partition: 0, At: 7, LeaderEpoch: -1})
	at.Add(kadm.Offset{Topic: topic, Partition: 1, At: 9, LeaderEpoch: -1, Metadata: "with a note"})
	check(admin.CommitAllOffsets(ctx, group, at))
	answer := must(admin.FetchOffsets(ctx, group))
	one, _ := answer.Lookup(topic, 1)
	equal([]any{committed(group, topic, 0), one.At, one.Metadata}, []any{int64(7), int64(9), "with a note"})
	equal(must(admin.DescribeGroups(ctx, group))[group].State, "Empty")
	deleted := must(admin.DeleteOffsets(ctx, group, kadm.TopicsSet{topic: {1: {}}}))
	check(deleted.Error())
	equal(committed(group, topic, 1), int64(-1))
	equal(slices.Contains(must(admin.ListGroups(ctx)).Groups(), group), true)
	check(must(admin.DeleteGroup(ctx, group)).Err)
	equal(slices.Contains(must(admin.ListGroups(ctx)).Groups(), group), false)
	if _, err := admin.DeleteGroup(ctx, group); !errors.Is(err, kerr.GroupIDNotFound) {
		panic(err)
	}
}

func lifeOfATopic() {
	name := "admin-" + run
	check(must(admin.CreateTopics(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("100000")}, name)).Error())
	for _, wrong := range []struct {
		name              string
		partitions        int32
		replicationFactor int16
		config            map[string]*string
		wanted            error
	}{
		{name, 1, 1, nil, kerr.TopicAlreadyExists},
		{"no/slash", 1, 1, nil, kerr.InvalidTopicException},
		{"many-" + run, 1, 3, nil, kerr.InvalidReplicationFactor},
		{"none-" + run, 0, 1, nil, kerr.InvalidPartitions},
		{"odd-" + run, 1, 1, map[string]*string{"no.such.key": kadm.StringPtr("1")}, kerr.InvalidConfig},
	} {
		answer := must(admin.CreateTopics(ctx, wrong.partitions, wrong.replicationFactor, wrong.config, wrong.name))
		if err := answer[wrong.name].Err; !errors.Is(err, wrong.wanted) {
			panic(errors.Join(errors.New(wrong.name), err))
		}
	}
	config := func(key string) string {
		answer := must(must(admin.DescribeTopicConfigs(ctx, name)).On(name, nil))
		for _, one := range answer.Configs {
			if one.Key == key {
				return one.MaybeValue()
			}
		}
		return "not there"
	}
	until("its config", func() (bool, any) { return config("retention.ms") == "100000", config("retention.ms") })
	changes := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("200000")},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")},
	}
	must(must(admin.AlterTopicConfigs(ctx, changes, name)).On(name, func(answer *kadm.AlterConfigsResponse) error { return answer.Err }))
	until("the new values", func() (bool, any) {
		now := []string{config("retention.ms"), config("cleanup.policy")}
		return slices.Equal(now, []string{"200000", "delete,compact"}), now
	})
	check(must(admin.CreatePartitions(ctx, 2, name)).Error())
	until("four partitions", func() (bool, any) {
		count := len(must(admin.ListTopics(ctx, name))[name].Partitions)
		return count == 4, count
	})
	check(must(admin.DeleteTopics(ctx, name)).Error())
	until("it is gone", func() (bool, any) { return !must(admin.ListTopics(ctx)).Has(name), nil })
	equal(len(must(admin.BrokerMetadata(ctx)).Brokers), 1)
}

func recordsOfATopic() {
	topic := topic("records", 1)
	plain := client()
	defer plain.Close()
	for i := range 20 {
		one := record(topic, 0, strconv.Itoa(i))
		one.Timestamp = time.UnixMilli(1_600_000_000_000 + 1000*int64(i))
		check(plain.ProduceSync(ctx, one).FirstErr())
	}
	find := func(list func() (kadm.ListedOffsets, error)) int64 {
		at, _ := must(list()).Lookup(topic, 0)
		check(at.Err)
		return at.Offset
	}
	for timestamp, offset := range map[int64]int64{1_600_000_000_000: 0, 1_600_000_003_500: 4, 1_600_000_019_000: 19, 1: 0} {
		equal(find(func() (kadm.ListedOffsets, error) { return admin.ListOffsetsAfterMilli(ctx, timestamp, topic) }), offset, timestamp)
	}
	before := kadm.Offsets{}
	before.Add(kadm.Offset{Topic: topic, Partition: 0, At: 12})
	deleted := must(admin.DeleteRecords(ctx, before))
	low, _ := deleted.Lookup(topic, 0)
	equal([]any{low.Err, low.LowWatermark}, []any{nil, int64(12)})
	equal(find(func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, topic) }), int64(12))
	equal(find(func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, topic) }), int64(20))
}

func inspection() {
	topic, id := topic("inspected", 1), "inspected-"+run
	writer := transactional(id, time.Minute)
	defer writer.Close()
	check(writer.BeginTransaction())
	check(writer.ProduceSync(ctx, record(topic, 0, "open")).FirstErr())
	described := must(admin.DescribeTransactions(ctx, id))[id]
	check(described.Err)
	equal([]any{described.State, described.TimeoutMillis, described.Topics}, []any{"Ongoing", int32(60000), kadm.TopicsSet{topic: {0: {}}}})
	listed := must(admin.ListTransactions(ctx, nil, []string{"Ongoing"}))[id]
	equal([]any{listed.ProducerID, listed.State}, []any{described.ProducerID, "Ongoing"})
	var active []kadm.DescribedProducer
	must(admin.DescribeProducers(ctx, kadm.TopicsSet{topic: {0: {}}})).EachProducer(func(one kadm.DescribedProducer) { active = append(active, one) })
	equal(len(active), 1)
	equal([]any{active[0].ProducerID, active[0].ProducerEpoch, active[0].LastSequence, active[0].CurrentTxnStartOffset},
		[]any{described.ProducerID, described.ProducerEpoch, int32(0), int64(0)})
	end(writer, kgo.TryAbort)
	until("its end", func() (bool, any) {
		state := must(admin.DescribeTransactions(ctx, id))[id].State
		return state == "CompleteAbort", state
	})
}

func logFolders() {
	topic := topic("folders", 2)
	write(topic, 0, "a record")
	var sizes []bool
	all := must(admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{topic: {0: {}, 1: {}}}))
	all.Each(func(folder kadm.DescribedLogDir) {
		check(folder.Err)
		for _, partition := range folder.Topics[topic] {
			sizes = append(sizes, partition.Size > 0)
		}
	})
	slices.SortFunc(sizes, func(one, other bool) int { return map[bool]int{true: -1, false: 1}[one] })
	equal(sizes, []bool{true, false})
}

var stories = []story{
	{"idempotent_records_come_back_once_in_order_and_whole_in_every_codec", idempotentRecords},
	{"committed_transactions_are_seen_whole_and_aborted_ones_never", commitsAndAborts},
	{"both_isolations_read_side_by_side", bothIsolations},
	{"sent_offsets_commit_and_abort_with_their_transaction", sentOffsets},
	{"a_zombie_is_fenced_and_leaves_nothing", zombie},
	{"a_killed_client_s_transaction_is_aborted_when_its_time_is_up", killedClient},
	{"members_share_and_whoever_stays_takes_over", func() { shareAndTakeOver("cooperative") }},
	{"eager_members_share_and_whoever_stays_takes_over", func() { shareAndTakeOver("eager", kgo.Balancers(kgo.RangeBalancer())) }},
	{"members_of_the_new_protocol_share_and_take_over", newProtocol},
	{"a_killed_member_s_partitions_move_when_its_session_ends", killedMember},
	{"a_static_member_comes_back_to_its_partitions_without_a_rebalance", staticMember},
	{"committed_offsets_can_be_listed_and_deleted_with_their_group", offsetsOfAGroup},
	{"topics_are_made_described_altered_grown_and_deleted", lifeOfATopic},
	{"records_are_found_by_time_and_deleted", recordsOfATopic},
	{"an_open_transaction_can_be_listed_described_and_aborted", inspection},
	{"log_folders_are_described", logFolders},
}

func main() {
	if address == "--writer" {
		address = os.Args[2]
		writeUntilInputEnds()
		return
	}
	admin = kadm.NewClient(client())
	if len(os.Args) > 2 && os.Args[2] == "--child" {
		switch os.Args[3] {
		case "writes-and-waits":
			writesAndWaits(os.Args[4], os.Args[5])
		case "joins-and-waits":
			one := join(os.Args[4], os.Args[5])
			untilShares("a share", func(shares [][]int) bool { return len(shares[0]) > 0 }, one)
		}
		os.Stdout.WriteString("ready\n")
		select {}
	}
	tellAll(stories, os.Args[2:])
}
