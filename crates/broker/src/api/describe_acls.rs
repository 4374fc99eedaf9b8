//! DescribeAcls (key 29), versions 1 to 3: who may do what. Everybody may do everything, and that is said: SECURITY_DISABLED, as
//! Kafka without an authoriser.
//!
//! - 2: flexible. 3: users.

use atonce_protocol::messages::describe_acls_request::DescribeAclsRequest;
use atonce_protocol::messages::describe_acls_response::DescribeAclsResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};

pub(super) const API: Api =
    Api { key: ApiKey::DescribeAcls, versions: 1..=3, run: |incoming| incoming.in_place(handle) };

/// In the words of Kafka.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured on the broker";

async fn handle(_call: Call, _request: DescribeAclsRequest) -> DescribeAclsResponse {
    DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.to_i16(),
        error_message: Some(NO_AUTHORIZER.to_owned()),
        ..Default::default()
    }
}
