//! Interpretation of S3 error responses, with advice for operators.

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::http::Answer;
use crate::limits::{MESSAGE_CHARS_MAX, SKEW_SECONDS_MAX};
use crate::objects::Away;

/// Text of the first element of this name. Stores write these elements without attributes.
pub(super) fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let from = text.find(&format!("<{name}>"))? + name.len() + 2;
    let rest = &text[from..];
    Some(&rest[..rest.find(&format!("</{name}>"))?])
}

fn code(answer: &Answer) -> String {
    let text = answer.text();
    element(&text, "Code").unwrap_or_default().to_owned()
}

fn has_no_bucket(answer: &Answer) -> bool {
    answer.status == 404 && code(answer) == "NoSuchBucket"
}

/// Returns true if there is no object, or none of its bytes in the requested range.
pub(super) fn is_nothing(answer: &Answer) -> bool {
    answer.status == 416 || (answer.status == 404 && !has_no_bucket(answer))
}

/// Returns true if the credentials have expired and new ones may work.
pub(super) fn wants_other_keys(answer: &Answer) -> bool {
    matches!(answer.status, 400 | 401 | 403)
        && matches!(code(answer).as_str(), "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired")
}

/// Returns true if the error is transient.
pub(super) fn is_passing(code: &str) -> bool {
    matches!(
        code,
        "RequestTimeout"
            | "SlowDown"
            | "InternalError"
            | "ServiceUnavailable"
            | "ExpiredToken"
            | "TokenRefreshRequired"
            | "OperationAborted"
            | "ConditionalRequestConflict"
    )
}

/// Error message of a response, with advice.
pub(super) fn explain(answer: &Answer, bucket: &str, region: &str, origin: &str) -> Away {
    let text = answer.text();
    let code = element(&text, "Code").unwrap_or_default();
    let message = element(&text, "Message").unwrap_or_default();
    let advice = advice(answer, code, bucket, region, origin);
    let mut why = format!("the store answered {}", answer.status);
    for part in [code, message] {
        if !part.is_empty() {
            why.push_str(", ");
            why.extend(part.chars().filter(|letter| !letter.is_control()).take(MESSAGE_CHARS_MAX));
        }
    }
    if let Some(advice) = advice {
        why.push_str(": ");
        why.push_str(&advice);
    }
    let may_pass = is_passing(code) || matches!(answer.status, 408 | 409 | 412 | 429 | 500 | 502..);
    Away { why, may_pass }
}

fn advice(answer: &Answer, code: &str, bucket: &str, region: &str, origin: &str) -> Option<String> {
    if let Some(other) = answer.header("x-amz-bucket-region").filter(|other| *other != region) {
        return Some(format!("the bucket is in the region {other}, not {region}; set AWS_REGION"));
    }
    match (code, answer.status) {
        ("NoSuchBucket", _) => Some(format!(
            "there is no bucket {bucket} at this endpoint; create it, or mend the address"
        )),
        ("AuthorizationHeaderMalformed" | "PermanentRedirect" | "TemporaryRedirect", _)
        | (_, 301 | 307) => Some(format!(
            "{region} is not the region of the bucket; set `remote.region` or AWS_REGION"
        )),
        (_, 401 | 403) | ("RequestTimeTooSkewed" | "InvalidAccessKeyId", _) => {
            Some(skewed(answer).unwrap_or_else(|| match code {
                "SignatureDoesNotMatch" => {
                    format!("the secret from {origin} is not that of its key")
                }
                "InvalidAccessKeyId" => format!("the key from {origin} is not known there"),
                _ => {
                    format!("the credentials from {origin} may not do this in the bucket {bucket}")
                }
            }))
        }
        ("NotImplemented", _) | (_, 501) => {
            Some("the store cannot do this; another store is needed, or a coordinator".into())
        }
        _ => None,
    }
}

/// Message if the two clocks differ by too much for any signature.
fn skewed(answer: &Answer) -> Option<String> {
    let theirs = date(answer)?.as_second();
    let apart = Timestamp::now().as_second().abs_diff(theirs);
    (apart > SKEW_SECONDS_MAX).then(|| {
        format!("this machine's clock and the store's are {apart} s apart; set the clock right")
    })
}

/// Time of the response, by the store's clock.
pub(super) fn date(answer: &Answer) -> Option<Timestamp> {
    http_date(answer.header("date")?)
}

pub(super) fn http_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

/// Returns true if the returned range begins at the requested offset.
pub(super) fn begins_at(answer: &Answer, from: u64) -> bool {
    let range = answer.header("content-range").unwrap_or_default();
    let begin = range.strip_prefix("bytes ").and_then(|rest| rest.split_once('-'));
    begin.is_some_and(|(begin, _)| begin.trim().parse() == Ok(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ureq::http::{HeaderMap, HeaderValue};

    fn answer(status: u16, code: &str, headers: &[(&'static str, &str)]) -> Answer {
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>"
        );
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()));
        Answer { status, headers: HeaderMap::from_iter(pairs), body: body.into() }
    }

    fn told(answer: &Answer) -> Away {
        explain(answer, "memories", "eu-1", "AWS_ACCESS_KEY_ID")
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_do() {
        let now = Timestamp::now();
        let far = now.as_second() - 3600;
        let far = rfc2822::to_string(
            &Timestamp::from_second(far).unwrap().to_zoned(jiff::tz::TimeZone::UTC),
        );
        let far = [("date", far.as_ref().unwrap().as_str())];
        let cases = [
            (answer(403, "SignatureDoesNotMatch", &[]), "the secret from AWS_ACCESS_KEY_ID"),
            (answer(403, "InvalidAccessKeyId", &[]), "is not known there"),
            (answer(403, "AccessDenied", &[]), "may not do this in the bucket memories"),
            (answer(403, "AccessDenied", &far), "s apart; set the clock right"),
            (answer(404, "NoSuchBucket", &[]), "there is no bucket memories"),
            (answer(301, "PermanentRedirect", &[]), "eu-1 is not the region"),
            (
                answer(301, "x", &[("x-amz-bucket-region", "eu-2")]),
                "is in the region eu-2, not eu-1",
            ),
        ];
        for (answer, wanted) in cases {
            let away = told(&answer);
            assert!(away.why.contains(wanted) && !away.may_pass, "{away:?}");
        }
        for (status, code) in [(503, "SlowDown"), (500, ""), (400, "RequestTimeout"), (409, "x")] {
            assert!(told(&answer(status, code, &[])).may_pass, "{status}");
        }
        assert!(!told(&answer(501, "NotImplemented", &[])).may_pass);
    }

    #[test]
    fn what_a_store_says_is_cut_and_plain() {
        let long = "x\u{1b}[2J".repeat(1000);
        let away = told(&answer(418, &long, &[]));
        assert!(away.why.len() < 500 && !away.why.contains('\u{1b}'), "{}", away.why.len());
        assert_eq!(element("<Code>cut", "Code"), None);
    }

    #[test]
    fn a_range_is_looked_at() {
        let right = answer(206, "", &[("content-range", "bytes 5-9/20")]);
        assert!(begins_at(&right, 5) && !begins_at(&right, 0));
        assert!(!begins_at(&answer(206, "", &[]), 0));
        let time = http_date("Thu, 26 Nov 2026 06:12:11 GMT").unwrap();
        assert_eq!(time.to_string(), "2026-11-26T06:12:11Z");
    }
}
