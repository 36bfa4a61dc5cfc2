import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints every configuration key of nodes, topics, groups and client metrics, one a line: table, name, type,
 * default, when it may change, importance, "internal" or nothing, and what is allowed; tabs between them.
 */
public class ConfigLists {
    public static void main(String[] arguments) {
        Map<String, Map<String, ConfigKey>> tables = new LinkedHashMap<>();
        tables.put("node", AbstractKafkaConfig.CONFIG_DEF.configKeys());
        tables.put("throttle", DynamicConfig.Broker.configKeys());
        tables.put("topic", LogConfig.configKeys());
        tables.put("group", GroupConfig.CONFIG_DEF.configKeys());
        tables.put("client-metrics", ClientMetricsConfigs.configDef().configKeys());
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        tables.forEach((table, keys) -> new TreeMap<>(keys).forEach((name, key) -> System.out.println(
            String.join("\t", table, name, key.type.toString(), defaultOf(key), modes.getOrDefault(name, "read-only"),
                key.importance.toString(), key.internalConfig ? "internal" : "", String.valueOf(key.validator)))));
    }

    private static String defaultOf(ConfigKey key) {
        if (!key.hasDefault()) {
            return "required";
        }
        return key.defaultValue == null ? "null" : "=" + ConfigDef.convertToString(key.defaultValue, key.type);
    }
}
