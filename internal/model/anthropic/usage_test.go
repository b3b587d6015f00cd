package anthropic

import (
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// Reports of one reply: the first is that of its start, the others are those of its deltas.
func TestInputIsCountedOnce(t *testing.T) {
	usage := func(input, cached, output int64) loop.Usage {
		return loop.Usage{InputTokens: input, CachedInputTokens: cached, OutputTokens: output, TotalTokens: input + output}
	}
	const split = `{"input_tokens":20,"output_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":4980}`
	for reason, tc := range map[string]struct {
		reports []string
		want    loop.Usage
	}{
		"the whole, then its kinds":            {[]string{`{"input_tokens":5000,"output_tokens":0}`, split}, usage(5000, 4980, 10)},
		"the whole with zeros, then its kinds": {[]string{`{"input_tokens":5000,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}`, split}, usage(5000, 4980, 10)},
		"a guess at the whole, then its kinds": {[]string{`{"input_tokens":5200}`, split}, usage(5000, 4980, 10)},
		"a low guess, then its kinds":          {[]string{`{"input_tokens":4000}`, split}, usage(5000, 4980, 10)},
		"kinds told again":                     {[]string{`{"input_tokens":5000}`, split, split}, usage(5000, 4980, 10)},
		"kinds, then only output":              {[]string{`{"input_tokens":5000}`, split, `{"output_tokens":12}`}, usage(5000, 4980, 12)},
		"kinds, then zeros":                    {[]string{`{"input_tokens":5000}`, split, `{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":12}`}, usage(5000, 4980, 12)},
		"kinds, then nulls":                    {[]string{split, `{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":12}`}, usage(5000, 4980, 12)},
		"kinds, then the whole":                {[]string{split, `{"input_tokens":5000,"output_tokens":12}`}, usage(5000, 4980, 12)},
		"kinds, then a larger whole":           {[]string{split, `{"input_tokens":5010,"output_tokens":12}`}, usage(5010, 4980, 12)},
		"the whole, its kinds, and the whole":  {[]string{`{"input_tokens":5000}`, split, `{"input_tokens":5000,"output_tokens":12}`}, usage(5000, 4980, 12)},
		"kinds, then one of them":              {[]string{split, `{"input_tokens":20,"output_tokens":12}`}, usage(5000, 4980, 12)},
		"kinds, then fewer":                    {[]string{`{"input_tokens":20,"cache_creation_input_tokens":80,"cache_read_input_tokens":100}`, `{"input_tokens":20,"cache_read_input_tokens":100,"output_tokens":12}`}, usage(200, 100, 12)},
		"kinds that move":                      {[]string{`{"input_tokens":4000,"cache_read_input_tokens":1000}`, split}, usage(5000, 4980, 10)},
		"the whole, then what was written":     {[]string{`{"input_tokens":5000}`, `{"input_tokens":20,"cache_creation_input_tokens":4980,"output_tokens":10}`}, usage(5000, 0, 10)},
		"the whole, then both":                 {[]string{`{"input_tokens":5000}`, `{"input_tokens":20,"cache_creation_input_tokens":980,"cache_read_input_tokens":4000,"output_tokens":10}`}, usage(5000, 4000, 10)},
		"written, told by cache alone":         {[]string{`{"input_tokens":20,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":40}}`, `{"output_tokens":10}`}, usage(90, 0, 10)},
		"written, told in both ways":           {[]string{`{"input_tokens":20,"cache_creation_input_tokens":70,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":40}}`, `{"output_tokens":10}`}, usage(90, 0, 10)},
		"all of the whole was cached":          {[]string{`{"input_tokens":5000}`, `{"input_tokens":0,"cache_read_input_tokens":5000,"output_tokens":10}`}, usage(5000, 5000, 10)},
		"what was cached comes later":          {[]string{`{"input_tokens":5000}`, `{"cache_read_input_tokens":3000,"output_tokens":10}`}, usage(8000, 3000, 10)},
		"what was not cached comes later":      {[]string{`{"cache_read_input_tokens":100}`, `{"input_tokens":100,"output_tokens":10}`}, usage(200, 100, 10)},
		"a lower whole":                        {[]string{`{"input_tokens":5000}`, `{"input_tokens":20,"output_tokens":10}`}, usage(5000, 0, 10)},
		"running totals of all kinds":          {[]string{`{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30}`, `{"input_tokens":15,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":9}`}, usage(65, 30, 9)},
		"absurd counts stay above zero":        {[]string{`{"input_tokens":9223372036854775807,"cache_read_input_tokens":9223372036854775807}`, `{"output_tokens":10}`}, usage(2<<40, 1<<40, 10)},
		"a count below zero is none":           {[]string{`{"input_tokens":5000,"cache_read_input_tokens":-1}`, `{"input_tokens":-5,"output_tokens":10}`}, usage(5000, 0, 10)},
	} {
		t.Run(reason, func(t *testing.T) {
			evs := []string{`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":` + tc.reports[0] + `}}`,
				evBlock("0", `{"type":"text","text":"Hello"}`), evEnd("0")}
			for i, report := range tc.reports[1:] {
				stop := "null"
				if i == len(tc.reports)-2 {
					stop = `"end_turn"`
				}
				evs = append(evs, `{"type":"message_delta","delta":{"stop_reason":`+stop+`},"usage":`+report+`}`)
			}
			f := modeltest.Serve(t, events(append(evs, evStop)...))
			reply, _, err := modeltest.Generate(t, mustNew(t, f.Config("m")))
			if err != nil || reply.Usage != tc.want {
				t.Errorf("got %+v, %v; want %+v", reply.Usage, err, tc.want)
			}
		})
	}
}
