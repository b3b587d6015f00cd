package anthropic

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestSamplingIsDroppedWhereItIsRefused(t *testing.T) {
	v := 0.5
	refuse := func(message string) http.HandlerFunc {
		return modeltest.Status(400, nil, apiError("invalid_request_error", message))
	}
	temperature, schema := refuse("`temperature` is deprecated for this model."), refuse("output_config.format.schema: minProperties")
	all, noSampling, nothing := "temperature top_p schema", "schema", ""
	for reason, tc := range map[string]struct {
		answers []http.HandlerFunc
		// asked are the optional parts of each request, for two calls.
		asked []string
	}{
		"temperature, which is remembered": {[]http.HandlerFunc{temperature, events(hello...)}, []string{all, noSampling, noSampling}},
		"top_p":                            {[]http.HandlerFunc{refuse("top_p: is not supported"), events(hello...)}, []string{all, noSampling, noSampling}},
		"both together": {[]http.HandlerFunc{refuse("`temperature` and `top_p` cannot both be specified for this model. Please use only one."), events(hello...)},
			[]string{all, noSampling, noSampling}},
		"then the schema": {[]http.HandlerFunc{temperature, schema, events(hello...)}, []string{all, noSampling, nothing, noSampling}},
		"a property of a tool is none": {[]http.HandlerFunc{refuse("tools.0.custom.input_schema.properties.temperature: invalid"), events(hello...)},
			[]string{all, "temperature top_p", all}},
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, tc.answers...)
			cfg := f.Config("claude-x")
			cfg.Parameters.Temperature, cfg.Parameters.TopP = &v, &v
			m := mustNew(t, cfg)
			req := modeltest.Request()
			req.OutputSchema = json.RawMessage(`{"type":"object","minProperties":1}`)
			for range 2 {
				if _, err := m.Generate(t.Context(), req, func(int) {}); err != nil {
					t.Fatal(err)
				}
			}
			if _, bodies := f.Seen(); !reflect.DeepEqual(optionalParts(bodies), tc.asked) {
				t.Errorf("asked with %q, want %q", optionalParts(bodies), tc.asked)
			}
		})
	}
}

func optionalParts(bodies []map[string]any) []string {
	var out []string
	for _, b := range bodies {
		var parts []string
		for _, p := range []struct{ field, name string }{{"temperature", "temperature"}, {"top_p", "top_p"}, {"output_config", "schema"}} {
			if b[p.field] != nil {
				parts = append(parts, p.name)
			}
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

func TestSamplingThatStaysRefusedIsNamed(t *testing.T) {
	v := 0.5
	for reason, tc := range map[string]struct {
		topP     *float64
		requests int
	}{
		"with and without it":      {&v, 2},
		"though it was never sent": {nil, 1},
	} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, modeltest.Status(400, nil, apiError("invalid_request_error", "`top_p` is deprecated for "+modeltest.CanaryPrompt)))
			cfg := f.Config("claude-x")
			cfg.Parameters.TopP = tc.topP
			_, _, err := modeltest.Generate(t, mustNew(t, cfg))
			e := modeltest.WantModelError(t, err)
			if e.Cause != loop.CauseModelRequestInvalid || e.Retry || !strings.HasSuffix(e.Detail, "parameter top_p") || f.Count() != tc.requests {
				t.Errorf("got %+v after %d requests", e, f.Count())
			}
		})
	}
}
