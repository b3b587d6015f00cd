package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
)

func version(uid types.UID, resourceVersion, prompt string) *v1alpha1.AgentTask {
	return &v1alpha1.AgentTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: taskKey.Namespace, Name: taskKey.Name, UID: uid, ResourceVersion: resourceVersion},
		Spec:       v1alpha1.AgentTaskSpec{Prompt: prompt},
	}
}

// Watch, reads and our own writes tell of a task in any order.
func TestTheNewestVersionOfATaskCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		seen    []*v1alpha1.AgentTask
		prompt  string
		deleted bool
		told    bool
	}{
		"a newer one":                     {[]*v1alpha1.AgentTask{version("1", "11", "new")}, "new", false, true},
		"more digits are newer":           {[]*v1alpha1.AgentTask{version("1", "100", "new")}, "new", false, true},
		"an older one, of a slow cache":   {[]*v1alpha1.AgentTask{version("1", "9", "old")}, "first", false, false},
		"the same":                        {[]*v1alpha1.AgentTask{version("1", "10", "same")}, "first", false, false},
		"another task of that name":       {[]*v1alpha1.AgentTask{version("2", "12", "other")}, "first", true, true},
		"an older task of that name":      {[]*v1alpha1.AgentTask{version("0", "8", "other")}, "first", false, false},
		"newest first, then the slow one": {[]*v1alpha1.AgentTask{version("1", "12", "newest"), version("1", "11", "new")}, "newest", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(version("1", "10", "first"))
			changed := l.watch()
			for _, v := range tc.seen {
				l.see(v)
			}
			task, deleted := l.now()
			if task.Spec.Prompt != tc.prompt || deleted != tc.deleted {
				t.Errorf("got %q, deleted %v", task.Spec.Prompt, deleted)
			}
			select {
			case <-changed:
				if !tc.told {
					t.Error("a change is told that is none")
				}
			default:
				if tc.told {
					t.Error("the change is not told")
				}
			}
		})
	}
}

func TestADeletionIsTold(t *testing.T) {
	l := newLive(version("1", "10", "first"))
	changed := l.watch()
	l.end()
	<-changed
	if _, deleted := l.now(); !deleted {
		t.Error("it is not deleted")
	}
}
