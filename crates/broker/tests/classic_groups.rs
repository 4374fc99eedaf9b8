//! Classic groups over the wire: what becomes of requests that wait for others when their connections end. What is decided is tested in the
//! coordinator's crate.

use std::time::Duration;

use atonce_protocol::ErrorCode;
use atonce_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use atonce_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use atonce_protocol::messages::join_group_response::JoinGroupResponse;
use atonce_protocol::messages::sync_group_request::SyncGroupRequest;

mod raw_client;
use raw_client::{RawClient, broker};

/// Time-outs so long that only a connection's end can have ended anything.
const LONG_MS: i32 = 300_000;

/// Of version 3, in which a newcomer is let in at once.
fn join(member: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: LONG_MS,
        rebalance_timeout_ms: LONG_MS,
        member_id: member.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), ..Default::default() }],
        ..Default::default()
    }
}

async fn joined(client: &mut RawClient, member: &str) -> JoinGroupResponse {
    let answer = client.call(3, &join(member)).await;
    assert_eq!(ErrorCode::from_wire(answer.error_code), ErrorCode::None);
    answer
}

async fn sync(client: &mut RawClient, generation_id: i32, member: &str) {
    let request = SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id,
        member_id: member.to_owned(),
        ..Default::default()
    };
    let answer = client.call(3, &request).await;
    assert_eq!(ErrorCode::from_wire(answer.error_code), ErrorCode::None);
}

/// Waits until the group has so many members.
async fn until_members(client: &mut RawClient, count: usize) {
    let counted = async {
        loop {
            let request = DescribeGroupsRequest { groups: vec!["g".to_owned()], ..Default::default() };
            if client.call(5, &request).await.groups[0].members.len() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, counted).await.unwrap_or_else(|_| panic!("there are never {count} members"));
}

#[tokio::test]
async fn a_newcomer_that_hangs_up_before_it_hears_its_id_keeps_nobody_waiting() {
    let broker = broker().await;
    let mut observer = RawClient::of(&broker);
    let mut a = RawClient::of(&broker);
    let first = joined(&mut a, "").await;
    sync(&mut a, first.generation_id, &first.member_id).await;

    let mut ghost = RawClient::of(&broker);
    ghost.send(3, &join("")).await;
    until_members(&mut observer, 2).await;
    drop(ghost);
    until_members(&mut observer, 1).await;

    let second = joined(&mut a, &first.member_id).await;
    let members: Vec<_> = second.members.iter().map(|member| member.member_id.as_str()).collect();
    assert_eq!((second.generation_id, members), (2, vec![first.member_id.as_str()]));
}

#[tokio::test]
async fn a_member_that_hangs_up_while_it_joins_comes_again_and_is_let_in() {
    let broker = broker().await;
    let mut observer = RawClient::of(&broker);
    let mut a = RawClient::of(&broker);
    let first = joined(&mut a, "").await;
    sync(&mut a, first.generation_id, &first.member_id).await;

    // From version 4 on it is told its id first.
    let mut b = RawClient::of(&broker);
    let told = b.call(5, &join("")).await;
    assert_eq!(ErrorCode::from_wire(told.error_code), ErrorCode::MemberIdRequired);
    b.send(5, &join(&told.member_id)).await;
    until_members(&mut observer, 2).await;
    drop(b);
    let mut again = RawClient::of(&broker);
    again.send(5, &join(&told.member_id)).await;
    let second = joined(&mut a, &first.member_id).await;
    let (_, of_b) = again.receive::<JoinGroupRequest>(5).await;
    assert_eq!(ErrorCode::from_wire(of_b.error_code), ErrorCode::None);
    assert_eq!((second.generation_id, second.members.len(), of_b.generation_id), (2, 2, 2));
}
