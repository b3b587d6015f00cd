package model

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Prepared checks a configuration and returns it as the providers use it: values from Secrets lose the line break that
// `kubectl create secret --from-file` leaves at their end. Its errors name no value.
func (c Config) Prepared() (Config, error) {
	if c.Model == "" {
		return c, errors.New("the model has no name")
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return c, errors.New("the endpoint is no http or https URL")
		}
	}
	c.APIKey = strings.TrimSpace(c.APIKey)
	if !httpguts.ValidHeaderFieldValue(c.APIKey) {
		return c, errors.New("the API key holds characters that cannot be sent in a header")
	}
	headers := make(map[string]string, len(c.Headers))
	for name, value := range c.Headers {
		value = strings.TrimSpace(value)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return c, fmt.Errorf("the header %q cannot be sent", name)
		}
		headers[name] = value
	}
	c.Headers = headers
	return c, nil
}

// OutputCap is the smaller of two caps on a reply's tokens, where 0 is none. It fits 32 bits, which is what servers read.
func OutputCap(request, configured int64) int64 {
	smaller := max(configured, 0)
	if request > 0 && (smaller == 0 || request < smaller) {
		smaller = request
	}
	return min(smaller, math.MaxInt32)
}
