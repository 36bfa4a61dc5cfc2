// Spring Kafka's listener container copies one topic to another; each record is a transaction of its own:
//
//     java -cp "PROGRAMS:LIBS" SpringCopy.java BOOTSTRAP SOURCE TARGET NAME TOTAL
//
// Ends when TOTAL records were copied and committed, and prints how many transactions were rolled back.

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.util.backoff.FixedBackOff;

public class SpringCopy {
    public static void main(String[] given) throws Exception {
        String source = given[1], target = given[2], name = given[3];
        long total = Long.parseLong(given[4]);
        AtomicLong committed = new AtomicLong(), rolledBack = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        DefaultKafkaProducerFactory<byte[], byte[]> producers = producers(given[0], name);
        KafkaTemplate<byte[], byte[]> template = new KafkaTemplate<>(producers);
        ContainerProperties properties = new ContainerProperties(source);
        properties.setGroupId(name);
        KafkaTransactionManager<byte[], byte[]> manager = new KafkaTransactionManager<>(producers);
        manager.setTransactionSynchronization(KafkaTransactionManager.SYNCHRONIZATION_ALWAYS);
        properties.setKafkaAwareTransactionManager(manager);
        properties.setMessageListener((MessageListener<byte[], byte[]>) record -> {
            TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
                @Override
                public void afterCompletion(int status) {
                    if (status != STATUS_COMMITTED) {
                        System.err.println("rolled back " + rolledBack.incrementAndGet());
                    } else if (committed.incrementAndGet() >= total) {
                        done.countDown();
                    }
                }
            });
            template.send(target, record.partition(), record.key(), record.value());
        });
        ConcurrentMessageListenerContainer<byte[], byte[]> container =
            new ConcurrentMessageListenerContainer<>(consumers(given[0]), properties);
        container.setConcurrency(3);
        // A record that was rolled back comes again until it is copied.
        container.setAfterRollbackProcessor(
            new DefaultAfterRollbackProcessor<>(new FixedBackOff(100, FixedBackOff.UNLIMITED_ATTEMPTS)));
        container.start();
        done.await();
        container.stop();
        producers.destroy();
        System.out.println("rolled back " + rolledBack.get());
    }

    static DefaultKafkaProducerFactory<byte[], byte[]> producers(String bootstrap, String name) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transaction.timeout.ms", "20000");
        settings.put("key.serializer", ByteArraySerializer.class);
        settings.put("value.serializer", ByteArraySerializer.class);
        DefaultKafkaProducerFactory<byte[], byte[]> producers = new DefaultKafkaProducerFactory<>(settings);
        producers.setTransactionIdPrefix(name + "-");
        return producers;
    }

    static DefaultKafkaConsumerFactory<byte[], byte[]> consumers(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        return new DefaultKafkaConsumerFactory<>(settings);
    }
}
