// A route of Apache Camel copies a topic; it commits each record after the copy is acknowledged:
//
//     java -cp "CAMEL/*" CamelCopy.java BOOTSTRAP SOURCE TARGET GROUP
//
// Runs until it is killed.

import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.kafka.KafkaConstants;
import org.apache.camel.component.kafka.consumer.KafkaManualCommit;
import org.apache.camel.main.Main;

public class CamelCopy {
    static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";

    public static void main(String[] given) throws Exception {
        Main main = new Main();
        main.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                // A record whose copy fails is tried again until it succeeds.
                errorHandler(defaultErrorHandler().maximumRedeliveries(-1).redeliveryDelay(100));
                from(source(given[0], given[1], given[3]))
                    .to(target(given[0], given[2]))
                    .process(exchange -> exchange.getIn()
                        .getHeader(KafkaConstants.MANUAL_COMMIT, KafkaManualCommit.class).commit());
            }
        });
        main.run();
    }

    static String source(String bootstrap, String topic, String group) {
        return "kafka:" + topic + "?brokers=" + bootstrap + "&groupId=" + group
            + "&autoOffsetReset=earliest&autoCommitEnable=false&allowManualCommit=true&maxPollRecords=50"
            + "&valueDeserializer=" + BYTES + "Deserializer";
    }

    static String target(String bootstrap, String topic) {
        return "kafka:" + topic + "?brokers=" + bootstrap + "&requestRequiredAcks=all"
            + "&valueSerializer=" + BYTES + "Serializer";
    }
}
