package model

import (
	"encoding/json"
	"strings"
	"time"
)

// rpcDetails are the google.rpc details of an error, which say more than its status.
type rpcDetails []rpcDetail

type rpcDetail struct {
	Type       string `json:"@type"`
	Reason     string `json:"reason"`
	RetryDelay string `json:"retryDelay"`
	Violations []struct {
		QuotaID string `json:"quotaId"`
	} `json:"violations"`
}

// UnmarshalJSON lets what is no list of details be: other servers have details of their own kind.
func (d *rpcDetails) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	_ = json.Unmarshal(data, &list)
	for _, raw := range list {
		var one rpcDetail
		if json.Unmarshal(raw, &one) == nil {
			*d = append(*d, one)
		}
	}
	return nil
}

// reason is a reason that is clearer than the status, "" for none: a bad key is an INVALID_ARGUMENT, and a quota of the day
// that is used up is a RESOURCE_EXHAUSTED like that of a minute, which may stand beside it.
func (d rpcDetails) reason() string {
	for _, one := range d {
		switch {
		case strings.HasSuffix(one.Type, "/google.rpc.ErrorInfo") && one.Reason == "API_KEY_INVALID":
			return one.Reason
		case strings.HasSuffix(one.Type, "/google.rpc.QuotaFailure"):
			for _, v := range one.Violations {
				if strings.Contains(v.QuotaID, "PerDay") {
					return "insufficient_quota"
				}
			}
		}
	}
	return ""
}

// retryAfter is how long the API asks to wait, 0 where it says nothing.
func (d rpcDetails) retryAfter() time.Duration {
	for _, one := range d {
		if delay, err := time.ParseDuration(one.RetryDelay); err == nil && strings.HasSuffix(one.Type, "/google.rpc.RetryInfo") {
			return max(delay, 0)
		}
	}
	return 0
}
