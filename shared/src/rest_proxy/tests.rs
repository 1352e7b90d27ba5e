//! Against a stand-in on loopback that answers with the field names of the public OpenAPI description of REST Proxy v3
//! (clusters, consumer groups, consumers, consumer lags); no REST Proxy itself was at hand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What it answers by path, and what it was asked, each request whole.
struct StandIn {
    url: Url,
    asked: Arc<Mutex<Vec<String>>>,
}

type Answers = HashMap<String, (u16, String)>;

impl StandIn {
    /// `{url}` in an answer is its own address.
    async fn start(answers: impl IntoIterator<Item = (&str, u16, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Answers = answers
            .into_iter()
            .map(|(path, status, body)| {
                let body = body.to_string().replace("{url}", &url);
                (path.to_owned(), (status, body))
            })
            .collect();
        let (answers, asked) = (Arc::new(answers), Arc::new(Mutex::new(Vec::new())));
        let stand_in = Self {
            url: Url::parse(&url).unwrap(),
            asked: Arc::clone(&asked),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                tokio::spawn(answer(stream, answers, asked));
            }
        });
        stand_in
    }

    fn paths(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let path = |request: &String| request.split(' ').nth(1).unwrap().to_owned();
        asked.iter().map(path).collect()
    }

    async fn opinion(&self, group: &str) -> Opinion {
        second_opinion(&self.url, None, &cluster(), &GroupId(group.to_owned())).await
    }
}

