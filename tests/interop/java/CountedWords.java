// Kafka Streams under the streams protocol (KIP-1071): counts the words of a topic, over a repartition topic.
//
//     java -cp "LIBS/*" CountedWords.java BOOTSTRAP SOURCE TARGET APPLICATION STATE_DIRECTORY THREADS GUARANTEE [INSTANCE]
//
// GUARANTEE is exactly_once_v2 or at_least_once. Each record brings one count: there is no cache. It prints
// "started", "state NAME" with each change, "failed WHY", and "done" after its input has ended.

import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

public class CountedWords {
    public static void main(String[] given) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, given[3]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, given[4]);
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(given[5]));
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, given[6]);
        properties.put("group.protocol", "streams");
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "localhost:7070");
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        if (given.length > 7) {
            properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), given[7]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(given[1], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(given[2], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("failed " + error);
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        System.out.println("started");
        while (System.in.read() >= 0) { }
        streams.close();
        System.out.println("done");
    }
}
