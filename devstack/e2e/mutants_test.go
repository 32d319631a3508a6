//go:build mutants

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a build that breaks a promise on purpose.
type mutant struct {
	file     string // from the main module's folder
	old, new string
}

// The fault test can fail: it does for a build that records an outcome before its
// POST, and for one that does not look at what is recorded.
func TestKillNineCatchesMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, mutants := range map[string][]mutant{
		"records before the POST": {{
			file: "activities/flight.go",
			old:  "	outcome := a.sender.Send(context.Background(), hook, s.MessageID, s.Body)\n",
			new: "	outcome := waypost.Outcome{Succeed: true, HTTPStatus: 200, At: a.now()}\n" +
				"	go a.sender.Send(context.Background(), hook, s.MessageID, s.Body)\n",
		}},
		"does not look at what is recorded": {{
			file: "activities/deliver.go",
			old:  "		case s.Status.Final():\n",
			new:  "		case false:\n",
		}, {
			file: "store/openings.go",
			old:  "	if r.Status.Final() {\n		return false\n	}\n",
			new:  "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			overlay := struct{ Replace map[string]string }{map[string]string{}}
			dir := t.TempDir()
			for _, m := range mutants {
				path := filepath.Join(root, m.file)
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Count(string(b), m.old) != 1 {
					t.Fatalf("%s has changed: the mutation no longer fits", m.file)
				}
				overlay.Replace[path] = filepath.Join(dir, filepath.Base(m.file))
				if err := os.WriteFile(overlay.Replace[path], []byte(strings.Replace(string(b), m.old, m.new, 1)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b, err := json.Marshal(overlay)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", file, "-count=1", "-run", "^TestKillNine$", ".").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "the ledger and the records disagree") {
				t.Errorf("the mutant survived: %v\n%s", err, out)
			}
			t.Logf("%.600s", out)
		})
	}
}
