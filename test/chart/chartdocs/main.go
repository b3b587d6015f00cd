// Command chartdocs writes the chart's README from its values: `go run ./chartdocs`, in test/chart.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

const chartDir = "../../charts/agenttask-operator/"

//go:embed readme.md.tmpl
var page string

// value is a row of the table.
type value struct{ Path, Default, Description string }

func main() {
	text, err := generate(chartDir)
	if err == nil {
		err = os.WriteFile(chartDir+"README.md", []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(dir string) (string, error) {
	text, err := os.ReadFile(dir + "values.yaml")
	if err != nil {
		return "", err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return "", err
	}
	rows, err := values("", doc.Content[0])
	if err != nil {
		return "", err
	}
	meta := struct {
		Name, Description, Version, AppVersion, KubeVersion string
		Values                                              []value
	}{Values: rows}
	if text, err = os.ReadFile(dir + "Chart.yaml"); err != nil {
		return "", err
	}
	var chart map[string]any
	if err := yaml.Unmarshal(text, &chart); err != nil {
		return "", err
	}
	for key, to := range map[string]*string{
		"name": &meta.Name, "description": &meta.Description, "version": &meta.Version, "appVersion": &meta.AppVersion, "kubeVersion": &meta.KubeVersion,
	} {
		*to = fmt.Sprint(chart[key])
	}
	parsed, err := template.New("README").Parse(page)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = parsed.Execute(&out, meta)
	return out.String(), err
}

// values are the rows for a map. A map whose own keys have comments is gone into; any other is a value itself.
func values(prefix string, m *yaml.Node) ([]value, error) {
	var out []value
	for i := 0; i < len(m.Content); i += 2 {
		key, node := m.Content[i], m.Content[i+1]
		path := strings.TrimPrefix(prefix+"."+key.Value, ".")
		if node.Kind == yaml.MappingNode && commented(node) {
			inner, err := values(path, node)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
			continue
		}
		comment := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(key.HeadComment, "\n", " "), "# ", ""))
		if comment == "" {
			return nil, fmt.Errorf("values.yaml: %s has no comment above it", path)
		}
		var plain any
		if err := node.Decode(&plain); err != nil {
			return nil, err
		}
		text, err := json.Marshal(plain)
		if err != nil {
			return nil, err
		}
		escape := strings.NewReplacer("|", `\|`)
		out = append(out, value{path, escape.Replace(string(text)), escape.Replace(comment)})
	}
	return out, nil
}

func commented(m *yaml.Node) bool {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].HeadComment != "" || m.Content[i+1].Kind == yaml.MappingNode && commented(m.Content[i+1]) {
			return true
		}
	}
	return false
}
