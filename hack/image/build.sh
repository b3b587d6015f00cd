#!/usr/bin/env bash
# Builds the manager's image for amd64 and arm64 into dist/image (an OCI layout) and dist/agenttask-operator.oci.tar, and
# looks into what came out. No daemon, and no base image from anywhere: it is made here.
#
#   build.sh                        build
#   build.sh --push REPO:TAG        build, and push to a registry
#
# VERSION, COMMIT and SOURCE_DATE_EPOCH may be set; by default they are Git's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

git_or() { git "${@:2}" 2>/dev/null || echo "$1"; }
export VERSION=${VERSION:-$(git_or dev describe --tags --always --dirty)}
export COMMIT=${COMMIT:-$(git_or unknown rev-parse HEAD)}
# The commit's time: the same commit gives the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git_or 0 log -1 --format=%ct)}
export KO_DATA_DATE_EPOCH=$SOURCE_DATE_EPOCH

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
(cd "$here" && go build -o "$tools/" . github.com/google/ko)
PATH=$tools:$PATH "$tools/image" --config "$here/ko.yaml" --out dist "$@"
