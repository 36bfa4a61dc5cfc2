// Copies a topic by one of Go's clients: CLIENT BOOTSTRAP SOURCE TARGET GROUP.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type job struct {
	servers               []string
	source, target, group string
}

func main() {
	work := job{strings.Split(os.Args[2], ","), os.Args[3], os.Args[4], os.Args[5]}
	copies := map[string]func(job) error{
		"franz-go": byFranz, "kafka-go": byKafkaGo, "sarama": bySarama, "Watermill": byWatermill,
	}
	log.Fatal(copies[os.Args[1]](work))
}

func byFranz(work job) error {
	background := context.Background()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(work.servers...),
		kgo.ConsumeTopics(work.source),
		kgo.ConsumerGroup(work.group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.DefaultProduceTopic(work.target),
	)
	if err != nil {
		return err
	}
	for {
		fetched := client.PollRecords(background, 100)
		var records []*kgo.Record
		fetched.EachRecord(func(record *kgo.Record) {
			records = append(records, &kgo.Record{Value: record.Value})
		})
		if err := client.ProduceSync(background, records...).FirstErr(); err != nil {
			return err
		}
		if err := client.CommitUncommittedOffsets(background); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

func byKafkaGo(work job) error {
	background := context.Background()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: work.servers, Topic: work.source, GroupID: work.group, StartOffset: kafka.FirstOffset,
	})
	writer := &kafka.Writer{
		Addr: kafka.TCP(work.servers...), Topic: work.target, RequiredAcks: kafka.RequireAll,
		BatchTimeout: 1_000_000, MaxAttempts: 100,
	}
	for {
		record, err := reader.FetchMessage(background)
		if err != nil {
			return err
		}
		if err := writer.WriteMessages(background, kafka.Message{Value: record.Value}); err != nil {
			return err
		}
		if err := reader.CommitMessages(background, record); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

type copier struct {
	producer sarama.SyncProducer
	target   string
}

func (copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for record := range claim.Messages() {
		value := sarama.ByteEncoder(record.Value)
		if _, _, err := c.producer.SendMessage(&sarama.ProducerMessage{Topic: c.target, Value: value}); err != nil {
			return err
		}
		session.MarkMessage(record, "")
	}
	return nil
}

func bySarama(work job) error {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max = 100
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	producer, err := sarama.NewSyncProducer(work.servers, config)
	if err != nil {
		return err
	}
	members, err := sarama.NewConsumerGroup(work.servers, work.group, config)
	if err != nil {
		return err
	}
	for {
		if err := members.Consume(context.Background(), []string{work.source}, copier{producer, work.target}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

func byWatermill(work job) error {
	logger := watermill.NewStdLogger(false, false)
	reading := wkafka.DefaultSaramaSubscriberConfig()
	reading.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{
		Brokers: work.servers, Unmarshaler: wkafka.DefaultMarshaler{}, ConsumerGroup: work.group,
		OverwriteSaramaConfig: reading,
	}, logger)
	if err != nil {
		return err
	}
	writing := wkafka.DefaultSaramaSyncPublisherConfig()
	writing.Producer.RequiredAcks = sarama.WaitForAll
	publisher, err := wkafka.NewPublisher(wkafka.PublisherConfig{
		Brokers: work.servers, Marshaler: wkafka.DefaultMarshaler{}, OverwriteSaramaConfig: writing,
	}, logger)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return err
	}
	copied := func(m *message.Message) ([]*message.Message, error) {
		return message.Messages{message.NewMessage(watermill.NewUUID(), m.Payload)}, nil
	}
	router.AddHandler("copy", work.source, subscriber, work.target, publisher, copied)
	return router.Run(context.Background())
}
