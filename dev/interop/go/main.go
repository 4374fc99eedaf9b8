// franz-go, the client in Go: transactions of protocol 2, classic and new groups, a wide administration.
//
// usage: stories ADDRESS [STORY…] | stories ADDRESS --child PART… | stories --writer ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const transactionTimeout = 2 * time.Second

var admin *kadm.Client

func client(options ...kgo.Opt) *kgo.Client {
	base := []kgo.Opt{kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(200 * time.Millisecond)}
	return must(kgo.NewClient(append(base, options...)...))
}

func topic(name string, partitions int32) string {
	full := name + "-" + run
	must(admin.CreateTopic(ctx, partitions, 1, nil, full))
	return full
}

func record(topic string, partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
}

func write(topic string, partition int32, values ...string) {
	plain := client()
	defer plain.Close()
	for _, value := range values {
		check(plain.ProduceSync(ctx, record(topic, partition, value)).FirstErr())
	}
}

func transactional(id string, timeout time.Duration) *kgo.Client {
	return client(kgo.TransactionalID(id), kgo.TransactionTimeout(timeout))
}

func end(producer *kgo.Client, how kgo.TransactionEndTry) {
	check(producer.Flush(ctx))
	check(producer.EndTransaction(ctx, how))
}

// Every record up to the end that the isolation can see, by partition. Control records show how far a reader has come.
func read(topic string, partitions int32, isolation kgo.IsolationLevel) [][]*kgo.Record {
	at := map[int32]kgo.Offset{}
	for partition := range partitions {
		at[partition] = kgo.NewOffset().At(0)
	}
	reader := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	defer reader.Close()
	list := admin.ListEndOffsets
	if isolation == kgo.ReadCommitted() {
		list = admin.ListCommittedOffsets
	}
	ends, found, reached := must(list(ctx, topic)), make([][]*kgo.Record, partitions), make([]int64, partitions)
	until("the end of "+topic, func() (bool, any) {
		done := true
		for partition := range partitions {
			last, _ := ends.Lookup(topic, partition)
			done = done && reached[partition] >= last.Offset
		}
		if done {
			return true, nil
		}
		fetches := reader.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(one *kgo.Record) {
			reached[one.Partition] = one.Offset + 1
			if !one.Attrs.IsControl() {
				found[one.Partition] = append(found[one.Partition], one)
			}
		})
		return false, reached
	})
	return found
}

func values(topic string, isolation kgo.IsolationLevel) []string {
	found := []string{}
	for _, one := range read(topic, 1, isolation)[0] {
		found = append(found, string(one.Value))
	}
	return found
}

// Apache Kafka answers a commit before its markers are written; a reader may have to look again.
func eventually(topic string, wanted ...string) {
	until("the records", func() (bool, any) {
		found := values(topic, kgo.ReadCommitted())
		return slices.Equal(found, wanted), found
	})
}

func numbers(from, to, step int) (all []string) {
	for i := from; i < to; i += step {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

func idempotentRecords() {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		topic := topic("plain-"+name, 3)
		plain := client(kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(2*time.Millisecond))
		for i := range 900 {
			one := record(topic, int32(i%3), strconv.Itoa(i))
			one.Key, one.Timestamp = []byte("key"), time.UnixMilli(1_600_000_000_000+int64(i))
			one.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: nil}}
			plain.Produce(ctx, one, func(_ *kgo.Record, err error) { check(err) })
		}
		check(plain.Flush(ctx))
		plain.Close()
		for partition, records := range read(topic, 3, kgo.ReadCommitted()) {
			equal(len(records), 300, name, partition)
			for at, one := range records {
				i := partition + 3*at
				equal([]any{string(one.Value), one.Offset, string(one.Key), one.Timestamp.UnixMilli(), one.Headers},
					[]any{strconv.Itoa(i), int64(at), "key", 1_600_000_000_000 + int64(i), []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: nil}}}, name)
			}
		}
	}
}

func commitsAndAborts() {
	topic := topic("transactions", 3)
	writer := transactional("commit-and-abort-"+run, time.Minute)
	defer writer.Close()
	wanted := make([][]string, 3)
	for round, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		check(writer.BeginTransaction())
		for i := range 12 {
			value := fmt.Sprint(round, " ", i)
			writer.Produce(ctx, record(topic, int32(i%3), value), nil)
			if how == kgo.TryCommit {
				wanted[i%3] = append(wanted[i%3], value)
			}
		}
		end(writer, how)
	}
	// An empty transaction is one too.
	check(writer.BeginTransaction())
	end(writer, kgo.TryCommit)
	until("what was committed", func() (bool, any) {
		found := make([][]string, 3)
		for partition, records := range read(topic, 3, kgo.ReadCommitted()) {
			for _, one := range records {
				found[partition] = append(found[partition], string(one.Value))
			}
		}
		return reflectEqual(found, wanted), found
	})
	for _, records := range read(topic, 3, kgo.ReadUncommitted()) {
		equal(len(records), 20)
	}
}

