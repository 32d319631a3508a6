package workflows_test

import (
	"strings"
	"testing"

	"waypost"
	"waypost/workflows"
)

// A history holds nothing of a journey that only people read.
func TestInputIsBare(t *testing.T) {
	t.Parallel()
	const definition = `{"name":"J","description":"remark","tags":["remark"],"start":"a","nodes":[{"id":"a","type":"delay","label":"remark","note":"remark","for":"1h"}]}`
	in, _, err := workflows.InputOf(waypost.Cohort{Version: waypost.JourneyVersion{JourneyID: "jrn_1", Version: 1, Name: "J", Definition: []byte(definition)}})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(in.Definition); strings.Contains(text, "remark") || !strings.Contains(text, `{"id":"a","type":"delay","for":"1h"}`) {
		t.Errorf("the input has %s", text)
	}
}