async fn answer(mut stream: TcpStream, answers: Arc<Answers>, asked: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    asked.lock().unwrap().push(request);
    let not_found = (
        404,
        json!({"error_code": 40403, "message": "HTTP 404"}).to_string(),
    );
    let (status, body) = answers.get(&path).cloned().unwrap_or(not_found);
    // Nothing at all: the connection just ends.
    if status == 0 {
        return;
    }
    let location = if status == 302 {
        "location: http://127.0.0.1:1/\r\n"
    } else {
        ""
    };
    let answer = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         {location}connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

fn cluster() -> ClusterId {
    ClusterId("5L6g3nShT-eMCtK--X86sw".to_owned())
}

fn list(next: Option<&str>, data: &Value) -> Value {
    json!({
        "kind": "KafkaList",
        "metadata": {"self": "{url}/self", "next": next},
        "data": data,
    })
}

fn clusters() -> Value {
    list(
        None,
        &json!([{
            "kind": "KafkaCluster",
            "metadata": {"self": "{url}/v3/clusters/5L6g3nShT-eMCtK--X86sw", "resource_name": "crn:///kafka=x"},
            "cluster_id": "5L6g3nShT-eMCtK--X86sw",
            "controller": {"related": "{url}/v3/clusters/x/brokers/1"},
            "brokers": {"related": "{url}/v3/clusters/x/brokers"},
        }]),
    )
}

fn group(name: &str, state: &str) -> Value {
    json!({
        "kind": "KafkaConsumerGroup",
        "metadata": {"self": "{url}/x", "resource_name": "crn:///x"},
        "cluster_id": "5L6g3nShT-eMCtK--X86sw",
        "consumer_group_id": name,
        "is_simple": false,
        "partition_assignor": "range",
        "state": state,
        "coordinator": {"related": "{url}/v3/clusters/x/brokers/1"},
        "consumers": {"related": "{url}/x/consumers"},
        "lag_summary": {"related": "{url}/x/lag-summary"},
    })
}

fn consumers(ids: &[&str]) -> Value {
    let of = |id: &&str| {
        json!({
            "kind": "KafkaConsumer",
            "consumer_group_id": "g",
            "consumer_id": id,
            "instance_id": null,
            "client_id": "shipper",
            "assignments": {"related": "{url}/x"},
        })
    };
    list(None, &ids.iter().map(of).collect())
}

fn lag(partition: i32, current: i64, end: i64) -> Value {
    json!({
        "kind": "KafkaConsumerLag",
        "metadata": {"self": "{url}/x", "resource_name": "crn:///x"},
        "cluster_id": "5L6g3nShT-eMCtK--X86sw",
        "consumer_group_id": "g",
        "topic_name": "orders",
        "partition_id": partition,
        "current_offset": current,
        "log_end_offset": end,
        "lag": end - current,
        "consumer_id": "",
        "instance_id": null,
        "client_id": "",
    })
}

const CLUSTERS: &str = "/v3/clusters";
const G: &str = "/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/g";
const CONSUMERS: &str = "/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/g/consumers";
const LAGS: &str = "/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/g/lags";

fn whole() -> Vec<(&'static str, u16, Value)> {
    vec![
        (CLUSTERS, 200, clusters()),
        (G, 200, group("g", "STABLE")),
        (CONSUMERS, 200, consumers(&["c-1", "c-2"])),
        (
            LAGS,
            200,
            list(None, &json!([lag(0, 43, 90), lag(1, 7, 7)])),
        ),
    ]
}

/// The same with another answer to one question.
fn with(path: &'static str, status: u16, body: Value) -> Vec<(&'static str, u16, Value)> {
    let mut answers = whole();
    answers.retain(|(of, _, _)| *of != path);
    answers.push((path, status, body));
    answers
}

fn seen(opinion: Opinion) -> SeenGroup {
    match opinion {
        Opinion::Group(seen) => seen,
        other => panic!("{other:?}"),
    }
}

fn offset(
    partition: i32,
    current_offset: i64,
    log_end_offset: i64,
) -> (TopicPartition, SeenOffset) {
    let seen = SeenOffset {
        current_offset,
        log_end_offset,
    };
    (TopicPartition::new("orders", partition), seen)
}

#[tokio::test]
async fn a_group_is_told_as_far_as_it_can_be() {
    let stand_in = StandIn::start(whole()).await;
    let before = Timestamp::now();
    let opinion = stand_in.opinion("g").await;
    assert_eq!(
        opinion.to_string(),
        "Stable, members: 2, lag of 2 partitions: 47"
    );
    let seen = seen(opinion);
    assert_eq!(seen.state, Some(GroupState::Stable));
    assert_eq!(seen.members, Some(2));
    let offsets = seen.offsets.unwrap().unwrap();
    assert_eq!(offsets, [offset(0, 43, 90), offset(1, 7, 7)].into());
    assert!(before <= seen.began_at && seen.began_at <= seen.ended_at);
}

#[tokio::test]
async fn every_state_of_the_api_is_known_and_no_other() {
    for (word, state) in [
        ("EMPTY", Some(GroupState::Empty)),
        ("PREPARING_REBALANCE", Some(GroupState::PreparingRebalance)),
        (
            "COMPLETING_REBALANCE",
            Some(GroupState::CompletingRebalance),
        ),
        ("ASSIGNING", Some(GroupState::Assigning)),
        ("RECONCILING", Some(GroupState::Reconciling)),
        ("DEAD", Some(GroupState::Dead)),
        ("UNKNOWN", None),
        ("NOT_READY", None),
    ] {
        let stand_in = StandIn::start(with(G, 200, group("g", word))).await;
        assert_eq!(seen(stand_in.opinion("g").await).state, state, "{word}");
    }
}

#[tokio::test]
async fn the_api_is_found_wherever_the_address_points() {
    // Where it is, where the address points, and what is asked first.
    let cases = [
        ("/v3", "", "/v3/clusters"),
        ("/v3", "/", "/v3/clusters"),
        ("/v3", "/v3", "/v3/clusters"),
        ("/kafka/v3", "", "/v3/clusters"),
        ("/kafka/v3", "/kafka", "/kafka/v3/clusters"),
        ("/kafka/v3", "/kafka/v3/", "/kafka/v3/clusters"),
        ("/behind/kafka/v3", "/behind", "/behind/v3/clusters"),
    ];
    for (base, path, first) in cases {
        let answers: Vec<_> = whole()
            .into_iter()
            .map(|(path, status, body)| (path.replace("/v3", base), status, body))
            .collect();
        let answers = answers
            .iter()
            .map(|(path, status, body)| (path.as_str(), *status, body.clone()));
        let stand_in = StandIn::start(answers).await;
        let url = stand_in.url.join(path).unwrap();
        let opinion = second_opinion(&url, None, &cluster(), &GroupId("g".to_owned())).await;
        assert_eq!(seen(opinion).members, Some(2), "{base} from {path:?}");
        assert_eq!(stand_in.paths()[0], first);
    }
}

#[tokio::test]
async fn another_cluster_is_named_and_asked_nothing_more() {
    let stand_in = StandIn::start(whole()).await;
    let other = ClusterId("another".to_owned());
    let opinion = second_opinion(&stand_in.url, None, &other, &GroupId("g".to_owned())).await;
    let seen = vec![cluster()];
    assert_eq!(opinion, Opinion::AnotherCluster { seen });
    assert_eq!(stand_in.paths(), [CLUSTERS]);
}

#[tokio::test]
async fn a_list_is_read_to_its_end_page_by_page() {
    let second = "/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/g/lags?page_token=abc";
    let third = "/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/g/lags?page_token=d%2Fe";
    let next = |path: &str| format!("{{url}}{path}");
    let mut answers = with(LAGS, 200, list(Some(&next(second)), &json!([lag(0, 1, 9)])));
    // A whole address and one that begins at the host are both read.
    answers.push((second, 200, list(Some(third), &json!([lag(1, 2, 9)]))));
    answers.push((third, 200, list(Some(""), &json!([lag(2, 3, 9)]))));
    let stand_in = StandIn::start(answers).await;
    let offsets = seen(stand_in.opinion("g").await).offsets.unwrap().unwrap();
    let all = [offset(0, 1, 9), offset(1, 2, 9), offset(2, 3, 9)];
    assert_eq!(offsets, all.into());
}

/// Neither list is larger than the limit; both together are.
#[tokio::test]
async fn all_answers_about_a_group_have_one_limit() {
    const MORE_CONSUMERS: &str =
        "/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/g/consumers?page_token=abc";
    const MORE_LAGS: &str =
        "/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/g/lags?page_token=abc";
    let padded = |next: &str, mut entry: Value, mebibytes: usize| {
        entry["padding"] = " ".repeat(mebibytes << 20).into();
        list(Some(next).filter(|next| !next.is_empty()), &json!([entry]))
    };
    let consumer = || consumers(&["a"])["data"][0].clone();
    let of = |last: usize| async move {
        let mut answers = with(LAGS, 200, padded(MORE_LAGS, lag(0, 1, 9), 8));
        answers.push((MORE_LAGS, 200, padded("", lag(1, 1, 9), last)));
        answers.retain(|(path, ..)| *path != CONSUMERS);
        answers.push((CONSUMERS, 200, padded(MORE_CONSUMERS, consumer(), 7)));
        answers.push((MORE_CONSUMERS, 200, padded("", consumer(), 7)));
        StandIn::start(answers).await.opinion("g").await
    };
    let within = seen(of(8).await);
    assert_eq!(
        (within.members, within.offsets.unwrap().unwrap().len()),
        (Some(2), 2)
    );
    let beyond = seen(of(12).await);
    let too_large = beyond.members.is_none()
        || beyond
            .offsets
            .is_err_and(|why| why.error == ProxyError::TooLarge);
    assert!(too_large);
}

#[tokio::test]
async fn a_list_that_goes_on_elsewhere_or_for_ever_is_not_followed() {
    let another = StandIn::start(whole()).await;
    let elsewhere = [
        another.url.join(LAGS).unwrap().to_string(),
        format!("{{url}}{LAGS}/../../../../../../admin"),
        "https://127.0.0.1:1/v3/clusters".to_owned(),
        "/metrics".to_owned(),
    ];
    let error = |error| {
        let asked = "the group's lags";
        Err(Unanswered { asked, error })
    };
    for next in elsewhere {
        let page = list(Some(&next), &json!([lag(0, 1, 9)]));
        let stand_in = StandIn::start(with(LAGS, 200, page)).await;
        let offsets = seen(stand_in.opinion("g").await).offsets;
        assert!(offsets.is_err(), "{next}");
        assert_eq!(stand_in.paths().len(), 4, "{next}");
    }
    assert_eq!(another.paths(), [""; 0]);
    let page = list(Some(&format!("{{url}}{LAGS}")), &json!([]));
    let stand_in = StandIn::start(with(LAGS, 200, page)).await;
    let offsets = seen(stand_in.opinion("g").await).offsets;
    assert_eq!(offsets, error(ProxyError::Malformed));
    assert!(stand_in.paths().len() < 100);
}

#[tokio::test]
async fn a_groups_name_is_one_segment_whatever_is_in_it() {
    let cases = [
        ("a/b", "a%2Fb"),
        ("a b+c", "a%20b%2Bc"),
        ("50%", "50%25"),
        ("a?b#c", "a%3Fb%23c"),
        ("tab\tand\nline", "tab%09and%0Aline"),
        ("../lags", "..%2Flags"),
        ("größe", "gr%C3%B6%C3%9Fe"),
    ];
    for (name, segment) in cases {
        let path = format!("/v3/clusters/5L6g3nShT-eMCtK--X86sw/consumer-groups/{segment}");
        let answers = [
            (CLUSTERS, 200, clusters()),
            (path.as_str(), 200, group(name, "EMPTY")),
        ];
        let stand_in = StandIn::start(answers).await;
        let seen = seen(stand_in.opinion(name).await);
        assert_eq!(seen.state, Some(GroupState::Empty), "{name}");
        assert_eq!((seen.members, seen.offsets), (None, Ok(None)));
    }
    for name in [".", "..", ""] {
        let stand_in = StandIn::start(whole()).await;
        let unaskable = Opinion::Unavailable(Unanswered {
            asked: "the group",
            error: ProxyError::Unaskable,
        });
        assert_eq!(stand_in.opinion(name).await, unaskable, "{name:?}");
        assert_eq!(stand_in.paths(), [CLUSTERS]);
    }
}

#[tokio::test]
async fn every_way_to_fail_has_its_name() {
    use ProxyError::{
        Forbidden, Malformed, NotFound, ServerError, Status, Throttled, Unauthenticated,
        Unreachable,
    };
    let cases = [
        (401, json!({}), Unauthenticated),
        (403, json!({}), Forbidden),
        (404, json!({}), NotFound),
        (429, json!({}), Throttled),
        (500, json!({}), ServerError(500)),
        (503, json!({}), ServerError(503)),
        (302, json!({}), Status(302)),
        (400, json!({}), Status(400)),
        (204, json!({}), Status(204)),
        (200, json!("<html>"), Malformed),
        (200, json!({"data": []}), Malformed),
        (200, json!({"metadata": {}, "data": [{"id": 1}]}), Malformed),
        (0, json!({}), Unreachable),
    ];
    for (status, body, error) in cases {
        let stand_in = StandIn::start(with(CLUSTERS, status, body.clone())).await;
        let unavailable = |asked| Opinion::Unavailable(Unanswered { asked, error });
        let of_clusters = stand_in.opinion("g").await;
        assert_eq!(of_clusters, unavailable("its clusters"), "{status} {body}");

        let stand_in = StandIn::start(with(G, status, body.clone())).await;
        let of_group = stand_in.opinion("g").await;
        if error == NotFound {
            assert_eq!(of_group, Opinion::NoSuchGroup);
        } else {
            assert_eq!(of_group, unavailable("the group"), "{status} {body}");
        }

        let stand_in = StandIn::start(with(LAGS, status, body.clone())).await;
        let of_lags = seen(stand_in.opinion("g").await);
        assert_eq!(of_lags.state, Some(GroupState::Stable));
        let asked = "the group's lags";
        if error == NotFound {
            assert_eq!(of_lags.offsets, Ok(None));
        } else {
            let unanswered = Unanswered { asked, error };
            assert_eq!(of_lags.offsets, Err(unanswered), "{status} {body}");
        }

        // Members are a nicety: without them the rest stands.
        let stand_in = StandIn::start(with(CONSUMERS, status, body)).await;
        let without = seen(stand_in.opinion("g").await);
        assert_eq!(without.members, None);
        assert!(without.offsets.unwrap().is_some());
    }
}

#[tokio::test]
async fn an_answer_about_another_group_is_no_answer() {
    let stand_in = StandIn::start(with(G, 200, group("h", "STABLE"))).await;
    let malformed = Opinion::Unavailable(Unanswered {
        asked: "the group",
        error: ProxyError::Malformed,
    });
    assert_eq!(stand_in.opinion("g").await, malformed);
}

#[tokio::test]
async fn nobody_there_and_nobody_who_answers_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let ask = || async {
        match second_opinion(&url, None, &cluster(), &GroupId("g".to_owned())).await {
            Opinion::Unavailable(Unanswered { asked, error }) => (asked, error),
            other => panic!("{other:?}"),
        }
    };
    // The connection is made by the system, and nobody ever takes it.
    assert_eq!(ask().await, ("its clusters", ProxyError::TimedOut));
    drop(listener);
    assert_eq!(ask().await, ("its clusters", ProxyError::Unreachable));
}

