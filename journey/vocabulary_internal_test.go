package journey

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestVocabulary holds what the console's editor completes against what conditions and
// templates know.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../console/canvas/src/vocabulary.json")
	if err != nil {
		t.Fatal(err)
	}
	var offered struct{ Lead, Journey, Enrollment, Touchpoint, Record, Functions, Methods []string }
	if err := json.Unmarshal(data, &offered); err != nil {
		t.Fatal(err)
	}
	same := func(what string, got, want []string) {
		if got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf("%s: the editor offers\n%s\nthere are\n%s", what, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
	for name, members := range members() {
		offers := map[string][]string{varLead: offered.Lead, varJourney: offered.Journey, varEnrollment: offered.Enrollment}
		same(name, offers[name], slices.Collect(maps.Keys(members)))
	}
	same("touchpoints", offered.Touchpoint, touchpointMembers)

	env, err := conditionEnv()
	if err != nil {
		t.Fatal(err)
	}
	var functions, methods []string
	for name, f := range env.Functions() {
		if !unicode.IsLetter(rune(name[0])) {
			continue // an operator
		}
		for _, o := range f.OverloadDecls() {
			if o.IsMemberFunction() && !slices.Contains(methods, name) {
				methods = append(methods, name)
			} else if !o.IsMemberFunction() && !slices.Contains(functions, name) {
				functions = append(functions, name)
			}
		}
	}
	for _, m := range env.Macros() {
		if name := m.Function(); name == "greatest" || name == "least" {
			functions = append(functions, "math."+name)
		} else if m.IsReceiverStyle() && !slices.Contains(methods, m.Function()) {
			methods = append(methods, m.Function())
		} else if !m.IsReceiverStyle() {
			functions = append(functions, m.Function())
		}
	}
	// What few conditions need is not offered; in is an operator.
	functions = slices.DeleteFunc(functions, func(name string) bool {
		return slices.Contains([]string{"bytes", "dyn", "in", "matches", "type", "uint"}, name) || strings.Contains(name, "@") || strings.HasPrefix(name, "math.bit")
	})
	ofRecord := slices.DeleteFunc(slices.Clone(functions), func(name string) bool { return !isRecordFunction(name) })
	same("functions of the record", offered.Record, ofRecord)
	same("functions", offered.Functions, slices.DeleteFunc(functions, isRecordFunction))
	same("methods", offered.Methods, methods)
}
