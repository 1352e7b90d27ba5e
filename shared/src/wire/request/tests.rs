use serde_json::json;

use super::*;

fn faults(request: Value) -> Vec<String> {
    parse_request(&request, Some("main"))
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_dry_run_is_what_is_asked_for_unless_the_request_says_otherwise() {
    let request = json!({"group": "g", "rewind_before": "2026-11-30T10:00:00+05:30"});
    let parsed = parse_request(&request, Some("main")).unwrap();
    assert!(parsed.dry_run);
    assert_eq!(parsed.cluster, "main");
    let at = "2026-11-30T04:30:00Z".parse().unwrap();
    assert_eq!(parsed.target, ResetSpec::RewindBefore(at));
}

#[test]
fn a_time_without_a_zone_is_answered_with_how_to_write_it() {
    let faults = faults(json!({"group": "g", "rewind_before": "2026-11-30T10:00:00"}));
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].contains("write 2026-11-30T10:00:00Z"),
        "{faults:?}"
    );
}

#[test]
fn a_duration_may_have_days_as_kafkas_own_tool_writes_them() {
    let target = |text: &str| {
        let request = json!({"group": "g", "by_duration": text});
        parse_request(&request, Some("main")).map(|request| request.target)
    };
    let hours = |hours| Ok(ResetSpec::ByDuration(SignedDuration::from_hours(hours)));
    assert_eq!(target("P1D"), hours(24));
    assert_eq!(target("P1DT12H"), hours(36));
    assert_eq!(target("PT2H"), hours(2));
    for wrong in ["P1M", "-P1D", "PT0S", "yesterday", "P99999999999D"] {
        assert!(target(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_input_without_a_request_is_answered_with_how_to_write_one() {
    assert!(faults(Value::Null)[0].contains("{\"request\": {"));
    assert!(faults(json!("g"))[0].contains("{\"request\": {"));
}

#[test]
fn exactly_one_target() {
    assert!(faults(json!({"group": "g"}))[0].starts_with("request: no target is given"));
    let two = json!({"group": "g", "shift_by": -1, "to_earliest": true});
    let two = faults(two);
    let says = "request: 2 targets are given (shift_by, to_earliest)";
    assert!(two[0].starts_with(says), "{two:?}");
}

#[test]
fn an_unknown_field_is_told_with_the_one_that_is_near_and_with_nothing_else() {
    let mistyped = json!({"groupid": "g", "rewind_befor": "2026-11-30T10:00:00Z"});
    assert_eq!(
        faults(mistyped),
        [
            "groupid: there is no such field; did you mean \"group\"?",
            "rewind_befor: there is no such field; did you mean \"rewind_before\"?",
        ]
    );
    let strange = faults(json!({"group": "g", "shift_by": -1, "colour": "red"}));
    let [strange] = strange.as_slice() else {
        panic!("{strange:?}");
    };
    for field in request_fields() {
        assert!(strange.contains(field), "{field}: {strange}");
    }
}

#[test]
fn every_fault_is_named_at_once() {
    let request = json!({
        "group": "", "to_offsets": [
            {"topic": "t", "partition": 0, "offset": -1},
            {"topic": "t", "partition": 1, "offset": 1},
            {"topic": "t", "partition": 1, "offset": 2},
        ], "topics": ["t:x"], "reason": "r".repeat(501),
    });
    let faults = faults(request);
    assert_eq!(faults.len(), 5, "{faults:#?}");
}

/// What is answered to rows of `to_offsets`.
fn of_rows(rows: &Value) -> Vec<String> {
    faults(json!({"group": "g", "to_offsets": rows}))
}

#[test]
fn a_fault_of_an_offset_names_field_and_row_and_the_form_that_is_wanted() {
    let good = json!({"topic": "t", "partition": 0, "offset": 3});
    let offset = "write a whole number from 0 to 9223372036854775807, without quotes";
    let partition = "write a whole number from 0 to 2147483647, without quotes";
    let too_large: Value = serde_json::from_str("9223372036854775808").unwrap();
    for (column, value, says) in [
        ("offset", json!("31"), format!("\"31\" is a text; {offset}")),
        (
            "offset",
            json!(31.0),
            format!("31.0 has a fraction; {offset}"),
        ),
        (
            "offset",
            too_large,
            format!("9223372036854775808 is a number; {offset}"),
        ),
        ("offset", json!(-1), format!("-1 is a number; {offset}")),
        ("offset", json!(null), format!("it is missing; {offset}")),
        ("offset", json!([31]), format!("it is a list; {offset}")),
        (
            "partition",
            json!("0"),
            format!("\"0\" is a text; {partition}"),
        ),
        (
            "partition",
            json!(2_147_483_648_u32),
            format!("2147483648 is a number; {partition}"),
        ),
        (
            "topic",
            json!(5),
            "5 is a number; write the topic's exact name".to_owned(),
        ),
    ] {
        let mut wrong = json!({"topic": "t", "partition": 1, "offset": 3});
        wrong[column] = value;
        let rows = json!([good, wrong]);
        assert_eq!(
            of_rows(&rows),
            [format!("to_offsets: row 2, {column}: {says}")],
            "{rows}"
        );
    }
}

#[test]
fn a_row_that_stands_there_twice_names_both() {
    let row = json!({"topic": "t", "partition": 0, "offset": 3});
    assert_eq!(
        of_rows(&json!([row, row])),
        ["to_offsets: row 2, partition: t-0 stands in row 1 already; leave one of them out"]
    );
}

#[test]
fn a_row_that_is_none_or_has_other_fields_says_so() {
    let mut strange = json!({"topic": "t", "partitions": 0, "offset": 3});
    assert_eq!(
        of_rows(&json!([strange])),
        ["to_offsets: row 1, partitions: there is no such field; did you mean \"partition\"?"]
    );
    strange = json!("t:0:3");
    let says = "to_offsets: row 1: \"t:0:3\" is a text; write [{\"topic\": \"orders\", \"partition\": 0, \"offset\": 31}]";
    assert_eq!(of_rows(&json!([strange])), [says]);
    assert!(of_rows(&json!([]))[0].starts_with("to_offsets: it is empty; write [{"));
    assert!(of_rows(&json!({"t": 3}))[0].starts_with("to_offsets: it is an object; write [{"));
}

#[test]
fn every_field_says_which_form_it_wants_in_its_own_words() {
    for (field, value, says) in [
        (
            "cluster",
            json!(5),
            "5 is a number; write a cluster's name in the configuration",
        ),
        (
            "group",
            json!(["g"]),
            "it is a list; write the group's exact name",
        ),
        (
            "rewind_before",
            json!(1_796_029_923),
            "1796029923 is a number; write 2026-11-30T10:00:00Z or 2026-11-30T15:30:00+05:30",
        ),
        (
            "checkpoint_id",
            json!(7),
            "7 is a number; write a checkpoint's id",
        ),
        (
            "to_datetime",
            json!("today"),
            "\"today\" is a text, and no instant with a zone; write 2026-11-30T10:00:00Z",
        ),
        (
            "by_duration",
            json!(3_600),
            "3600 is a number; write PT2H30M or P1DT12H",
        ),
        (
            "shift_by",
            json!("-3"),
            "\"-3\" is a text; write a whole number without quotes, such as -3",
        ),
        (
            "shift_by",
            json!(-3.5),
            "-3.5 has a fraction; write a whole number",
        ),
        (
            "to_earliest",
            json!("true"),
            "\"true\" is a text; write true or false, without quotes",
        ),
        (
            "undo",
            json!(true),
            "true is true or false; write the id of the plan",
        ),
        (
            "topics",
            json!("t"),
            "\"t\" is a text; write a list of topics",
        ),
        (
            "topics",
            json!([5]),
            "row 1: 5 is a number, and no topic with or without partitions",
        ),
        (
            "dry_run",
            json!("no"),
            "\"no\" is a text; write true or false",
        ),
        (
            "allow_clamp",
            json!(1),
            "1 is a number; write true or false",
        ),
        (
            "allow_forward",
            json!(1),
            "1 is a number; write true or false",
        ),
        (
            "allow_stateful",
            json!(1),
            "1 is a number; write true or false",
        ),
        (
            "restore_missing",
            json!(1),
            "1 is a number; write true or false",
        ),
        ("reason", json!({}), "it is an object; write a text"),
        (
            "reason",
            json!("r".repeat(501)),
            "it has 501 characters; write at most 500",
        ),
        ("requested_by", json!(5), "5 is a number; write a text"),
    ] {
        let mut request = json!({"group": "g", "shift_by": -1});
        if [
            "rewind_before",
            "checkpoint_id",
            "to_datetime",
            "by_duration",
            "to_earliest",
            "undo",
        ]
        .contains(&field)
        {
            request = json!({"group": "g"});
        }
        request[field] = value;
        let faults = faults(request.clone());
        let [fault] = faults.as_slice() else {
            panic!("{request}: {faults:?}");
        };
        assert!(
            fault.starts_with(&format!("{field}: {says}")),
            "{request}: {fault}"
        );
    }
}

#[test]
fn a_long_wrong_value_is_repeated_in_part_alone() {
    let fault = faults(json!({"group": "g", "shift_by": "9".repeat(10_000)})).join("; ");
    assert!(fault.contains("9999…"), "{fault}");
    assert!(fault.len() < 200, "{fault}");
}

#[test]
fn a_time_may_be_written_as_the_page_shows_it() {
    let target = |text: &str| {
        let request = json!({"group": "g", "rewind_before": text});
        parse_request(&request, Some("main")).map(|request| request.target)
    };
    assert_eq!(
        target("2026-11-30 09:00:40 UTC"),
        target("2026-11-30T09:00:40Z")
    );
    assert!(target("2026-11-30 09:00:40 UTC").is_ok());
    assert!(target("2026-11-30 09:00:40").is_err());
}

#[test]
fn a_groups_name_has_the_one_limit() {
    let long = faults(json!({"group": "g".repeat(1_001), "shift_by": -1}));
    assert!(
        long[0].starts_with("group: a group's name of 1,001 bytes cannot be kept"),
        "{long:?}"
    );
    let request = json!({"group": "注".repeat(300), "shift_by": -1});
    assert!(parse_request(&request, Some("main")).is_ok());
}

#[test]
fn topics_are_selected_as_kafkas_own_tool_does() {
    let request = json!({
        "group": "g", "shift_by": -1, "topics": ["a", "b:0,3", "b:4", "a:1"],
    });
    let parsed = parse_request(&request, Some("main")).unwrap();
    let wanted = [
        ("a".to_owned(), None),
        ("b".to_owned(), Some(vec![0, 3, 4])),
    ];
    assert_eq!(parsed.selection, Selection::Only(wanted.into()));
}
