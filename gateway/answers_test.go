package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi/datamodel/high/base"
)

// answersVariable names a file into which a full run writes every answer that its tests have got, one of each kind.
// Two of them, written before and after a change of types, tell whether the interface is what it was: `diff` shows it. What
// tests that run at once write into one list, such as the audit log, is another in each run.
const answersVariable = "WAYPOST_TEST_WRITE_ANSWERS"

// varying are the parts of answers that are another one in each run, and what stands in their place.
var varying = []struct {
	part *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b([a-z]{3})_[0-9a-z]{26}\b`), "${1}_ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "DAY"},
	{regexp.MustCompile(`"(ETag|nextCursor|access_token)":"[^"]+"`), `"${1}":"OPAQUE"`},
	{regexp.MustCompile(`-----BEGIN [A-Z ]+-----[^"]*`), "PEM"},
	{regexp.MustCompile(`(127\.0\.0\.1|localhost|\[::1\]):\d+`), "${1}:PORT"},
	{regexp.MustCompile(`\d+`), "0"},
}

// keep remembers an answer of an operation for writeAnswers.
func (c *openAPI) keep(name string, a answer) {
	if c.kept == nil || os.Getenv(answersVariable) == "" || len(a.raw) > 1<<14 {
		return
	}
	line := fmt.Sprintf("%s %s", name, a.raw)
	for _, v := range varying {
		line = v.part.ReplaceAllString(line, v.as)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[strings.ReplaceAll(line, "\n", `\n`)] = true
}

// writeAnswers writes what keep has remembered.
func (c *openAPI) writeAnswers() error {
	file := os.Getenv(answersVariable)
	if file == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := slices.Sorted(maps.Keys(c.kept))
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// member is one of an object's, in its place.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf are an object's in their order; nil of what is none.
func membersOf(raw json.RawMessage) (members []member) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	for dec.More() {
		name, err := dec.Token()
		m := member{}
		if err != nil || dec.Decode(&m.value) != nil {
			return nil
		}
		m.name = name.(string)
		members = append(members, m)
	}
	return members
}

// outOfOrder finds objects whose members stand in another order than openapi.yaml lists them in. A schema that is
// composed of others lists what those do, one behind the other. Definitions of journeys are as people have written them.
func outOfOrder(path string, s *base.Schema, raw json.RawMessage) (faults []string) {
	if strings.HasSuffix(path, ".draft") || strings.HasSuffix(path, ".definition") {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) == nil && s.Items != nil && s.Items.IsA() {
		for i, item := range items {
			faults = append(faults, outOfOrder(fmt.Sprintf("%s[%d]", path, i), s.Items.A.Schema(), item)...)
		}
	}
	members := membersOf(raw)
	if members == nil {
		return faults
	}
	listed := map[string]*base.Schema{}
	names := listedMembers(s, members, listed)
	last := -1
	for _, m := range members {
		place := slices.Index(names, m.name)
		if place >= 0 && place < last {
			faults = append(faults, fmt.Sprintf("%s: %s stands behind %s", path, m.name, names[last]))
		}
		last = max(last, place)
		if of := listed[m.name]; of != nil {
			faults = append(faults, outOfOrder(path+"."+m.name, of, m.value)...)
		} else if more := s.AdditionalProperties; more != nil && more.IsA() {
			faults = append(faults, outOfOrder(path+"."+m.name, more.A.Schema(), m.value)...)
		}
	}
	return faults
}

// listedMembers are the names that a schema lists, with their schemas; of alternatives the first that lists all members.
func listedMembers(s *base.Schema, members []member, listed map[string]*base.Schema) (names []string) {
	for name, of := range s.Properties.FromOldest() {
		if listed[name] == nil {
			names = append(names, name)
			listed[name] = of.Schema()
		}
	}
	for _, part := range s.AllOf {
		names = append(names, listedMembers(part.Schema(), members, listed)...)
	}
	for _, part := range slices.Concat(s.OneOf, s.AnyOf) {
		inner := map[string]*base.Schema{}
		more := listedMembers(part.Schema(), members, inner)
		if !slices.ContainsFunc(members, func(m member) bool { return inner[m.name] == nil && listed[m.name] == nil }) {
			maps.Copy(listed, inner)
			return append(names, more...)
		}
	}
	return names
}

// The check finds a member out of its place, wherever it stands.
func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ schema, raw, fault string }{
		{"Trial", `{"succeed":true,"httpStatus":200,"message":null,"errorClass":null,"durationMs":1}`, ""},
		{"Trial", `{"httpStatus":200,"succeed":true,"message":null,"errorClass":null,"durationMs":1}`, ": succeed stands behind httpStatus"},
		{"WebhookList", `{"items":[{"name":"","id":""}],"nextCursor":null}`, ".items[0]: id stands behind name"},
		{"WebhookHealth", `{"lastHour":{"succeeded":1,"attempts":1}}`, ".lastHour: attempts stands behind succeeded"},
		{"Conversion", `{"eventId":"","at":""}`, ": at stands behind eventId"},
	} {
		faults := outOfOrder("", theOpenAPI().schema(tc.schema), json.RawMessage(tc.raw))
		if got := strings.Join(faults, "; "); got != tc.fault {
			t.Errorf("%s %s: %q, want %q", tc.schema, tc.raw, got, tc.fault)
		}
	}
}
