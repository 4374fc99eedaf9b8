//! Our broker answers every recorded question as Apache Kafka 4.4 did, but for the listed differences.

#![expect(clippy::print_stdout, reason = "what was chance is shown beside what was not")]

use atonce_oracle::compare::{Known, differences};
use atonce_oracle::recorded::{self, ask_all};
use atonce_oracle::script;

#[tokio::test(flavor = "multi_thread")]
async fn our_broker_answers_as_apache_kafka_did() {
    let broker = recorded::our_broker().await.expect("a broker starts");
    let address = broker.bootstrap_servers();
    let scripts = script::all().expect("the scripts read");
    let versions = recorded::versions().expect("what was recorded");
    let expected: Vec<_> =
        scripts.iter().map(|script| recorded::transcript(&script.name).expect("it was recorded")).collect();
    let (scripts, expected, asked) = tokio::task::spawn_blocking(move || {
        let asked = ask_all(&address, &scripts, Some(&versions), Some(&expected)).expect("all is asked");
        (scripts, expected, asked)
    })
    .await
    .expect("no panic");
    let mut known = Known::read().expect("the list reads");
    let mut count = 0;
    let mut new = Vec::new();
    for ((script, expected), transcript) in scripts.iter().zip(&expected).zip(&asked.transcripts) {
        count += transcript.count();
        new.extend(known.take_out(differences(&script.name, expected, transcript)));
    }
    let texts: Vec<String> = new.iter().map(ToString::to_string).collect();
    // Shown if the test fails, or with --nocapture: what a busy machine does to sessions and time-outs.
    asked.by_chance.iter().for_each(|held| println!("as expected only when it was asked again: {held}"));
    assert!(new.is_empty(), "{} differences:\n\n{}", new.len(), texts.join("\n\n"));
    assert!(asked.codec_faults.is_empty(), "{}", asked.codec_faults.join("\n"));
    assert!(count > 1, "{count} answers were compared");
}
