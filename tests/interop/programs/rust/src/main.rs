//! Copies a topic by one of Rust's clients: CLIENT BOOTSTRAP SOURCE TARGET GROUP.

use std::error::Error;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::ClientBuilder;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

const PAUSE: Duration = Duration::from_millis(100);
const MAX_BYTES: i32 = 100_000;
const MAX_WAIT_MS: i32 = 200;

#[tokio::main]
async fn main() -> Outcome {
    let words: Vec<String> = std::env::args().collect();
    let [_, client, bootstrap, source, target, group] = &words[..] else {
        return Err("CLIENT BOOTSTRAP SOURCE TARGET GROUP".into());
    };
    match client.as_str() {
        "rdkafka" => by_rdkafka(bootstrap, source, target, group).await,
        "rskafka" => by_rskafka(bootstrap, source, target).await,
        _ => Err("rdkafka or rskafka".into()),
    }
}

async fn by_rdkafka(bootstrap: &str, source: &str, target: &str, group: &str) -> Outcome {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .create()?;
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("linger.ms", "0")
        .create()?;
    consumer.subscribe(&[source])?;
    loop {
        let taken = match consumer.recv().await {
            Ok(taken) => taken,
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        let value = taken.payload().unwrap_or_default();
        let given = FutureRecord::<(), _>::to(target).payload(value);
        producer
            .send(given, Timeout::Never)
            .await
            .map_err(|(error, _)| error)?;
        if let Err(error) = consumer.commit_message(&taken, CommitMode::Async) {
            eprintln!("{error}");
        }
    }
}

/// Each partition to the one of the same number: this client has no groups.
async fn by_rskafka(bootstrap: &str, source: &str, target: &str) -> Outcome {
    let servers = bootstrap.split(',').map(str::to_owned).collect();
    let client = ClientBuilder::new(servers).build().await?;
    let topics = client.list_topics().await?;
    let found = topics.iter().find(|topic| topic.name == source);
    let mut copies = tokio::task::JoinSet::new();
    for number in found.ok_or("no such topic")?.partitions.clone() {
        let from = client
            .partition_client(source, number, UnknownTopicHandling::Retry)
            .await?;
        let to = client
            .partition_client(target, number, UnknownTopicHandling::Retry)
            .await?;
        copies.spawn(copy_partition(from, to));
    }
    copies.join_next().await.ok_or("no partitions")??
}

async fn copy_partition(from: PartitionClient, to: PartitionClient) -> Outcome {
    let mut next = from.get_offset(OffsetAt::Earliest).await?;
    loop {
        let fetched = from.fetch_records(next, 1..MAX_BYTES, MAX_WAIT_MS).await;
        let taken = match fetched {
            Ok((taken, _)) => taken,
            Err(error) => {
                eprintln!("{error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(last) = taken.last() else { continue };
        let after = last.offset + 1;
        let records: Vec<_> = taken.into_iter().map(|found| found.record).collect();
        while let Err(error) = to.produce(records.clone(), Compression::NoCompression).await {
            eprintln!("{error}");
            tokio::time::sleep(PAUSE).await;
        }
        next = after;
    }
}
