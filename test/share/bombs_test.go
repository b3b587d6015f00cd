//go:build share

package share

import (
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// bomb is a task whose evaluation costs far more than its size.
type bomb struct {
	name   string
	schema string
	// result is what the model gives as the task's result.
	result   string
	stopWhen string
}

// bombs are all kinds that were thought of. Some cost little in a validator that is clever enough; none may cost others anything.
func bombs(depths []int) []bomb {
	out := []bomb{
		{name: "nested", schema: nested(60), result: `{"a":1}`},
		{name: "numbers", schema: `{"properties":{"n":{"items":{"maximum":10}}}}`, result: `{"n":[` + strings.Repeat("1e999999,", 2000) + `1]}`},
		{name: "multiples", schema: `{"properties":{"n":{"items":{"multipleOf":0.01}}}}`, result: `{"n":[` + strings.Repeat("1e999999,", 2000) + `1]}`},
		{name: "largest", schema: wide(1_450_000), result: `{"p0":1}`},
		{name: "loops", stopWhen: loops(4), result: `{}`},
	}
	for _, depth := range append(depths, 60) {
		out = append(out,
			bomb{name: fmt.Sprintf("passing-%d", depth), schema: doubling(depth, `{"type":"object"}`), result: `{"a":1}`},
			bomb{name: fmt.Sprintf("failing-%d", depth), schema: doubling(depth, `{"type":"string"}`), result: `{"a":1}`})
	}
	return out
}

// doubling is a schema of a few bytes a level, each of which asks twice for the next.
func doubling(depth int, leaf string) string {
	var levels strings.Builder
	for i := 1; i <= depth; i++ {
		fmt.Fprintf(&levels, `,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	return fmt.Sprintf(`{"$defs":{"d0":%s%s},"$ref":"#/$defs/d%d"}`, leaf, levels.String(), depth)
}

// nested is a schema that recurs into itself in two ways at each of its levels.
func nested(depth int) string {
	schema := `{"type":"string"}`
	for range depth {
		schema = fmt.Sprintf(`{"anyOf":[{"not":{"$ref":"#"}},%s]}`, schema)
	}
	return schema
}

// wide is a schema of many properties.
func wide(bytes int) string {
	var properties strings.Builder
	for i := 0; properties.Len() < bytes; i++ {
		fmt.Fprintf(&properties, `"p%d":{"type":"integer"},`, i)
	}
	return `{"properties":{` + strings.TrimSuffix(properties.String(), ",") + `}}`
}

// loops is an expression that visits a list of fifty once for each of its items, so many times over.
func loops(depth int) string {
	list := strings.TrimSuffix("["+strings.Repeat("1,", 50), ",") + "]"
	expression := "true"
	for i := range depth {
		expression = fmt.Sprintf("%s.all(x%d, %s)", list, i, expression)
	}
	return expression
}

// task gives the bomb to the model that lays it.
func (b bomb) task(name string) *v1alpha1.AgentTask {
	return task(name, of("bombs"), func(t *v1alpha1.AgentTask) {
		t.Spec.Prompt = b.name
		if b.schema != "" {
			t.Spec.OutputSchema = &apiextensionsv1.JSON{Raw: json.RawMessage(b.schema)}
		}
		if b.stopWhen != "" {
			t.Spec.Completion = &v1alpha1.Completion{StopWhen: b.stopWhen}
		}
	})
}

// lay is the model that gives each task of a bomb its result.
func lay(all []bomb) answer {
	results := map[string]string{}
	for _, b := range all {
		results[b.name] = b.result
	}
	return func(r *fakechat.Request) fakechat.Reply {
		return fakechat.Reply{
			Text: fmt.Sprintf("%s\n\nTASK_COMPLETE: try %d", results[r.Prompt()], r.Replies()), In: 100, Out: 100, Chunk: 4096,
		}
	}
}
