//! CreateAcls (key 30), versions 1 to 3: says who may do what. There is no authoriser that would hear of it.
//!
//! - 2: flexible. 3: users.

use atonce_protocol::messages::create_acls_request::CreateAclsRequest;
use atonce_protocol::messages::create_acls_response::{AclCreationResult, CreateAclsResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::describe_acls::NO_AUTHORIZER;
use super::{Api, Call};

pub(super) const API: Api = Api { key: ApiKey::CreateAcls, versions: 1..=3, run: |incoming| incoming.in_place(handle) };

async fn handle(_call: Call, request: CreateAclsRequest) -> CreateAclsResponse {
    let refused = AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.to_i16(),
        error_message: Some(NO_AUTHORIZER.to_owned()),
        ..Default::default()
    };
    CreateAclsResponse { results: vec![refused; request.creations.len()], ..Default::default() }
}
