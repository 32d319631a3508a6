#!/bin/sh
# Calls a Waypost gateway: waypost.sh METHOD TARGET [BODY ['Name: value' ...]]; BODY may be @FILE.
# It needs curl 7.76 and openssl, and WAYPOST_URL, WAYPOST_ACCESS_KEY and WAYPOST_SECRET_KEY. Sourced, it
# gives the function waypost_call. openssl takes the secret as an argument, which other users of the
# machine can see while it runs.

waypost_hash() { openssl dgst -sha256 -r "$@" | cut -d ' ' -f 1; }

# waypost_sign METHOD TARGET TIMESTAMP NONCE BODYHASH 'Name: value' ... prints X-Cloud-Signature's value;
# Host is one of the headers.
waypost_sign() (
	method=$1 path=${2%%\?*} query= now=$3 nonce=$4 hash=$5
	case $2 in *\?*) query=${2#*\?} ;; esac
	query=$(printf '%s' "$query" | tr '&' '\n' | sed -e '/^$/d' -e '/=/!s/$/=/' | LC_ALL=C sort | paste -sd '&' -)
	shift 5
	headers=$(printf '%s\n' "$@" "X-Cloud-Timestamp: $now" "X-Cloud-Nonce: $nonce" "X-Cloud-Content-SHA256: $hash" |
		LC_ALL=C awk '{
			name = tolower(substr($0, 1, index($0, ":") - 1)); value = substr($0, index($0, ":") + 1)
			gsub(/[ \t\r\v\f]+/, " ", value); gsub(/^ | $/, "", value)
			if (name ~ /^(host|x-cloud-(content-sha256|nonce|timestamp|stage|actor)|content-type|idempotency-key|if-match)$/)
				print name ":" value
		}' | LC_ALL=C sort)
	names=$(printf '%s\n' "$headers" | cut -d : -f 1 | paste -sd ';' -)
	canonical=$(printf '%s\n%s\n%s\n%s\n\n%s\n%s' "$method" "$path" "$query" "$headers" "$names" "$hash" | waypost_hash)
	signature=$(printf 'CLOUD1-HMAC-SHA256\n%s\n%s\n%s' "$now" "$nonce" "$canonical" | waypost_hash -hmac "$WAYPOST_SECRET_KEY")
	echo "CLOUD1-HMAC-SHA256 Credential=$WAYPOST_ACCESS_KEY, SignedHeaders=$names, Signature=$signature"
)

# waypost_call METHOD TARGET [BODY ['Name: value' ...]] prints the answer's body; it fails from status 400 on.
waypost_call() (
	method=$1 target=$2 body=${3-} host=${WAYPOST_URL#*://}
	shift $(($# < 3 ? $# : 3))
	if [ -n "$body" ] && ! printf '%s\n' "$@" | grep -qi '^content-type:'; then
		set -- "$@" 'Content-Type: application/json'
	fi
	now=$(date +%s) nonce=$(openssl rand -hex 16)
	case $body in @*) hash=$(waypost_hash "${body#@}") ;; *) hash=$(printf '%s' "$body" | waypost_hash) ;; esac
	signature=$(waypost_sign "$method" "$target" "$now" "$nonce" "$hash" "Host: ${host%%/*}" "$@")
	set -- "$@" "X-Cloud-Timestamp: $now" "X-Cloud-Nonce: $nonce" "X-Cloud-Content-SHA256: $hash" "X-Cloud-Signature: $signature"
	for header; do
		set -- "$@" -H "$header"
		shift
	done
	if [ -n "$body" ]; then set -- "$@" --data-binary "$body"; fi
	curl -sS -g --path-as-is --fail-with-body -w '\n' -X "$method" "$@" "${WAYPOST_URL%/}$target"
)

case ${0##*/} in waypost.sh) waypost_call "$@" ;; esac