#[tokio::test]
async fn credentials_are_sent_where_they_belong_and_shown_nowhere() {
    let credentials = || {
        Some(Credentials {
            username: "reader".to_owned(),
            password: Secret::new("hunter2"),
        })
    };
    let stand_in = StandIn::start(whole()).await;
    let group = GroupId("g".to_owned());
    let opinion = second_opinion(&stand_in.url, credentials(), &cluster(), &group).await;
    assert_eq!(seen(opinion).members, Some(2));
    let basic = data_encoding::BASE64.encode(b"reader:hunter2");
    for request in stand_in.asked.lock().unwrap().iter() {
        assert!(request.contains(&format!("authorization: Basic {basic}")));
    }
    assert!(!format!("{:?}", credentials()).contains("hunter2"));

    let bare = StandIn::start(whole()).await;
    bare.opinion("g").await;
    let asked = bare.asked.lock().unwrap().join("");
    assert!(!asked.to_lowercase().contains("authorization"));

    let clear = Url::parse("http://rest-proxy.invalid:8082").unwrap();
    let opinion = second_opinion(&clear, credentials(), &cluster(), &group).await;
    let insecure = Opinion::Unavailable(Unanswered {
        asked: "nothing",
        error: ProxyError::Insecure,
    });
    assert_eq!(opinion, insecure);
}
