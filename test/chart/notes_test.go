package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commandsOf are the blocks of the notes that a reader pastes, as they are printed.
func commandsOf(notes string) []string {
	return slices.DeleteFunc(strings.Split(notes, "\n\n"), func(block string) bool {
		return !strings.HasPrefix(strings.TrimSpace(block), "kubectl ")
	})
}

// A here-document whose end is indented takes in all that is pasted after it, and the shell waits for more.
func TestTheNotesCommandsCanBePasted(t *testing.T) {
	for file, ns := range map[string]string{"defaults": namespace, "namespaced": "team-a", "everything": "smoke"} {
		t.Run(file, func(t *testing.T) {
			_, _, notes, err := template(load(t), valuesFiles(t)[file])
			if err != nil {
				t.Fatal(err)
			}
			// A kubectl that notes its arguments, and keeps each manifest that it is given in a file.
			bin, record := t.TempDir(), t.TempDir()
			fake := "#!/bin/sh\necho \"$*\" >>\"$RECORD/calls\"\ncase $1 in apply) cat >\"$RECORD/$(wc -l <\"$RECORD/calls\" | tr -d ' ').yaml\" ;; esac\n"
			if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(fake), 0o700); err != nil {
				t.Fatal(err)
			}
			shell := exec.CommandContext(t.Context(), "sh")
			shell.Stdin = strings.NewReader(strings.Join(commandsOf(notes), "\n") + "\n")
			shell.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "RECORD=" + record}
			// Shells only warn of a here-document without an end.
			if out, err := shell.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("sh says %q (%v) to:\n%s", out, err, notes)
			}
			calls, err := os.ReadFile(filepath.Join(record, "calls"))
			want := strings.ReplaceAll(`apply -n NS -f -
apply -n NS -f -
wait -n NS agenttask/first --for=condition=Finished --timeout=60s
get -n NS agenttask first -o wide
`, "NS", ns)
			if err != nil || string(calls) != want {
				t.Errorf("kubectl was called with\n%s(%v), want\n%s", calls, err, want)
			}
			for manifest, kind := range map[string]string{"1.yaml": "AgentModel", "2.yaml": "AgentTask"} {
				text, err := os.ReadFile(filepath.Join(record, manifest))
				if err != nil {
					t.Error(err)
					continue
				}
				if objects, err := parse(string(text)); err != nil || len(objects) != 1 || objects[0].GetKind() != kind {
					t.Errorf("kubectl got %q (%v), want one %s", text, err, kind)
				}
			}
		})
	}
}
