import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * BOOTSTRAP TOPIC GROUP MODE SECONDS: a member of a share group that brings records to their dead letters. It
 * rejects every third number ("rejects"), releases every third number each time ("releases"), or holds what it
 * is given for longer than a lock of one second ("holds"); it accepts the others. It prints "given N
 * DELIVERIES" for each delivery, and ends after SECONDS without a record.
 */
public class DeadLetterWork {
    public static void main(String[] arguments) throws Exception {
        String mode = arguments[3];
        long patience = Long.parseLong(arguments[4]) * 1000;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            System.out.println("began");
            long last = System.currentTimeMillis();
            boolean any = false;
            while (!any || System.currentTimeMillis() - last < patience) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<String, String> record : records) {
                    any = true;
                    int number = Integer.parseInt(record.value());
                    System.out.println("given " + number + " " + record.deliveryCount().orElse((short) 0));
                    boolean marked = number % 3 == 0;
                    AcknowledgeType type = AcknowledgeType.ACCEPT;
                    if (mode.equals("rejects") && marked) type = AcknowledgeType.REJECT;
                    if (mode.equals("releases") && marked) type = AcknowledgeType.RELEASE;
                    consumer.acknowledge(record, type);
                }
                if (mode.equals("holds") && !records.isEmpty()) Thread.sleep(2500);
                if (!records.isEmpty()) last = System.currentTimeMillis();
                consumer.commitSync();
            }
        }
        System.out.println("done");
    }
}
