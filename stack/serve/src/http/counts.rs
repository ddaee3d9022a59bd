//! Counters of the HTTP server.

stack::counters! {
    /// Counters of the HTTP server. Each connection that the server ends for a limit is counted under one reason.
    HttpCounts {
        /// Requests with a complete head.
        requests: "http_requests",
        /// Responses with status 4xx or 5xx.
        errors: "http_errors",
        /// Responses with status 304.
        not_modified: "http_not_modified",
        /// Responses with status 206.
        ranges: "http_ranges",
        /// Files found in the cache.
        cache_hits: "http_cache_hits",
        /// Files looked up in the directory.
        cache_misses: "http_cache_misses",
        /// Blocks read for large files.
        blocks: "http_blocks_read",
        /// Reads that failed, or found less than the length of the file.
        read_errors: "http_read_errors",
        /// Connections reset: limit of connections.
        over_limit: "http_ended_connection_limit",
        /// Connections ended: a request took too long.
        request_time: "http_ended_request_time",
        /// Connections closed: no request.
        idle_time: "http_ended_idle_time",
        /// Connections reset: the client did not acknowledge enough.
        send_time: "http_ended_send_time",
        /// Connections reset: the client did not close.
        linger_time: "http_ended_linger_time",
        /// Connections reset: no memory for a response.
        no_memory: "http_ended_no_memory",
    }
}
