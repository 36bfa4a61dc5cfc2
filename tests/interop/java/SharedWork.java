import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * BOOTSTRAP TOPIC GROUP MODE COUNT: a member of a share group. Mode "explicit" releases the first delivery of
 * every tenth number, rejects every seventh, renews its lock of every eleventh, which the next poll returns
 * again, and accepts the others; "implicit" accepts what it was given with the next poll; "drops" closes with
 * its first records in hand. It prints "accepted N DELIVERIES", "rejected N", "released N", "renewed N" or "held N", and ends after COUNT
 * final records. An acknowledgement that is refused is printed as "refused".
 */
public class SharedWork {
    public static void main(String[] arguments) {
        String mode = arguments[3];
        int left = Integer.parseInt(arguments[4]);
        Set<Integer> renewed = new HashSet<>();
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("max.poll.records", "20");
        settings.put("share.acknowledgement.mode", mode.equals("explicit") ? "explicit" : "implicit");
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.setAcknowledgementCommitCallback((offsets, failure) -> {
                if (failure != null) System.out.println("refused " + offsets + " " + failure);
            });
            consumer.subscribe(List.of(arguments[1]));
            System.out.println("began");
            while (left > 0) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<String, String> record : records) {
                    int number = Integer.parseInt(record.value());
                    int deliveries = record.deliveryCount().orElse((short) 0);
                    if (mode.equals("drops")) {
                        System.out.println("held " + number);
                    } else if (mode.equals("implicit")) {
                        System.out.println("accepted " + number + " " + deliveries);
                        left--;
                    } else if (number % 10 == 0 && deliveries == 1) {
                        consumer.acknowledge(record, AcknowledgeType.RELEASE);
                        System.out.println("released " + number);
                    } else if (number % 7 == 0) {
                        consumer.acknowledge(record, AcknowledgeType.REJECT);
                        System.out.println("rejected " + number);
                        left--;
                    } else if (number % 11 == 0 && renewed.add(number)) {
                        consumer.acknowledge(record, AcknowledgeType.RENEW);
                        System.out.println("renewed " + number);
                    } else {
                        consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                        System.out.println("accepted " + number + " " + deliveries);
                        left--;
                    }
                }
                if (mode.equals("explicit")) consumer.commitSync();
                if (mode.equals("drops") && !records.isEmpty()) break;
            }
        }
        System.out.println("done");
    }
}
