import java.time.Duration;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * BOOTSTRAP TOPIC GROUP MEMBERS RECORDS SECONDS: members of a share group, each in a thread, accept all records
 * of a topic, and check what they are given: once an acceptance is answered without an error, nobody is given
 * that record or has it accepted again. An acceptance may be refused although it is kept, where the answer was
 * lost: that record is not given again. It prints "done ACCEPTED UNKNOWN NEVER AGAIN TWICE DELIVERIES_MAX MS"
 * at the end: UNKNOWN were given, and no acceptance of theirs was answered without an error; NEVER were not
 * given at all. It prints "at ACCEPTED" each second, and ends when all are accepted, or nothing was given or
 * accepted for SECONDS.
 */
public class ShareMany {
    static final Map<Integer, BitSet> accepted = new HashMap<>();
    static final Map<Integer, BitSet> given = new HashMap<>();
    static final AtomicBoolean ended = new AtomicBoolean();
    static long count, again, twice, deliveriesMax;
    static long lastMs = System.currentTimeMillis(), firstMs;

    static synchronized void given(ConsumerRecords<byte[], byte[]> records) {
        if (firstMs == 0 && !records.isEmpty()) firstMs = System.currentTimeMillis();
        if (!records.isEmpty()) lastMs = System.currentTimeMillis();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            deliveriesMax = Math.max(deliveriesMax, record.deliveryCount().orElse((short) 0));
            given.computeIfAbsent(record.partition(), p -> new BitSet()).set((int) record.offset());
            BitSet of = accepted.get(record.partition());
            if (of != null && of.get((int) record.offset())) {
                again++;
                System.out.println("again " + record.partition() + " " + record.offset() + " "
                        + record.deliveryCount());
            }
        }
    }

    static synchronized void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception failure) {
        if (failure != null) return;
        offsets.forEach((partition, found) -> {
            BitSet of = accepted.computeIfAbsent(partition.partition(), p -> new BitSet());
            for (long offset : found) {
                if (of.get((int) offset)) {
                    twice++;
                    System.out.println("twice " + partition.partition() + " " + offset);
                } else {
                    count++;
                }
                of.set((int) offset);
            }
        });
        lastMs = System.currentTimeMillis();
    }

    static void member(String bootstrap, String topic, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.setAcknowledgementCommitCallback(ShareMany::answered);
            consumer.subscribe(List.of(topic));
            while (!ended.get()) {
                try {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                    given(records);
                    for (ConsumerRecord<byte[], byte[]> record : records) {
                        consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    }
                } catch (RuntimeException failure) {
                    System.out.println("failure " + failure);
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        long wanted = Long.parseLong(arguments[4]);
        long patienceMs = Long.parseLong(arguments[5]) * 1000;
        Thread[] members = new Thread[Integer.parseInt(arguments[3])];
        for (int index = 0; index < members.length; index++) {
            members[index] = new Thread(() -> member(arguments[0], arguments[1], arguments[2]));
            members[index].start();
        }
        System.out.println("began");
        while (true) {
            Thread.sleep(1000);
            synchronized (ShareMany.class) {
                System.out.println("at " + count);
                if (count >= wanted || System.currentTimeMillis() - lastMs > patienceMs) break;
            }
        }
        long tookMs = lastMs - firstMs;
        ended.set(true);
        for (Thread member : members) member.join(30_000);
        long known = 0;
        for (BitSet of : given.values()) known += of.cardinality();
        System.out.println("done " + count + " " + (known - count) + " " + (wanted - known) + " " + again + " "
                + twice + " " + deliveriesMax + " " + tookMs);
        System.exit(0);
    }
}
