//! Each part of the local stack, started and used for real.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    net::{IpAddr, UdpSocket},
    time::Duration,
};

use offset_guard_local::{
    Result,
    aws::LocalAws,
    browser::Browser,
    client::{Client, Commit, MemberOptions, Protocol, Record},
    kafka::{ConsoleConsumer, Kafka, KafkaOptions, Version},
    run::Run,
};

const LIMIT: Duration = Duration::from_secs(30);

fn clients(kafka: &Kafka) -> Client {
    Client::new(&kafka.bootstrap(), &BTreeMap::new())
}

/// What Kafka's own tool says of a group: current offset, lag, and whether a member owns the partition.
async fn described(kafka: &Kafka, group: &str) -> Result<Vec<(Option<i64>, Option<i64>, bool)>> {
    let rows = kafka.cli()?.describe_group(group).await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.current_offset, row.lag, row.consumer_id.is_some()))
        .collect())
}

#[tokio::test]
async fn every_kafka_serves_its_own_tools_and_consumers() -> Result<()> {
    for version in Version::ALL {
        let run = Run::open(Duration::ZERO)?;
        let options = KafkaOptions {
            version,
            ..KafkaOptions::default()
        };
        let kafka = Kafka::start(&run, &options).await?;
        let client = clients(&kafka);
        client.create_topic("shipments", 2, &[]).await?;
        client.produce_numbered("shipments", 0, 5).await?;
        client.produce_numbered("shipments", 1, 7).await?;

        let reader = ConsoleConsumer {
            max_messages: Some(12),
            ..ConsoleConsumer::new("console", "shipments")
        };
        let mut reader = kafka.cli()?.console_consumer(&reader)?;
        let read = reader.until_ended(LIMIT).await?;
        assert_eq!(read.len(), 12);
        assert!(
            read.iter()
                .any(|line| line.value == "shipments-1-6" && line.offset == 6)
        );
        assert_eq!(
            described(&kafka, "console").await?,
            [(Some(5), Some(0), false), (Some(7), Some(0), false)]
        );
        if version == Version::V4 {
            let mut reader = ConsoleConsumer::new("broker-assigned", "shipments");
            reader
                .properties
                .insert("group.protocol".to_owned(), "consumer".to_owned());
            let mut reader = kafka.cli()?.console_consumer(&reader)?;
            reader.until_read(12, LIMIT).await?;
            assert_eq!(reader.stop().await?.len(), 12);
            assert_eq!(
                described(&kafka, "broker-assigned").await?,
                [(Some(5), Some(0), false), (Some(7), Some(0), false)]
            );
        }
        let absent = kafka.cli()?.describe_group("absent").await.unwrap_err();
        let words = match version {
            Version::V3_9 => "does not exist",
            Version::V4 => "not found",
        };
        assert!(absent.to_string().contains(words), "{absent}");
        kafka.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn members_of_both_protocols_read_commit_and_leave() -> Result<()> {
    let run = Run::open(Duration::ZERO)?;
    let kafka = Kafka::start(&run, &KafkaOptions::default()).await?;
    let client = clients(&kafka);
    client.create_topic("orders", 2, &[]).await?;
    client.produce_numbered("orders", 1, 4).await?;
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let group = protocol.name();
        let member = client.join(group, &["orders"], &MemberOptions::of(protocol))?;
        member.until_assigned(2, LIMIT).await?;
        member.until_read(4, LIMIT).await?;
        member.commit().await?;
        let rows = described(&kafka, group).await?;
        assert!(rows.contains(&(Some(4), Some(0), true)), "{rows:?}");
        let types = kafka
            .cli()?
            .consumer_groups(&["--list", "--type"])
            .await?
            .stdout;
        let kind = types
            .lines()
            .find(|line| line.starts_with(group))
            .unwrap_or_default()
            .to_lowercase();
        assert!(kind.trim_end().ends_with(group), "{types}");

        assert_eq!(member.stop().await?.len(), 4);
        client.commit(group, &[Commit::new("orders", 1, 3)]).await?;
        assert_eq!(client.committed(group, "orders", 2).await?[1], Some(3));
    }
    Ok(())
}

#[tokio::test]
async fn an_open_transaction_holds_back_readers_of_committed_records() -> Result<()> {
    let run = Run::open(Duration::ZERO)?;
    let kafka = Kafka::start(&run, &KafkaOptions::default()).await?;
    let client = clients(&kafka);
    client.create_topic("payments", 1, &[]).await?;
    let transaction = client
        .begin_transaction("payments", &[Record::new(0, "held back")])
        .await?;
    client.produce_numbered("payments", 0, 1).await?;
    let committed = MemberOptions {
        properties: BTreeMap::from([("isolation.level".to_owned(), "read_committed".to_owned())]),
        ..MemberOptions::default()
    };
    let member = client.join("ledger", &["payments"], &committed)?;
    member.until_assigned(1, LIMIT).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(member.records(), []);
    transaction.abort().await?;
    member.until_read(1, LIMIT).await?;
    let records = member.stop().await?;
    assert_eq!(records[0].1.offset, Some(1));

    client.delete_records("payments", 0, 1).await?;
    client.raise_partitions("payments", 2).await?;
    client.delete_topic("payments").await
}

#[tokio::test]
async fn three_brokers_survive_the_restart_of_one() -> Result<()> {
    let run = Run::open(Duration::ZERO)?;
    let options = KafkaOptions {
        brokers: 3,
        ..KafkaOptions::default()
    };
    let mut kafka = Kafka::start(&run, &options).await?;
    let client = clients(&kafka);
    client.create_topic("orders", 3, &[]).await?;
    client.produce_numbered("orders", 0, 10).await?;
    kafka.stop_broker(0).await?;
    client.produce_numbered("orders", 0, 1).await?;
    kafka.start_broker(0).await?;
    assert_eq!(client.produce_numbered("orders", 0, 1).await?, [11]);
    kafka.stop().await
}

#[tokio::test]
async fn two_local_aws_run_side_by_side_on_loopback_alone() -> Result<()> {
    let run = Run::open(Duration::ZERO)?;
    let nothing = BTreeMap::new();
    let (one, other) = tokio::join!(
        LocalAws::start(&run, &nothing),
        LocalAws::start(&run, &nothing)
    );
    let (one, other) = (one?, other?);
    assert_ne!(one.endpoint(), other.endpoint());
    if let Some(address) = address_beside_loopback() {
        let elsewhere = one.endpoint().replace("127.0.0.1", &address.to_string());
        let error = reqwest::Client::builder()
            .no_proxy()
            .build()
            .unwrap()
            .get(elsewhere)
            .send()
            .await
            .unwrap_err();
        assert!(error.is_connect(), "{error:?}");
    }
    one.stop().await?;
    other.stop().await
}

/// This machine's address on a network, if it has one. Nothing is sent to find it.
fn address_beside_loopback() -> Option<IpAddr> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[tokio::test]
async fn the_browser_shows_a_page_and_fills_a_form() -> Result<()> {
    let browser = Browser::start().await?;
    let page = "data:text/html,<form><input name=a><input type=submit></form><p>seen</p>";
    browser.goto(page).await?;
    browser.fill("input[name=a]", "typed").await?;
    assert_eq!(browser.text("p").await?, "seen");
    browser.stop().await
}
