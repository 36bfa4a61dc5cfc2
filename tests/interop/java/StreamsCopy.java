// Kafka Streams, exactly once: copies a topic by way of a repartition topic.
//
//     java -cp "LIBS/*" StreamsCopy.java BOOTSTRAP SOURCE TARGET APPLICATION STATE_DIRECTORY
//
// Runs until it is killed.

import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;

public class StreamsCopy {
    public static void main(String[] given) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, given[3]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, given[4]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(given[1], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, value) -> value)
            .repartition(Repartitioned.with(Serdes.String(), Serdes.String()))
            .to(given[2], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> {
            System.err.println("a thread is replaced: " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        Thread.currentThread().join();
    }
}
