# Everything a developer does here. `make help` lists it.
SHELL := /usr/bin/env bash -o pipefail
TOOL  := go tool -modfile=hack/tools/go.mod

.PHONY: help
help: ## List the targets.
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Generate deepcopy, apply configurations, CRDs, RBAC and docs/api.md.
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	$(TOOL) controller-gen applyconfiguration:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen rbac:roleName=agenttask-operator paths=./internal/controller/... output:rbac:artifacts:config=config/rbac
	$(TOOL) crd-ref-docs --log-level=ERROR --source-path=./api --config=hack/api-docs.yaml --renderer=markdown --output-path=docs/api.md

.PHONY: build
build: ## Build the manager to bin/.
	go build -o bin/ ./cmd/...

.PHONY: demo
demo: build ## Run every sample task on a real control plane, and show how each ends.
	go run ./hack/demo

.PHONY: dev
dev: build ## The same control plane and operator, kept up for use with kubectl.
	go run ./hack/demo -keep

.PHONY: test
test: ## Unit tests and the suite against a real control plane, with the race detector.
	hack/controlplane/ensure.sh >/dev/null
	go test -race ./...

.PHONY: example
example: ## The test kit for others, as a module that is outside of this one uses it.
	cd examples/agenttest && KUBEBUILDER_ASSETS="$$(../../hack/controlplane/ensure.sh)" go test -race -count=1 ./...

.PHONY: test-servers
test-servers: ## The providers and tools against servers that others wrote (needs node and npm).
	go test -race -tags mockservers ./internal/model/... ./internal/tool/...

.PHONY: chart-test
chart-test: ## The Helm chart, config/default and the GitOps recipes, on a real control plane.
	hack/chart-test.sh

.PHONY: image
image: ## The multi-arch image, as an OCI layout in dist/.
	hack/image/build.sh

.PHONY: image-test
image-test: ## What builds and looks into the image.
	cd hack/image && go test -race ./...

.PHONY: cover
cover: ## Statement coverage of the loop.
	go test -coverprofile=cover.out -coverpkg=./internal/loop/... ./internal/loop/...
	go tool cover -func=cover.out | tail -1

.PHONY: lint
lint: ## golangci-lint, with kube-api-linter on the API.
	hack/lint.sh

.PHONY: verify
verify: generate lint ## Generated files are current, lint is clean, go.mod is tidy.
	go mod tidy
	cd examples/agenttest && go mod tidy
	charts/sync-crds.sh
	@git diff --exit-code -- . || { echo 'Generated files or go.mod are not current: commit what `make verify` changed.'; exit 1; }

.PHONY: vuln
vuln: ## Known vulnerabilities in what is shipped; says so where their database cannot be reached.
	hack/vuln.sh

.PHONY: chaos
chaos: build ## Kill managers, move leadership and restart the API server under load; count what is lost or repeated.
	go test -tags chaos -count=1 -timeout 30m -v ./test/chaos

.PHONY: share
share: build ## No task, tenant, schema or server stops the others: the operator as a process with the chart's memory.
	go test -tags share -count=1 -timeout 60m -v ./test/share

.PHONY: share-smoke
share-smoke: build ## What CI runs of it and of the hostile part, for two minutes.
	go test -tags share -short -count=1 -timeout 10m -v -run 'TestSchemaBombs|TestSaturation|TestHostile' ./test/share

.PHONY: hostile
hostile: build ## What one namespace makes to harm the others: conversations, lists of tools, requests and schemas, beside ordinary tasks.
	go test -tags share -count=1 -timeout 30m -v -run 'TestHostile|TestSchemaBombs' ./test/share

.PHONY: bench
bench: build ## Measure the operator beside the API server's own limit.
	go test -tags bench -count=1 -timeout 60m -v ./test/bench
