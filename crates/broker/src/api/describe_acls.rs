//! DescribeAcls (key 29), versions 1 to 3: who may do what. Everybody may do everything, and that is said: SECURITY_DISABLED, as
//! Kafka without an authoriser. A filter of the kind 0, which the protocol calls unknown, closes the connection, as there: no client
//! asks so.
//!
//! - 2: flexible. 3: users.

use atonce_protocol::messages::describe_acls_request::DescribeAclsRequest;
use atonce_protocol::messages::describe_acls_response::DescribeAclsResponse;
use atonce_protocol::{ApiKey, ErrorCode, Message as _};

use super::{Api, Incoming, Taken};

pub(super) const API: Api = Api { key: ApiKey::DescribeAcls, versions: 1..=3, run };

/// In the words of Kafka.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured on the broker";

fn run(mut incoming: Incoming) -> Taken {
    let request = match DescribeAclsRequest::decode(&mut incoming.body, incoming.call.version) {
        Ok(request) => request,
        Err(error) => return Taken::Now(super::undecodable(&incoming.call, &error)),
    };
    let kinds = [request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type];
    if kinds.contains(&0) {
        return Taken::Now(super::close(format!("DescribeAcls has a filter of an unknown kind: {kinds:?}")));
    }
    let response = DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.to_i16(),
        error_message: Some(NO_AUTHORIZER.to_owned()),
        ..Default::default()
    };
    Taken::Now(Box::pin(std::future::ready(super::answer(&incoming.call, &response))))
}
