//! Counters of the HTTP server.

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident $name:literal,)*) => {
        /// Counters of the HTTP server. Each connection that the server ends for a limit is counted under one reason.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct HttpCounts {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl HttpCounts {
            /// All counters with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field),)*].into_iter()
            }
        }
    };
}

counts! {
    /// Requests with a complete head.
    requests "HttpRequests",
    /// Responses with status 4xx or 5xx.
    errors "HttpErrors",
    /// Responses with status 304.
    not_modified "HttpNotModified",
    /// Responses with status 206.
    ranges "HttpRanges",
    /// Files found in the cache.
    cache_hits "HttpCacheHits",
    /// Files looked up in the directory.
    cache_misses "HttpCacheMisses",
    /// Blocks read for large files.
    blocks "HttpBlocksRead",
    /// Reads that failed, or found less than the length of the file.
    read_errors "HttpReadErrors",
    /// Connections reset: limit of connections.
    over_limit "HttpEndedConnectionLimit",
    /// Connections ended: a request took too long.
    request_time "HttpEndedRequestTime",
    /// Connections closed: no request.
    idle_time "HttpEndedIdleTime",
    /// Connections reset: the client did not acknowledge enough.
    send_time "HttpEndedSendTime",
    /// Connections reset: the client did not close.
    linger_time "HttpEndedLingerTime",
    /// Connections reset: no memory for a response.
    no_memory "HttpEndedNoMemory",
}
