#!/usr/bin/env bash
# Tests the Helm chart, config/default and the GitOps recipes; `make chart-test`. Needs Go and nothing else.
# Arguments go to `go test`, such as `-run TestHelm`.
set -euo pipefail
cd "$(dirname "$0")/.."
assets=${KUBEBUILDER_ASSETS:-$(hack/controlplane/ensure.sh)}
cd test/chart
# -count=1: the tests build and run cmd/manager, which the test cache does not know of.
KUBEBUILDER_ASSETS=$assets go test -count=1 -timeout 10m ./... "$@"
