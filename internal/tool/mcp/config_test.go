package mcp

import "testing"

func TestValidateNamesTheFieldAndWhatToWrite(t *testing.T) {
	tests := map[string]struct {
		reason string
		config Config
		want   string
	}{
		"Good":          {"nothing to complain about", Config{Allow: []string{"get_*", "[a-z]"}, Deny: []string{`\[`}}, ""},
		"Transport":     {"one that is not spoken", Config{Transport: "stdio"}, `transport "stdio" is unknown: write StreamableHTTP or SSE`},
		"NoHost":        {"nothing to connect to", Config{URL: "https:///mcp"}, "the URL must begin with https:// or http:// and name a host"},
		"Credentials":   {"a URL is no place for a password", Config{URL: "https://me:secret@t/mcp"}, "the URL must not carry credentials: use auth or headers"},
		"Allow":         {"a class without its end", Config{Allow: []string{"*", "get_["}}, `spec.allow: glob "get_[" cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`},
		"ApprovalTools": {"an escape of nothing", Config{ApprovalTools: []string{`a\`}}, `spec.approvalTools: glob "a\\" cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`},
		"FirstOfTwo":    {"the same words each time, or a status never rests", Config{Allow: []string{"["}, Deny: []string{"[]"}}, `spec.allow: glob "[" cannot be parsed: write a class as [a-z], and \[ or \\ for a [ or \ itself`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.config.URL == "" {
				tc.config.URL = "https://t/mcp"
			}
			got := ""
			if err := tc.config.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