func reflectEqual(one, other [][]string) bool {
	return slices.EqualFunc(one, other, func(a, b []string) bool { return slices.Equal(a, b) })
}

func bothIsolations() {
	topic := topic("open", 1)
	writer := transactional("open-"+run, time.Minute)
	defer writer.Close()
	check(writer.BeginTransaction())
	check(writer.ProduceSync(ctx, record(topic, 0, "open")).FirstErr())
	write(topic, 0, "after")
	equal(values(topic, kgo.ReadCommitted()), []string{}, "read_committed, while a transaction is open")
	equal(values(topic, kgo.ReadUncommitted()), []string{"open", "after"})
	end(writer, kgo.TryCommit)
	eventually(topic, "open", "after")
}

func committed(group, topic string, partition int32) int64 {
	answer := must(admin.FetchOffsets(ctx, group))
	at, there := answer.Lookup(topic, partition)
	if !there {
		return -1
	}
	check(at.Err)
	return at.At
}

func sentOffsets() {
	source, sink, group := topic("source", 1), topic("sink", 1), "loop-"+run
	write(source, 0, numbers(0, 30, 1)...)
	session := must(kgo.NewGroupTransactSession(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(group),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
	defer session.Close()
	wanted := []string{}
	for _, step := range []struct {
		how  kgo.TransactionEndTry
		from int
		then int64
	}{{kgo.TryCommit, 0, 10}, {kgo.TryAbort, 10, 10}, {kgo.TryCommit, 10, 20}} {
		check(session.Begin())
		taken := []string{}
		until("ten records", func() (bool, any) {
			fetches := session.PollRecords(ctx, 10-len(taken))
			check(fetches.Err())
			fetches.EachRecord(func(one *kgo.Record) { taken = append(taken, string(one.Value)) })
			return len(taken) == 10, taken
		})
		// After an abort it reads again what it had read.
		equal(taken, numbers(step.from, step.from+10, 1))
		for _, value := range taken {
			value = fmt.Sprint(step.how == kgo.TryCommit, " ", value)
			check(session.ProduceSync(ctx, record(sink, 0, value)).FirstErr())
			if step.how == kgo.TryCommit {
				wanted = append(wanted, value)
			}
		}
		done := must(session.End(ctx, step.how))
		equal(done, step.how == kgo.TryCommit)
		until("the offset", func() (bool, any) { at := committed(group, source, 0); return at == step.then, at })
	}
	eventually(sink, wanted...)
}

func zombie() {
	topic, id := topic("fence", 1), "fence-"+run
	old := transactional(id, time.Minute)
	defer old.Close()
	check(old.BeginTransaction())
	check(old.ProduceSync(ctx, record(topic, 0, "of the zombie")).FirstErr())
	heir := transactional(id, time.Minute)
	defer heir.Close()
	check(heir.BeginTransaction())
	check(heir.ProduceSync(ctx, record(topic, 0, "of its successor")).FirstErr())
	end(heir, kgo.TryCommit)
	err := old.ProduceSync(ctx, record(topic, 0, "late")).FirstErr()
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		panic(fmt.Errorf("the zombie's record: %v", err))
	}
	if err := old.EndTransaction(ctx, kgo.TryCommit); err == nil {
		panic("the zombie committed")
	}
	check(heir.BeginTransaction())
	check(heir.ProduceSync(ctx, record(topic, 0, "and goes on")).FirstErr())
	end(heir, kgo.TryCommit)
	eventually(topic, "of its successor", "and goes on")
}

func writesAndWaits(id, topic string) {
	writer := transactional(id, transactionTimeout)
	check(writer.BeginTransaction())
	for i := range 3 {
		check(writer.ProduceSync(ctx, record(topic, 0, fmt.Sprint("of the killed ", i))).FirstErr())
	}
}

func killedClient() {
	topic, id := topic("killed", 1), "killed-"+run
	victim("writes-and-waits", id, topic)()
	write(topic, 0, "after")
	equal(values(topic, kgo.ReadCommitted()), []string{}, "while it is open")
	eventually(topic, "after")
	equal(len(values(topic, kgo.ReadUncommitted())), 4)
	heir := transactional(id, time.Minute)
	defer heir.Close()
	check(heir.BeginTransaction())
	check(heir.ProduceSync(ctx, record(topic, 0, "of its heir")).FirstErr())
	end(heir, kgo.TryCommit)
	eventually(topic, "after", "of its heir")
}

// A member that polls on its own, commits what it read, and counts what was assigned to it.
type member struct {
	client *kgo.Client
	mutex  sync.Mutex
	owned  map[int32]bool
	joins  int
	found  []string
}

func join(group, topic string, options ...kgo.Opt) *member {
	made := &member{owned: map[int32]bool{}}
	lose := func(_ ctxType, _ *kgo.Client, lost map[string][]int32) {
		made.change(func() {
			for _, partition := range lost[topic] {
				delete(made.owned, partition)
			}
		})
	}
	base := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ ctxType, _ *kgo.Client, got map[string][]int32) {
			made.change(func() {
				made.joins++
				for _, partition := range got[topic] {
					made.owned[partition] = true
				}
			})
		}),
		kgo.OnPartitionsRevoked(lose), kgo.OnPartitionsLost(lose),
	}
	made.client = client(append(base, options...)...)
	go func() {
		for {
			fetches := made.client.PollFetches(ctx)
			if fetches.IsClientClosed() {
				return
			}
			if fetches.NumRecords() == 0 {
				continue
			}
			// Refused where a rebalance took the partitions: then another member reads them again.
			if err := made.client.CommitUncommittedOffsets(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "commit:", err)
			}
			made.change(func() {
				fetches.EachRecord(func(one *kgo.Record) { made.found = append(made.found, string(one.Value)) })
			})
		}
	}()
	return made
}

