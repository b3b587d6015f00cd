#!/usr/bin/env bash
# Looks for known vulnerabilities in what the operator, kubectl-agenttask and the image builder call; `make vuln`. Fails on one that
# is called. Where the database cannot be reached it checks nothing, and says so.
#
# VULNDB is another database: the URL of a mirror, or file:///FOLDER. One that is named and cannot be read is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
db=${VULNDB:-https://vuln.go.dev}
govulncheck() { go tool -modfile=hack/tools/go.mod govulncheck -db "$db" "$@"; }

version=$(govulncheck -version)
# It tells the database's age only of one that it can read.
if [[ $version != *"DB updated"* ]]; then
	echo "vuln: NOT CHECKED: the database $db cannot be reached: name a mirror in VULNDB." >&2
	exit 0
fi
echo "$version"
for module in . hack/image; do
	govulncheck -C "$module" ./...
done
