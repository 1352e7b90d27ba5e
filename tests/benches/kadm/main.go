// Describes one consumer group with franz-go's kadm: its members, its committed offsets and both ends of its logs.
// The peer that the benchmark of the widest group measures against.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := describe(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func describe(bootstrap, group string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	described, err := admin.DescribeGroups(ctx, group)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		return err
	}
	committed, err := admin.FetchOffsets(ctx, group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return err
	}
	topics := committed.Offsets().TopicsSet().Topics()
	start, err := admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = start.Error()
	}
	if err != nil {
		return err
	}
	end, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = end.Error()
	}
	if err != nil {
		return err
	}

	partitions, lag := 0, int64(0)
	committed.Each(func(offset kadm.OffsetResponse) {
		_, known := start.Lookup(offset.Topic, offset.Partition)
		last, ended := end.Lookup(offset.Topic, offset.Partition)
		if known && ended {
			partitions++
			lag += last.Offset - offset.At
		}
	})
	fmt.Println(partitions, lag)
	return nil
}