func (one *member) change(how func()) {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	how()
}

func (one *member) share() (all []int) {
	one.change(func() {
		for partition := range one.owned {
			all = append(all, int(partition))
		}
	})
	slices.Sort(all)
	return all
}

func (one *member) read() (found []string) {
	one.change(func() { found = slices.Clone(one.found) })
	return found
}

func untilShares(what string, wanted func(shares [][]int) bool, members ...*member) {
	until(what, func() (bool, any) {
		shares := make([][]int, len(members))
		for at, one := range members {
			shares[at] = one.share()
		}
		return wanted(shares), shares
	})
}

func twoEach(shares [][]int) bool {
	return len(shares[0]) == 2 && len(shares[1]) == 2
}

func shareAndTakeOver(group string, options ...kgo.Opt) {
	topic := topic(group, 4)
	group += "-" + run
	for partition := range 4 {
		write(topic, int32(partition), numbers(partition, 100, 4)...)
	}
	one, other := join(group, topic, options...), join(group, topic, options...)
	untilShares("two each", twoEach, one, other)
	all := append(one.share(), other.share()...)
	slices.Sort(all)
	equal(all, []int{0, 1, 2, 3})
	until("all of it", func() (bool, any) {
		found := append(one.read(), other.read()...)
		slices.Sort(found)
		found = slices.Compact(found)
		return len(found) == 100, len(found)
	})
	one.client.Close()
	untilShares("all four", func(shares [][]int) bool { return len(shares[0]) == 4 }, other)
	for partition := range 4 {
		write(topic, int32(partition), strconv.Itoa(100+partition))
	}
	until("what came later", func() (bool, any) {
		found := other.read()
		return !slices.ContainsFunc(numbers(100, 104, 1), func(late string) bool { return !slices.Contains(found, late) }), found
	})
	for partition := range 4 {
		until("its offset", func() (bool, any) { at := committed(group, topic, int32(partition)); return at == 26, at })
	}
	other.client.Close()
}

func killedMember() {
	topic, group := topic("killed-member", 2), "killed-member-"+run
	kill := victim("joins-and-waits", group, topic)
	heir := join(group, topic)
	defer heir.client.Close()
	untilShares("one of two", func(shares [][]int) bool { return len(shares[0]) == 1 }, heir)
	kill()
	untilShares("both", func(shares [][]int) bool { return len(shares[0]) == 2 }, heir)
}

func staticMember() {
	topic, group := topic("static", 4), "static-"+run
	stays, leaves := join(group, topic, kgo.InstanceID("stays")), join(group, topic, kgo.InstanceID("leaves"))
	defer stays.client.Close()
	untilShares("two each", twoEach, stays, leaves)
	wanted, joins := leaves.share(), stays.joins
	// A static member does not leave when it closes: it is expected back.
	leaves.client.Close()
	back := join(group, topic, kgo.InstanceID("leaves"))
	defer back.client.Close()
	untilShares("its partitions", func(shares [][]int) bool { return slices.Equal(shares[0], wanted) }, back)
	equal(stays.joins, joins, "rebalances of who stays")
	described := must(admin.DescribeGroups(ctx, group))[group]
	instances := []string{}
	for _, one := range described.Members {
		instances = append(instances, *one.InstanceID)
	}
	slices.Sort(instances)
	equal([]any{described.State, instances}, []any{"Stable", []string{"leaves", "stays"}})
}

func newProtocol() {
	group := "consumer-protocol"
	shareAndTakeOver(group, kgo.ServerSideBalancer())
	// A client that finds no such groups falls back to the classic ones.
	described := must(admin.DescribeConsumerGroups(ctx, group+"-"+run))[group+"-"+run]
	check(described.Err)
	equal(described.State, "Empty")
}

type ctxType = context.Context
