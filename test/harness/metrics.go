package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// APIWrites counts, at the API server, the writes to a group's kinds and to events, by resource.
func APIWrites(ctx context.Context, cfg *rest.Config, group string) (map[string]int, error) {
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	raw, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	requests, err := samples(string(raw), "apiserver_request_total")
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, s := range requests {
		switch s.labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY":
		default:
			continue
		}
		if s.labels["group"] == group || s.labels["resource"] == "events" {
			out[strings.Trim(s.labels["resource"]+"/"+s.labels["subresource"], "/")] += int(s.value)
		}
	}
	return out, nil
}

// Sum reads a metric from a manager's --metrics-bind-address, over all of its samples that carry the label.
func Sum(ctx context.Context, address, metric, label, value string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answered %s", address, resp.Status)
	}
	all, err := samples(string(raw), metric)
	for _, s := range all {
		if s.labels[label] == value {
			sum += s.value
		}
	}
	return sum, err
}

type sample struct {
	labels map[string]string
	value  float64
}

// samples are those of one counter or gauge.
func samples(text, metric string) (out []sample, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, m := range families[metric].GetMetric() {
		s := sample{labels: map[string]string{}, value: m.GetCounter().GetValue() + m.GetGauge().GetValue()}
		for _, l := range m.GetLabel() {
			s.labels[l.GetName()] = l.GetValue()
		}
		out = append(out, s)
	}
	return out, nil
}

// Percentile sorts the times and gives the pth of a hundred.
func Percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*p/100)].Round(100 * time.Microsecond)
}
