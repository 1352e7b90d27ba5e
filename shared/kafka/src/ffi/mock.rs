//! librdkafka's mock cluster, for tests of what a real broker rarely answers.

use std::ffi::c_int;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::mocking::MockCluster;
use rdkafka_sys as sys;

/// OffsetCommit in the protocol.
pub(crate) const OFFSET_COMMIT: i16 = 8;
/// OffsetFetch in the protocol.
pub(crate) const OFFSET_FETCH: i16 = 9;
/// ListOffsets in the protocol.
pub(crate) const LIST_OFFSETS: i16 = 2;

unsafe extern "C" {
    fn rd_kafka_handle_mock_cluster(
        rk: *const sys::rd_kafka_t,
    ) -> *mut sys::rd_kafka_mock_cluster_t;
    /// With integers for the codes: a mock broker can answer with what the bindings have no name for.
    fn rd_kafka_mock_push_request_errors_array(
        cluster: *mut sys::rd_kafka_mock_cluster_t,
        api_key: i16,
        count: usize,
        codes: *const c_int,
    );
}

/// A cluster of one broker that lives in this process.
pub(crate) struct MockBroker {
    owner: BaseConsumer<DefaultConsumerContext>,
}

impl MockBroker {
    pub(crate) fn new() -> Self {
        let owner = ClientConfig::new()
            .set("test.mock.num.brokers", "1")
            .create()
            .unwrap();
        Self { owner }
    }

    pub(crate) fn cluster(&self) -> MockCluster<'_, DefaultConsumerContext> {
        self.owner.client().mock_cluster().unwrap()
    }

    /// Answers the next requests of this kind with these error codes, whatever they are.
    pub(crate) fn answer(&self, api_key: i16, codes: &[i32]) {
        // SAFETY: the cluster belongs to the owner, which is live; the codes are copied.
        unsafe {
            let cluster = rd_kafka_handle_mock_cluster(self.owner.client().native_ptr());
            rd_kafka_mock_push_request_errors_array(cluster, api_key, codes.len(), codes.as_ptr());
        }
    }
}
