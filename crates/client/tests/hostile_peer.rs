//! Whatever listens where a broker should: the client ends with an error, in time, and sizes nothing by what it is told.

use std::time::Duration;

use atonce_client::{Client, ConnectError, ErrorClass};
use atonce_kernel::chance::Chance;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Connects to a peer that answers the first request with `answer`, and then closes or falls silent.
async fn check(answer: Vec<u8>, stays: bool) -> ConnectError {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("is bound").to_string();
    let peer = tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&answer).await;
            if stays {
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
        }
    });
    let builder = Client::builder(address).connect_timeout(Duration::from_millis(300));
    let error = builder.connect().await.map(drop).expect_err("that is no broker");
    peer.abort();
    assert_eq!(error.class(), ErrorClass::Retriable);
    error
}

#[tokio::test]
async fn lengths_that_nobody_means_end_the_connection() {
    let error = check(i32::MAX.to_be_bytes().to_vec(), true).await;
    assert!(error.to_string().contains("2147483647"), "{error}");
    let error = check((-5_i32).to_be_bytes().to_vec(), true).await;
    assert!(error.to_string().contains("-5"), "{error}");
}

#[tokio::test]
async fn another_protocol_is_no_broker() {
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), false).await;
}

#[tokio::test]
async fn silence_ends_with_the_connect_time_out() {
    let error = check(Vec::new(), true).await;
    assert!(error.to_string().contains("300ms"), "{error}");
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_no_broker() {
    check(Vec::new(), false).await;
    check(vec![0, 0, 0, 20, 1, 2, 3], false).await;
}

#[tokio::test]
async fn random_answers_are_errors() {
    let mut chance = Chance::from_seed(4);
    for length in [0_u8, 1, 3, 4, 5, 6, 8, 20, 200] {
        let mut answer = vec![0, 0, 0, length];
        answer.extend((0..length).map(|_| u8::try_from(chance.below(256)).expect("is a byte")));
        check(answer, false).await;
        // With the right correlation id, and a count of versions that no frame could hold.
        let mut answer = vec![0, 0, 0, 12, 0, 0, 0, 0, 0, 0];
        answer.extend([0xff, 0xff, 0xff, 0xff, 0x0f, 0]);
        check(answer, false).await;
    }
}
