"""The metrics of servers that share a store: {name: (type, labels)}."""
CLUSTER = {
    "partitions": ("gauge", "state"), "cluster_servers": ("gauge", "state"),
    "lease_remaining_seconds": ("gauge", ""), "takeovers_total": ("counter", "why"),
    "takeover_seconds": ("histogram", ""), "forwarded_calls_total": ("counter", "method outcome"),
    "forward_seconds": ("histogram", ""), "outbox_messages": ("gauge", ""),
    "fenced_commits_total": ("counter", ""), "store_connections": ("gauge", "state"),
}
# What a server shows besides that serves no partition.
ALONE = ("build_info", "tls_expiry_timestamp_seconds", "audit_failed", "metrics_folded")
