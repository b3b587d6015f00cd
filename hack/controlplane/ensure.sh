#!/usr/bin/env bash
# Prints the folder that holds kube-apiserver and etcd (what envtest calls KUBEBUILDER_ASSETS), making it when needed.
#
# Order: $KUBEBUILDER_ASSETS, the user's cache, a prebuilt download (setup-envtest, 20 s at most), a build from source.
# CI=true goes straight to the build. Everything said on the way goes to stderr.
#
#   ensure.sh            kube-apiserver and etcd
#   ensure.sh kubectl    these and a kubectl of the same version
set -euo pipefail
cd "$(dirname "$0")"

k8s=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
want=(kube-apiserver etcd "$@")

has() { # DIR: does it hold everything wanted?
	local p
	for p in "${want[@]}"; do [ -x "$1/$p" ] || return 1; done
}
say() { printf 'control plane: %s\n' "$*" >&2; }

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
	has "$KUBEBUILDER_ASSETS" || { say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks one of: ${want[*]}. Unset it to build them."; exit 1; }
	echo "$KUBEBUILDER_ASSETS"
	exit 0
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/agenttask-operator
dir=$cache/controlplane-$(go env GOOS)-$(go env GOARCH)-k8s-$k8s-etcd-$etcd
if has "$dir"; then
	echo "$dir"
	exit 0
fi

if [ -z "${CI:-}" ] && [ $# -eq 0 ] && [ ! -e "$cache/no-download" ]; then
	mkdir -p "$cache"
	minors=${k8s#v}
	minors=${minors%.*}
	if got=$(timeout 20 go tool -modfile=../tools/go.mod setup-envtest \
		use "${minors}.x" --print path --bin-dir "$cache/envtest" 2>/dev/null) && has "$got"; then
		echo "$got"
		exit 0
	fi
	: >"$cache/no-download" # asked once a machine: an offline one should not wait 20 s each time
	say "no prebuilt binaries could be downloaded within 20 s, so they are built from source"
fi

mkdir -p "$dir"
tmp=$(mktemp -d "$dir/.build.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

minor=${k8s#v1.}
ldflags="-s -w"
for kv in gitVersion="$k8s" gitMajor=1 gitMinor="${minor%%.*}" gitTreeState=clean; do
	ldflags+=" -X k8s.io/component-base/version.$kv"
done
build() { # NAME PACKAGE TIME
	[ -x "$dir/$1" ] && return
	say "building $1 from source, once for this machine (about $3 on two cores) ..."
	CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "$tmp/$1" "$2" >&2
	mv "$tmp/$1" "$dir/$1"
}
for p in "${want[@]}"; do
	case $p in
	etcd) build etcd go.etcd.io/etcd/server/v3 "1 minute" ;;
	kube-apiserver) build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "6 minutes" ;;
	*) build "$p" "k8s.io/kubernetes/cmd/$p" "1 to 4 minutes" ;;
	esac
done
say "ready in $dir"
echo "$dir"
