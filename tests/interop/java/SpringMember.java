// A listener container of Spring Kafka copies a topic; it commits each record after the copy is acknowledged:
//
//     java -cp "PROGRAMS:LIBS" SpringMember.java BOOTSTRAP SOURCE TARGET GROUP
//
// Runs until it is killed.

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.util.backoff.FixedBackOff;

public class SpringMember {
    public static void main(String[] given) throws Exception {
        KafkaTemplate<byte[], byte[]> template = new KafkaTemplate<>(producers(given[0]));
        ContainerProperties properties = new ContainerProperties(given[1]);
        properties.setGroupId(given[3]);
        properties.setAckMode(ContainerProperties.AckMode.RECORD);
        properties.setMessageListener((MessageListener<byte[], byte[]>) record ->
            template.send(given[2], record.value()).join());
        ConcurrentMessageListenerContainer<byte[], byte[]> container =
            new ConcurrentMessageListenerContainer<>(consumers(given[0]), properties);
        container.setConcurrency(3);
        // A record whose copy fails comes again until it is copied.
        container.setCommonErrorHandler(
            new DefaultErrorHandler(new FixedBackOff(100, FixedBackOff.UNLIMITED_ATTEMPTS)));
        container.start();
        Thread.currentThread().join();
    }

    static DefaultKafkaProducerFactory<byte[], byte[]> producers(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", ByteArraySerializer.class);
        settings.put("value.serializer", ByteArraySerializer.class);
        return new DefaultKafkaProducerFactory<>(settings);
    }

    static DefaultKafkaConsumerFactory<byte[], byte[]> consumers(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "50");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        return new DefaultKafkaConsumerFactory<>(settings);
    }
}
