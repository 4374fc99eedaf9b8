package main

import (
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 3

// franz-go as the writer of `kill_broker.py`.
func writeUntilInputEnds() {
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	var both sync.WaitGroup
	both.Go(func() { writePlain(&over) })
	both.Go(func() { writeTransactions(&over) })
	both.Wait()
}

var telling sync.Mutex

func say(words ...any) {
	telling.Lock()
	defer telling.Unlock()
	fmt.Println(words...)
}

func writePlain(over *atomic.Bool) {
	writer := client(kgo.ProducerLinger(2*time.Millisecond), kgo.MaxBufferedRecords(2000))
	var numbers [partitions]int
	for count := 1; !over.Load(); count++ {
		partition := rand.Intn(partitions)
		number := numbers[partition]
		numbers[partition]++
		writer.Produce(ctx, record("plain", int32(partition), strconv.Itoa(number)), func(_ *kgo.Record, err error) {
			if err != nil {
				say("failed", err)
			} else {
				say("acknowledged", partition, number)
			}
		})
		if count%30 == 0 {
			// Some ten thousand records a second: more only take longer to read back.
			time.Sleep(5 * time.Millisecond)
		}
	}
	if err := writer.Flush(ctx); err != nil {
		say("failed", err)
	}
}

func writeTransactions(over *atomic.Bool) {
	writer := transactional("writer", time.Minute)
	for number := 1; !over.Load(); number++ {
		how, told := kgo.TryCommit, "committed"
		if rand.Float64() < 0.2 {
			how, told = kgo.TryAbort, "aborted"
		}
		err := transaction(writer, number, how)
		if err == nil {
			say(told, number)
			continue
		}
		fmt.Fprintln(os.Stderr, number, err)
		say("unknown", number)
		writer.Close()
		// Whoever comes next takes the id over, and settles what was left open.
		writer = transactional("writer", time.Minute)
	}
	// Settles it: the first record makes a client ask for its producer id.
	writer.Close()
	last := transactional("writer", time.Minute)
	for transaction(last, 0, kgo.TryAbort) != nil {
		last.Close()
		last = transactional("writer", time.Minute)
	}
	last.Close()
}

func transaction(writer *kgo.Client, number int, how kgo.TransactionEndTry) error {
	if err := writer.BeginTransaction(); err != nil {
		return err
	}
	var failed atomic.Pointer[error]
	for partition := range int32(partitions) {
		for i := range 3 {
			writer.Produce(ctx, record("transactional", partition, fmt.Sprint(number, " ", i)), func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
				}
			})
		}
	}
	if err := writer.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return writer.EndTransaction(ctx, how)
}
