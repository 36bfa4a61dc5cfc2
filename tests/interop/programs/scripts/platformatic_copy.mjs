// Copies a topic by @platformatic/kafka: FOLDER BOOTSTRAP SOURCE TARGET GROUP. FOLDER has the package.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

const [folder, bootstrap, source, target, group] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { Consumer, MessagesStreamModes, Producer, ProduceAcks } = await import(
  pathToFileURL(require.resolve("@platformatic/kafka")).href
);
const names = { clientId: group, bootstrapBrokers: bootstrap.split(","), retries: 3, retryDelay: 100 };

async function copy() {
  const producer = new Producer({ ...names, idempotent: true });
  const consumer = new Consumer({ ...names, groupId: group, sessionTimeout: 10_000, heartbeatInterval: 1_000 });
  try {
    const records = await consumer.consume({
      topics: [source],
      autocommit: false,
      mode: MessagesStreamModes.COMMITTED,
      fallbackMode: "earliest",
      maxWaitTime: 200,
    });
    for await (const record of records) {
      await producer.send({ acks: ProduceAcks.ALL, messages: [{ topic: target, value: record.value }] });
      await record.commit();
    }
  } finally {
    await consumer.close(true).catch(() => {});
    await producer.close(true).catch(() => {});
  }
}

// Its clients keep asking a coordinator that is gone, so that new ones are made.
for (;;) {
  await copy().catch((error) => console.error(error.message));
  await sleep(200);
}
