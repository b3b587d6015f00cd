#!/usr/bin/env bash
# Runs golangci-lint with kube-api-linter, built once for this machine into the user's cache. Arguments go to `run`.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agenttask-operator
bin=$cache/lint-$(cat hack/lint/go.sum | cksum | cut -d' ' -f1)
if [ ! -x "$bin" ]; then
	echo "lint: building golangci-lint from source, once for this machine (about 3 minutes) ..." >&2
	mkdir -p "$cache"
	(cd hack/lint && go build -o "$bin.$$" sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter)
	mv "$bin.$$" "$bin"
fi
# Each module by itself, all with the configuration of the first.
for module in . hack/image test/chart; do
	(cd "$module" && "$bin" run "$@")
done
