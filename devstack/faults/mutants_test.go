//go:build mutants

package faults

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a build that breaks a promise on purpose, and the case that notices it.
type mutant struct {
	changes []change
	test    string // for go test -run
	says    string // what the case says
}

type change struct {
	file     string // from the main module's folder
	old, new string
}

var mutants = map[string]mutant{
	"records before the POST": {
		changes: []change{{
			file: "delivery/flight.go",
			old:  "	return e.sender.Send(context.WithValue(ctx, attemptKey{}, s.Open.Attempt), hook, s.MessageID, s.Body)\n",
			new: "	go e.sender.Send(ctx, hook, s.MessageID, s.Body)\n" +
				"	return waypost.Outcome{Succeed: true, HTTPStatus: 200, At: e.now()}\n",
		}},
		test: "^TestReceivers$/^fails_twice$",
		says: "recorded as succeeded, delivered is false",
	},
	"does not look at what is recorded": {
		changes: []change{{
			file: "delivery/stage_recorded.go",
			old:  "		case s.Status.Final():\n",
			new:  "		case false:\n",
		}, {
			file: "store/delivery_open.go",
			old:  "	if r.Status.Final() || r.Round != max(o.Round, 1) {\n",
			new:  "	if r.Round != max(o.Round, 1) {\n",
		}},
		test: "^TestReceivers$/^slow$",
		says: "sent again after attempt 1 delivered it",
	},
	"admits everybody": {
		changes: []change{{
			file: "delivery/admission.go",
			old:  "	granted = max(0, min(n, atOnce-l.underWay, free))\n",
			new:  "	granted = max(n, min(0, free))\n",
		}},
		test: "^TestReceivers$/^slow$",
		says: "messages at a time, 30 are allowed",
	},
	"does not look at rate limits": {
		changes: []change{{
			file: "delivery/admission.go",
			old:  "	if limit := hook.RateLimit; limit != nil && granted > 0 {\n",
			new:  "	if limit := hook.RateLimit; false {\n",
		}},
		test: "^TestReceivers$/^limited$",
		says: "10 a second are allowed",
	},
	"lets most pass an open breaker": {
		changes: []change{{
			file: "limits/breaker.go",
			old:  "		return 0, c.turn(now, c.Until)\n",
			new:  "		return n * 9 / 10, c.turn(now, c.Until)\n",
		}},
		test: "^TestReceivers$/^dead$",
		says: "attempts were made while the receiver was dead, want",
	},
	"lets one webhook wait in all slots": {
		changes: []change{{
			file: "delivery/slots.go",
			old:  "	if s.by[webhookID] >= WaitingSlots-s.taken {\n",
			new:  "	if false {\n",
		}},
		test: "^TestSlowSingles$",
		says: "the launch is not completed beside the slow receiver",
	},
}

// The cases can fail: they do for builds that are broken on purpose, and say why.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			overlay := struct{ Replace map[string]string }{map[string]string{}}
			dir := t.TempDir()
			for _, c := range m.changes {
				path := filepath.Join(root, c.file)
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Count(string(b), c.old) != 1 {
					t.Fatalf("%s has changed: the mutation no longer fits", c.file)
				}
				overlay.Replace[path] = filepath.Join(dir, filepath.Base(c.file))
				if err := os.WriteFile(overlay.Replace[path], []byte(strings.Replace(string(b), c.old, c.new, 1)), 0o600); err != nil {
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
			out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", file, "-ldflags=-w", "-vet=off", "-count=1", "-timeout", "5m", "-run", m.test, ".").CombinedOutput()
			if err == nil || !strings.Contains(string(out), m.says) {
				t.Errorf("the mutant survived: %v\n%s", err, out)
			}
			t.Logf("%.600s", out)
		})
	}
}
