import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints every configuration key of Kafka's clients, for src/barnabas/pipeline/option_names.py. */
public class KafkaClientKeys {
    public static void main(String[] arguments) {
        TreeSet<String> keys = new TreeSet<>();
        keys.addAll(ProducerConfig.configNames());
        keys.addAll(ConsumerConfig.configNames());
        keys.addAll(AdminClientConfig.configNames());
        keys.forEach(System.out::println);
    }
}
