// Reads lines of "class version hex" on standard input and says which of them Apache Kafka 3.9.1 writes otherwise
// than it reads them. Run with kafka-clients-3.9.1.jar and slf4j-api on the class path:
//   zcat tests/golden/kafka39.txt.gz | java -cp JARS tests/golden/Kafka39.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

public class Kafka39 {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        int equal = 0;
        int different = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            short version = Short.parseShort(parts[1]);
            byte[] given = parts.length > 2 ? HexFormat.of().parseHex(parts[2]) : new byte[0];
            Class<?> type = Class.forName("org.apache.kafka.common.message." + parts[0] + "Data");
            Message message = (Message) type.getDeclaredConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(ByteBuffer.wrap(given)), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(written), cache, version);
            if (Arrays.equals(written.array(), given)) {
                equal++;
            } else {
                different++;
                System.out.println(parts[0] + " v" + version);
            }
        }
        System.out.println(equal + " equal, " + different + " different");
    }
}
