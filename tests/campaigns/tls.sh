#!/usr/bin/env bash
# The hosted listener's TLS before clients that are not ours: openssl s_client and curl, each version and cipher suite, resumption,
# bodies of megabytes, wrong protocols; and the page of metrics before Prometheus' own parser.
#   tests/campaigns/tls.sh [PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/campaigns/tools.sh
source tests/campaigns/tools.sh
need openssl openssl
need curl curl ca-certificates
target="${CARGO_TARGET_DIR:-$PWD/target}"
program="${1:-}"
if [[ -z "$program" ]]; then
    build_program
    program="$target/debug/recalld"
fi
parser="$target/campaigns/prometheus"
if [[ ! -d "$parser/prometheus_client" ]]; then
    python3 -m pip install -q --target "$parser" prometheus-client==0.22.1 >/dev/null 2>&1 ||
        skip "prometheus-client cannot be installed"
fi

scratch="$(mktemp -d)"
pid=""
trap 'end_scratch $pid' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/key.pem" -out "$scratch/certificate.pem" \
    -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost >/dev/null 2>&1
chmod 600 "$scratch/key.pem"
mkfifo "$scratch/ready"
"$program" serve --local 127.0.0.1:0 --hosted 127.0.0.1:0 --tls-cert "$scratch/certificate.pem" --tls-key "$scratch/key.pem" \
    --data "$scratch/data" >"$scratch/ready" 2>"$scratch/said" &
pid=$!
exec 7<"$scratch/ready"
read -r -t 120 line <&7 || fail "not ready: $(cat "$scratch/said")"
local_url="$(sed 's/.*local=\([^ ]*\).*/\1/' <<<"$line")"
port="$(sed 's/.*hosted=https:[^ ]*:\([0-9]*\) .*/\1/' <<<"$line")"
url="https://localhost:$port"
checked() { echo "checked: $*"; }

fetch() { curl -sS --max-time 20 --cacert "$scratch/certificate.pem" --resolve "localhost:$port:127.0.0.1" "$@"; }
for version in 1.2 1.3; do
    fetch "--tlsv$version" --tls-max "$version" "$url/health" | grep -q '"status":"ok"' || fail "curl, TLS $version"
    checked "curl, TLS $version"
done
# Three requests on one connection, one of them with a body that is refused for its lack of a bearer, but read.
head -c 3000000 /dev/zero >"$scratch/body"
answers="$(fetch -o /dev/null -w '%{http_code} ' "$url/health" --next -sS --cacert "$scratch/certificate.pem" \
    --resolve "localhost:$port:127.0.0.1" -o /dev/null -w '%{http_code} ' --data-binary "@$scratch/body" "$url/recall" --next -sS \
    --cacert "$scratch/certificate.pem" --resolve "localhost:$port:127.0.0.1" -o /dev/null -w '%{http_code}' "$url/health")"
[[ "$answers" == "200 403 200" ]] || fail "three requests in a row: $answers"
checked "a body of 3 MB between two requests"
[[ "$(curl -s --max-time 20 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/health")" == 400 ]] || fail "HTTP without TLS"
checked "HTTP without TLS is answered 400"

client() { openssl s_client -connect "127.0.0.1:$port" -servername localhost -CAfile "$scratch/certificate.pem" "$@" 2>&1 || true; }
request=$'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
for suite in TLS_AES_256_GCM_SHA384 TLS_AES_128_GCM_SHA256 TLS_CHACHA20_POLY1305_SHA256; do
    client -quiet -ign_eof -tls1_3 -ciphersuites "$suite" <<<"$request" | grep -q '"status":"ok"' || fail "$suite"
    checked "openssl, $suite"
done
for suite in ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-CHACHA20-POLY1305; do
    client -quiet -ign_eof -tls1_2 -cipher "$suite" <<<"$request" | grep -q '"status":"ok"' || fail "$suite"
    checked "openssl, $suite"
done
for version in -tls1_2 -tls1_3; do
    client "$version" -ign_eof -sess_out "$scratch/session" <<<"$request" >/dev/null
    client "$version" -ign_eof -sess_in "$scratch/session" <<<"$request" | grep -q '^Reused, ' || fail "no resumption, $version"
    checked "resumption, $version"
done
client -alpn h2 </dev/null | grep -q 'no application protocol' || fail "ALPN h2 alone"
client -alpn h2,http/1.1 </dev/null | grep -q 'ALPN protocol: http/1.1' || fail "ALPN"
checked "ALPN"
if client -tls1_1 -cipher 'ALL:@SECLEVEL=0' </dev/null | grep -q 'Cipher is ECDHE'; then fail "TLS 1.1 was agreed on"; fi
checked "TLS 1.1 is refused"

curl -sS --max-time 20 "$local_url/metrics" >"$scratch/metrics"
PYTHONPATH="$parser" python3 - "$scratch/metrics" <<'PYTHON'
import sys
from prometheus_client.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(open(sys.argv[1]).read()))
samples = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}
assert len(families) > 30, len(families)
assert samples[("recalld_tls_handshakes_total", ())] >= 12, samples
assert all(f.documentation and f.type in ("counter", "gauge", "histogram") for f in families)
print(f"checked: {len(families)} families, {len(samples)} samples, by prometheus_client")
PYTHON

kill -TERM "$pid"
status=0
wait "$pid" || status=$?
pid=""
((status == 0)) || fail "SIGTERM ended the server with $status: $(cat "$scratch/said")"
echo "tls: all as it should be"
