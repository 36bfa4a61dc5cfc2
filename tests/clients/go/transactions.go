// Command transactions writes one transaction after the other without a pause, every third one aborted:
//
//	transactions BOOTSTRAP TOPIC PARTITIONS TRANSACTIONAL_ID COUNT
//
// A transaction has one record in each partition, whose value is the transaction's number. The program prints
// "committed N" or "aborted N" behind each, and ends with status 1 at the first error.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 5 {
		return fmt.Errorf("5 arguments are needed, not %d", len(arguments))
	}
	partitions, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(arguments[4])
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(arguments[0], ",")...),
		kgo.TransactionalID(arguments[3]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for number := range count {
		commit := kgo.TransactionEndTry(number%3 != 2)
		if err := transaction(client, arguments[1], partitions, number, commit); err != nil {
			return fmt.Errorf("transaction %d: %w", number, err)
		}
		if commit {
			fmt.Println("committed", number)
		} else {
			fmt.Println("aborted", number)
		}
	}
	return nil
}

func transaction(client *kgo.Client, topic string, partitions, number int, commit kgo.TransactionEndTry) error {
	ctx := context.Background()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	records := make([]*kgo.Record, partitions)
	for partition := range records {
		records[partition] = &kgo.Record{
			Topic: topic, Partition: int32(partition), Value: []byte(strconv.Itoa(number)),
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, commit)
}
