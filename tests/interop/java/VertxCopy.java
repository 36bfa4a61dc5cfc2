import io.vertx.core.Vertx;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.producer.KafkaProducer;
import io.vertx.kafka.client.producer.KafkaProducerRecord;
import java.util.Map;

/** Copies a topic by Vert.x's client: BOOTSTRAP SOURCE TARGET GROUP. */
public class VertxCopy {
    public static void main(String[] words) {
        Vertx vertx = Vertx.vertx();
        String text = "org.apache.kafka.common.serialization.String";
        KafkaProducer<String, String> producer = KafkaProducer.create(vertx, Map.of(
            "bootstrap.servers", words[0], "acks", "all",
            "key.serializer", text + "Serializer", "value.serializer", text + "Serializer"));
        KafkaConsumer<String, String> consumer = KafkaConsumer.create(vertx, Map.of(
            "bootstrap.servers", words[0], "group.id", words[3], "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            "key.deserializer", text + "Deserializer", "value.deserializer", text + "Deserializer"));
        consumer.handler(record -> {
            consumer.pause();
            producer.send(KafkaProducerRecord.create(words[2], record.value()))
                .compose(sent -> consumer.commit())
                .recover(error -> { error.printStackTrace(); return io.vertx.core.Future.succeededFuture(); })
                .onComplete(done -> consumer.resume());
        });
        consumer.subscribe(words[1]).onFailure(Throwable::printStackTrace);
    }
}
