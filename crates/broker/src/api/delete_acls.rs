//! DeleteAcls (key 31), versions 1 to 3: takes back who may do what. There is no authoriser that would hear of it.
//!
//! - 2: flexible. 3: users.

use atonce_protocol::messages::delete_acls_request::DeleteAclsRequest;
use atonce_protocol::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::describe_acls::NO_AUTHORIZER;
use super::{Api, Call};

pub(super) const API: Api = Api { key: ApiKey::DeleteAcls, versions: 1..=3, run: |incoming| incoming.in_place(handle) };

async fn handle(_call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.to_i16(),
        error_message: Some(NO_AUTHORIZER.to_owned()),
        ..Default::default()
    };
    DeleteAclsResponse { filter_results: vec![refused; request.filters.len()], ..Default::default() }
}
