#!/bin/sh
# Starts an order, sends the approval that it waits for and prints the result: with curl, against pawl dev.
set -eu
api=${PAWL_URL:-http://127.0.0.1:7295}/api/v1
id=${1:?usage: orders.sh ORDER}

# -f fails on an error; the key makes a repeat harmless.
post() {
	curl -fsS --retry 5 --retry-all-errors -H 'Content-Type: application/json' -H "Idempotency-Key: $1" -d "$3" "$api$2"
}

post "start-$id" /instances "{\"orchestration\":\"fulfil-order\",\"id\":\"$id\",\"input\":{\"id\":\"$id\",\"item\":\"lamp\",\"quantity\":1,\"cents\":4900}}"
post "approve-$id" "/instances/$id/events/approved" '{"by":"finance"}'
curl -fsS "$api/instances/$id/result?wait=30s"
