package main

import (
	"os"
	"testing"
)

func TestChartReadmeIsCurrent(t *testing.T) {
	dir := "../" + chartDir
	want, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(dir + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("charts/agenttask-operator/README.md is not what values.yaml gives: run `go run ./chartdocs` in test/chart")
	}
}
