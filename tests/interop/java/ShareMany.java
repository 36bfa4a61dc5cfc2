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
 * that record or has it accepted again. It prints "done ACCEPTED AGAIN TWICE DELIVERIES_MAX REFUSED MS" at the
 * end, and "at ACCEPTED" each second. It ends when all are accepted, or nothing was for SECONDS.
 */
public class ShareMany {
    static final Map<Integer, BitSet> accepted = new HashMap<>();
    static final AtomicBoolean ended = new AtomicBoolean();
    static long count, again, twice, refused, deliveriesMax;
    static long lastMs = System.currentTimeMillis(), firstMs;

    static synchronized void given(ConsumerRecords<byte[], byte[]> records) {
        if (firstMs == 0 && !records.isEmpty()) firstMs = System.currentTimeMillis();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            deliveriesMax = Math.max(deliveriesMax, record.deliveryCount().orElse((short) 0));
            BitSet of = accepted.get(record.partition());
            if (of != null && of.get((int) record.offset())) {
                again++;
                System.out.println("again " + record.partition() + " " + record.offset() + " "
                        + record.deliveryCount());
            }
        }
    }

    static synchronized void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception failure) {
        if (failure != null) {
            offsets.values().forEach(found -> refused += found.size());
            return;
        }
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
        System.out.println("done " + count + " " + again + " " + twice + " " + deliveriesMax + " " + refused
                + " " + tookMs);
        System.exit(0);
    }
}
