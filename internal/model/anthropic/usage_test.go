package anthropic

import "testing"

// What a server tells of one input in several reports is one input, however it is split; and none of it is lost.
func TestTheInputOfSeveralReportsIsOne(t *testing.T) {
	for name, tc := range map[string]struct {
		why     string
		reports []usage
		want    usage
	}{
		"told once":                            {"as Anthropic did", []usage{{input: 10, cacheRead: 30, cacheWrite: 20, output: 1}, {output: 9}}, usage{10, 30, 20, 9}},
		"told twice":                           {"as Anthropic does", []usage{{input: 10, cacheRead: 30, cacheWrite: 20, output: 1}, {input: 10, cacheRead: 30, cacheWrite: 20, output: 9}}, usage{10, 30, 20, 9}},
		"whole, then split":                    {"a compatible server (bifrost#5354)", []usage{{input: 5000}, {input: 20, cacheRead: 4980, output: 10}}, usage{20, 4980, 0, 10}},
		"whole, then split, newly cached":      {"writing is a kind of it too", []usage{{input: 5000}, {input: 20, cacheWrite: 4980, output: 10}}, usage{20, 0, 4980, 10}},
		"whole, then split in three":           {"all kinds at once", []usage{{input: 5000}, {input: 20, cacheRead: 4000, cacheWrite: 980, output: 10}}, usage{20, 4000, 980, 10}},
		"whole, then split, then output alone": {"a report of nothing changes nothing", []usage{{input: 5000}, {input: 20, cacheRead: 4980}, {output: 10}}, usage{20, 4980, 0, 10}},
		"split, then whole":                    {"the other way round", []usage{{input: 20, cacheRead: 4980}, {input: 5000, output: 10}}, usage{20, 4980, 0, 10}},
		"whole, then the cached part alone":    {"it is a part of the whole", []usage{{input: 5000}, {cacheRead: 4980, output: 10}}, usage{20, 4980, 0, 10}},
		"the new part, then the cached part":   {"it was not told before", []usage{{input: 20}, {cacheRead: 4980, output: 10}}, usage{20, 4980, 0, 10}},
		"the new part, then all":               {"the second report is whole", []usage{{input: 20}, {input: 20, cacheRead: 4980, output: 10}}, usage{20, 4980, 0, 10}},
		"whole, then a split that lacks one":   {"what was told once is billed", []usage{{input: 5000}, {input: 20, cacheRead: 4979, output: 10}}, usage{21, 4979, 0, 10}},
		"one count that grew":                  {"only what changed is repeated", []usage{{input: 10, cacheRead: 30}, {input: 12, output: 9}}, usage{12, 30, 0, 9}},
		"nothing at first":                     {"all of it comes at the end", []usage{{}, {input: 5000, output: 10}}, usage{5000, 0, 0, 10}},
		"less at the end":                      {"a total never falls", []usage{{input: 5000}, {input: 20, output: 10}}, usage{5000, 0, 0, 10}},
	} {
		var got usage
		for _, r := range tc.reports {
			got.merge(r)
		}
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v: %s", name, got, tc.want, tc.why)
		}
	}
}
