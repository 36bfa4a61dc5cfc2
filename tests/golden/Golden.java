// Writes what Kafka's own message classes put on the wire, with the values in words:
//
//     java -cp "LIBS/*" Golden.java messages.json.gz
//
// For every request, response and internal record, and every version: a seeded random message is built
// from Kafka's schema, read and written again by Kafka's class, and told field by field by Kafka's
// JSON converter. One JSON array per line: class, version, bytes in hex, fields.

import com.fasterxml.jackson.databind.JsonNode;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.zip.GZIPOutputStream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

public class Golden {
    private static final String LETTERS = "abcdefgh-ä€";
    private static final int SAMPLES = 3;

    public static void main(String[] args) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (ApiMessageType type : ApiMessageType.values()) {
            try {
                messages.add(type.newRequest());
                messages.add(type.newResponse());
            } catch (UnsupportedVersionException e) {
                System.err.println("removed: " + type.name);
            }
        }
        for (MetadataRecordType type : MetadataRecordType.values()) {
            messages.add(type.newMetadataRecord());
        }
        for (var type : org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.values()) {
            messages.add(type.newRecordKey());
            messages.add(type.newRecordValue());
        }
        for (var type : org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType.values()) {
            messages.add(type.newRecordKey());
            messages.add(type.newRecordValue());
        }
        try (PrintStream out = new PrintStream(new GZIPOutputStream(new FileOutputStream(args[0])), false, "UTF-8")) {
            for (Message message : messages) {
                for (int v = message.lowestSupportedVersion(); v <= message.highestSupportedVersion(); v++) {
                    for (int sample = 0; sample < SAMPLES; sample++) {
                        out.println(line(message, (short) v, sample));
                    }
                }
            }
        }
    }

    private static String line(Message empty, short version, int sample) throws Exception {
        String name = empty.getClass().getSimpleName();
        Random random = new Random((name + " " + version + " " + sample).hashCode());
        Schema[] schemas = (Schema[]) empty.getClass().getField("SCHEMAS").get(null);
        Struct struct = struct(schemas[version], random);
        ByteBuffer generic = ByteBuffer.allocate(schemas[version].sizeOf(struct));
        schemas[version].write(generic, struct);
        generic.flip();
        empty.read(new ByteBufferAccessor(generic), version);
        ByteBuffer written = MessageUtil.toByteBufferAccessor(empty, version).buffer();
        Class<?> converter = Class.forName(empty.getClass().getName() + "JsonConverter");
        Method write = converter.getMethod("write", empty.getClass(), short.class, boolean.class);
        JsonNode fields = (JsonNode) write.invoke(null, empty, version, false);
        StringBuilder hex = new StringBuilder();
        while (written.hasRemaining()) {
            hex.append(String.format("%02x", written.get()));
        }
        return "[\"" + name + "\"," + version + ",\"" + hex + "\"," + fields + "]";
    }

    private static Struct struct(Schema schema, Random random) {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) {
            struct.set(field, value(field.def.type, random));
        }
        return struct;
    }

    private static Object value(Type type, Random random) {
        if (type instanceof TaggedFields) {
            Map<Integer, Object> tags = new TreeMap<>();
            for (Map.Entry<Integer, Field> entry : ((TaggedFields) type).fields().entrySet()) {
                if (random.nextBoolean()) {
                    tags.put(entry.getKey(), value(entry.getValue().type, random));
                }
            }
            return tags;
        }
        if (type.isNullable() && random.nextInt(5) == 0) {
            return null;
        }
        if (type.arrayElementType().isPresent()) {
            Object[] items = new Object[random.nextInt(3)];
            for (int i = 0; i < items.length; i++) {
                items[i] = value(type.arrayElementType().get(), random);
            }
            return items;
        }
        if (type instanceof Schema) {
            return struct((Schema) type, random);
        }
        return scalar(type.toString(), random);
    }

    private static Object scalar(String type, Random random) {
        long number = random.nextInt(3) == 0 ? random.nextLong() : random.nextInt(200) - 100;
        switch (type) {
            case "BOOLEAN": return random.nextBoolean();
            case "INT8": return (byte) number;
            case "INT16": return (short) number;
            case "UINT16": return (int) (number & 0xffff);
            case "INT32": return (int) number;
            case "UINT32": return number & 0xffffffffL;
            case "INT64": return number;
            case "FLOAT64": return random.nextInt(1000) / 8.0;
            case "UUID": return new Uuid(number, random.nextInt(1000) + 2);
            default: break;
        }
        int size = random.nextInt(40) == 0 ? 130 + random.nextInt(20) : random.nextInt(7);
        if (type.contains("STRING")) {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < size; i++) {
                text.append(LETTERS.charAt(random.nextInt(LETTERS.length())));
            }
            return text.toString();
        }
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) {
            bytes[i] = (byte) i;
        }
        if (type.contains("RECORDS")) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        }
        if (type.contains("BYTES")) {
            return ByteBuffer.wrap(bytes);
        }
        throw new IllegalArgumentException(type);
    }
}
