import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * BOOTSTRAP TOPIC PARTITIONS TRANSACTIONAL_ID COUNT: one transaction after the other without a pause, each with
 * its number in every partition. Every third one is aborted before its writes are answered. It prints
 * "committed N" or "aborted N" behind each, and ends with status 1 at the first error.
 */
public class BackToBack {
    public static void main(String[] arguments) {
        int partitions = Integer.parseInt(arguments[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[3]);
        settings.put("linger.ms", "0");
        int number = 0;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (; number < Integer.parseInt(arguments[4]); number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < partitions; partition++)
                    producer.send(new ProducerRecord<>(arguments[1], partition, null, "" + number));
                if (number % 3 == 2) {
                    producer.abortTransaction();
                    System.out.println("aborted " + number);
                } else {
                    producer.commitTransaction();
                    System.out.println("committed " + number);
                }
            }
            System.out.println("done");
        } catch (Exception failure) {
            System.out.println("failed in " + number + ": " + failure);
            System.exit(1);
        }
    }
}
