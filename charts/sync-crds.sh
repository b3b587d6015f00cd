#!/usr/bin/env bash
# Copies the generated CRDs into the chart. A test fails while the two differ.
set -euo pipefail
cd "$(dirname "$0")"
rm -f agenttask-operator/files/crds/*.yaml
cp ../config/crd/bases/*.yaml agenttask-operator/files/crds/
