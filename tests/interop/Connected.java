// A producer, a member of a group and an admin client that stay connected while brokers die:
//
//     java -cp "LIBS/*" Connected.java CLIENT.PROPERTIES TOPIC GROUP PARTITIONS
//
// All act once for each number that is read from standard input: the producer has a record acknowledged in
// every partition (its key is "java producer"), the member reads it and commits, the admin client creates a topic and asks for the group's
// offsets. For each of them one line is printed: its name, the number, and the milliseconds that it took.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;

public class Connected {
    private static String topic;
    private static String group;
    private static int partitions;
    private static final Map<Integer, Integer> read = new HashMap<>();
    private static int committed = -1;

    public static void main(String[] args) throws Exception {
        topic = args[1];
        group = args[2];
        partitions = Integer.parseInt(args[3]);
        Properties common = Utils.loadProps(args[0]);
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(common, new StringSerializer(), new StringSerializer());
        Admin admin = Admin.create(common);
        Thread member = new Thread(() -> poll(common));
        member.setDaemon(true);
        member.start();
        ExecutorService threads = Executors.newFixedThreadPool(3);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int number = Integer.parseInt(line.trim());
            long began = System.nanoTime();
            List<Future<?>> acts = new ArrayList<>();
            acts.add(threads.submit(() -> timed("producer", number, began, () -> produce(producer, number))));
            acts.add(threads.submit(() -> timed("member", number, began, () -> awaitCommit(number))));
            acts.add(threads.submit(() -> timed("admin", number, began, () -> administer(admin, number))));
            for (Future<?> act : acts) {
                act.get();
            }
            System.out.println("done " + number);
        }
        System.exit(0);
    }

    private interface Act {
        void run() throws Exception;
    }

    private static void timed(String name, int number, long began, Act act) {
        try {
            act.run();
        } catch (Exception error) {
            System.out.println("failed " + name + " " + number + " " + error);
            return;
        }
        System.out.println(name + " " + number + " " + (System.nanoTime() - began) / 1_000_000);
    }

    private static void produce(KafkaProducer<String, String> producer, int number) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            sent.add(producer.send(new ProducerRecord<>(topic, partition, "java producer", "" + number)));
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
    }

    private static void administer(Admin admin, int number) throws Exception {
        NewTopic created = new NewTopic(group + "-" + number, 1, (short) 2);
        admin.createTopics(List.of(created), new CreateTopicsOptions().timeoutMs(20_000)).all().get();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private static void awaitCommit(int number) throws Exception {
        synchronized (read) {
            while (committed < number) {
                read.wait(60_000);
            }
        }
    }

    private static void poll(Properties common) {
        Properties settings = new Properties();
        settings.putAll(common);
        settings.putAll(Map.of(
                "group.id", group, "enable.auto.commit", "false", "auto.offset.reset", "earliest"));
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        while (true) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(20))) {
                read.merge(record.partition(), Integer.parseInt(record.value()), Math::max);
            }
            int least = read.size() < partitions ? -1 : read.values().stream().min(Integer::compare).get();
            if (least > committed) {
                consumer.commitSync();
                synchronized (read) {
                    committed = least;
                    read.notifyAll();
                }
            }
        }
    }
}
