// Apache Flink in one process: reads one topic and writes it to another, exactly once.
//
//     java -cp "FLINK/*" FlinkCopy.java BOOTSTRAP SOURCE TARGET PREFIX NAMING CHECKPOINTS [CHECKPOINT]
//
// NAMING is INCREMENTING or POOLING: how the sink names its transactional ids, and finds those of its
// predecessor. Begins at CHECKPOINT where one is given. Runs until it is killed.

import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

public class FlinkCopy {
    public static void main(String[] given) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", "300ms");
        configuration.setString("execution.checkpointing.dir", "file://" + given[5]);
        configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        configuration.setString("execution.checkpointing.num-retained", "5");
        configuration.setString("taskmanager.numberOfTaskSlots", "2");
        configuration.setString("taskmanager.memory.network.min", "32mb");
        configuration.setString("taskmanager.memory.network.max", "32mb");
        if (given.length > 6) {
            configuration.setString("execution.state-recovery.path", "file://" + given[6]);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(given[0])
            .setTopics(given[1])
            .setGroupId(given[3])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        Properties producer = new Properties();
        producer.put("transaction.timeout.ms", "60000");
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(given[0])
            .setKafkaProducerConfig(producer)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(given[3])
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(given[4]))
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(given[2])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        System.out.println("started");
        environment.execute("copy");
    }
}
