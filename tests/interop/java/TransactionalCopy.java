// Reads one topic and writes it to another, exactly once, with Kafka's own consumer and producer:
//
//     java -cp "LIBS/*" TransactionalCopy.java BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID TOTAL
//
// Every fifth transaction is aborted. Ends when the group has committed TOTAL records; prints a line for
// each transaction that was committed.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class TransactionalCopy {
    static String[] arguments;

    public static void main(String[] given) {
        arguments = given;
        long total = Long.parseLong(given[5]);
        KafkaConsumer<byte[], byte[]> consumer = consumer();
        consumer.subscribe(List.of(given[1]));
        KafkaProducer<byte[], byte[]> producer = producer();
        for (int turn = 1; ; turn++) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
            if (records.isEmpty()) {
                if (committed(consumer) >= total) {
                    break;
                }
                continue;
            }
            try {
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.send(new ProducerRecord<>(given[2], record.partition(), record.key(), record.value()));
                }
                if (turn % 5 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                    rewind(consumer);
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (TopicPartition partition : records.partitions()) {
                    List<ConsumerRecord<byte[], byte[]>> some = records.records(partition);
                    offsets.put(partition, new OffsetAndMetadata(some.get(some.size() - 1).offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                System.out.println("committed " + records.count());
            } catch (ProducerFencedException fenced) {
                System.out.println("fenced");
                System.exit(3);
            } catch (KafkaException error) {
                System.out.println("failed: " + error);
                try {
                    producer.abortTransaction();
                } catch (KafkaException worse) {
                    System.out.println("not aborted: " + worse);
                    producer.close(Duration.ZERO);
                    producer = producer();
                }
                rewind(consumer);
            }
        }
        producer.close();
        consumer.close();
        System.out.println("done");
    }

    static long committed(KafkaConsumer<byte[], byte[]> consumer) {
        long sum = 0;
        for (OffsetAndMetadata found : consumer.committed(consumer.assignment()).values()) {
            sum += found == null ? 0 : found.offset();
        }
        return sum;
    }

    static void rewind(KafkaConsumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata at = found.get(partition);
            consumer.seek(partition, at == null ? 0 : at.offset());
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[3]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", "100");
        properties.put("session.timeout.ms", "6000");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static KafkaProducer<byte[], byte[]> producer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("transactional.id", arguments[4]);
        properties.put("transaction.timeout.ms", "20000");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }
}
