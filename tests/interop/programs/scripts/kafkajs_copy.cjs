// Copies a topic by KafkaJS: FOLDER BOOTSTRAP SOURCE TARGET GROUP. FOLDER has the package.
const { createRequire } = require("node:module");

const [folder, bootstrap, source, target, group] = process.argv.slice(2);
const { Kafka, logLevel } = createRequire(`${folder}/`)("kafkajs");
const kafka = new Kafka({ clientId: group, brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
const consumer = kafka.consumer({ groupId: group });

async function main() {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: source, fromBeginning: true });
  await consumer.run({
    eachBatch: async ({ batch, resolveOffset }) => {
      const messages = batch.messages.map(({ value }) => ({ value, partition: batch.partition }));
      await producer.send({ topic: target, acks: -1, messages });
      resolveOffset(batch.lastOffset());
    },
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
