import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.kafka.CommitterSettings;
import org.apache.pekko.kafka.ConsumerSettings;
import org.apache.pekko.kafka.ProducerMessage;
import org.apache.pekko.kafka.ProducerSettings;
import org.apache.pekko.kafka.Subscriptions;
import org.apache.pekko.kafka.javadsl.Consumer;
import org.apache.pekko.kafka.javadsl.Producer;
import org.apache.pekko.stream.RestartSettings;
import org.apache.pekko.stream.javadsl.RestartSource;
import org.apache.pekko.stream.javadsl.Sink;

/** Copies a topic by a stream of Pekko's connector: BOOTSTRAP SOURCE TARGET GROUP. */
public class PekkoCopy {
    public static void main(String[] words) {
        ActorSystem system = ActorSystem.create("copy");
        var reading = ConsumerSettings.create(system, new StringDeserializer(), new StringDeserializer())
            .withBootstrapServers(words[0]).withGroupId(words[3])
            .withProperty(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        var writing = ProducerSettings.create(system, new StringSerializer(), new StringSerializer())
            .withBootstrapServers(words[0]).withProperty(ProducerConfig.ACKS_CONFIG, "all");
        var pauses = RestartSettings.create(
            java.time.Duration.ofMillis(100), java.time.Duration.ofSeconds(1), 0.1);
        RestartSource.onFailuresWithBackoff(pauses, () ->
            Consumer.committableSource(reading, Subscriptions.topics(words[1]))
                .map(read -> ProducerMessage.single(
                    new ProducerRecord<String, String>(words[2], read.record().value()),
                    read.committableOffset()))
                .via(Producer.flexiFlow(writing))
                .map(result -> result.passThrough())
                .via(org.apache.pekko.kafka.javadsl.Committer.flow(CommitterSettings.create(system))))
            .runWith(Sink.ignore(), system);
    }
}
