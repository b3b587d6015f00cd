package openai

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

const refusedCap = `{"error":{"message":"max_tokens is too large: 900000. This model supports at most 4096 completion tokens, whereas you provided 900000.","type":"invalid_request_error","param":"max_tokens","code":null}}`

func TestARefusedCapIsTold(t *testing.T) {
	for reason, a := range map[string]answer{
		"by its status":                 {status: 400, body: refusedCap},
		"in a plain answer of a status": {status: 200, body: refusedCap},
		"in a stream":                   {body: "data: " + refusedCap + "\n\n"},
		// To a server that does not know the other name, the request would have no cap at all.
		"and not sent under the other name": {status: 422, body: `{"detail":[{"loc":["body","max_tokens"],"msg":"Input should be less than or equal to 4096"}]}`},
	} {
		t.Run(reason, func(t *testing.T) {
			f := serve(t, a)
			_, err := f.model(t).Generate(t.Context(), &loop.Request{MaxOutputTokens: 900_000}, func(int) {})
			e := wantError(t, err, loop.CauseModelRequestInvalid, false)
			if want := (loop.RefusedCap{Sent: 900_000, Max: 4096}); e.OutputCap == nil || *e.OutputCap != want {
				t.Errorf("got %+v", e.OutputCap)
			}
			if len(f.requests) != 1 {
				t.Errorf("%d requests", len(f.requests))
			}
		})
	}
}

func TestTheCapThatWasSentIsTheOneThatIsRefused(t *testing.T) {
	f := serve(t, answer{status: 400, body: refusedCap})
	m := f.model(t, func(c *model.Config) { c.Parameters.MaxOutputTokens = 50_000 })
	_, err := m.Generate(t.Context(), &loop.Request{}, func(int) {})
	if e := wantError(t, err, loop.CauseModelRequestInvalid, false); e.OutputCap == nil || e.OutputCap.Sent != 50_000 {
		t.Errorf("got %+v", e.OutputCap)
	}
}

func TestACapThatWasSpentOnThoughtsIsACutReply(t *testing.T) {
	f := serve(t, answer{status: 400, header: map[string]string{"X-Request-Id": "req_1"},
		body: `{"error":{"message":"Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.","type":"invalid_request_error","param":null,"code":null}}`})
	reply, err := f.model(t).Generate(t.Context(), &loop.Request{MaxOutputTokens: 900}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if want := (loop.Usage{OutputTokens: 900, Estimated: true}); reply.Finish != loop.FinishLength || reply.Usage != want || reply.RequestID != "req_1" {
		t.Errorf("got %+v", reply)
	}
	if len(f.requests) != 1 {
		t.Errorf("%d requests: what was paid for is paid again", len(f.requests))
	}
}
