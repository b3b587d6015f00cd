package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Stored is what etcd itself holds of this project's objects, by key, where the key begins with a prefix such as
// agenttasks/team-a/.
func (c *Cluster) Stored(ctx context.Context, prefix string) (map[string][]byte, error) {
	first := []byte("/registry/agentloop.dev/" + prefix)
	end := bytes.Clone(first)
	end[len(end)-1]++
	question, err := json.Marshal(map[string][]byte{"key": first, "range_end": end})
	if err != nil {
		return nil, err
	}
	url := strings.TrimSuffix(c.Env.ControlPlane.Etcd.URL.String(), "/") + "/v3/kv/range"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("etcd answered %s", resp.Status)
	}
	var answer struct {
		Kvs []struct{ Key, Value []byte }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	stored := map[string][]byte{}
	for _, kv := range answer.Kvs {
		stored[string(kv.Key)] = kv.Value
	}
	return stored, nil
}
