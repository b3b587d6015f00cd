//go:build share

package share

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// held is what etcd holds of one task, in bytes but for the number of transcripts. It counts against etcd's quota; the history
// of the last minutes comes on top until it is compacted.
type held struct{ object, transcripts, journal int64 }

// etcdOf asks etcd itself.
func (r *rig) etcdOf(name string) (h held) {
	r.Helper()
	t := r.get(name)
	_, h.object = r.etcd("agenttasks/" + namespace + "/" + t.Name)
	h.transcripts, h.journal = r.etcd("agenttranscripts/" + namespace + "/" + string(t.UID))
	return h
}

// etcd counts the keys of this project with a prefix, and the bytes of their values.
func (r *rig) etcd(prefix string) (keys, size int64) {
	r.Helper()
	first := []byte("/registry/agentloop.dev/" + prefix)
	end := bytes.Clone(first)
	end[len(end)-1]++
	question, err := json.Marshal(map[string][]byte{"key": first, "range_end": end})
	r.must(err)
	url := strings.TrimSuffix(r.cluster.Env.ControlPlane.Etcd.URL.String(), "/") + "/v3/kv/range"
	req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, url, bytes.NewReader(question))
	r.must(err)
	resp, err := http.DefaultClient.Do(req)
	r.must(err)
	defer resp.Body.Close()
	var answer struct {
		Kvs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if resp.StatusCode != http.StatusOK {
		r.Fatalf("etcd answered %s", resp.Status)
	}
	r.must(json.NewDecoder(resp.Body).Decode(&answer))
	for _, kv := range answer.Kvs {
		keys++
		size += int64(len(kv.Value))
	}
	return keys, size
}
