package waypost

import (
	"fmt"
	"strings"
	"testing"
)

func TestAuditChange(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	long := strings.Repeat("x", MaxAuditSide)
	many := object{}
	for i := range 1000 {
		many[fmt.Sprint("member", i)] = "short"
	}
	for name, c := range map[string]struct {
		before, after any
		was, is       string
	}{
		"nothing":                    {nil, nil, "", ""},
		"the same":                   {object{"a": 1, "b": object{"c": []int{1}}}, object{"a": 1, "b": object{"c": []int{1}}}, "", ""},
		"made":                       {nil, object{"a": 1, "b": nil, "createdAt": "x", "updatedAt": "x"}, "", `{"a":1}`},
		"gone":                       {object{"a": "<b>"}, nil, `{"a":"<b>"}`, ""},
		"changed":                    {object{"a": 1, "b": 2}, object{"a": 1, "b": 3}, `{"b":2}`, `{"b":3}`},
		"null is like absent":        {object{"a": nil, "b": object{"c": nil}}, object{"b": object{}}, "", ""},
		"set and cleared":            {object{"a": 1}, object{"b": 2}, `{"a":1}`, `{"b":2}`},
		"within an object":           {object{"o": object{"a": 1, "b": 2}}, object{"o": object{"a": 1, "b": 3}}, `{"o":{"b":2}}`, `{"o":{"b":3}}`},
		"an object for another type": {object{"o": object{"a": 1}}, object{"o": "a"}, `{"o":{"a":1}}`, `{"o":"a"}`},
		"when alone":                 {object{"updatedAt": 1}, object{"updatedAt": 2}, "", ""},
		"a large number":             {nil, object{"n": int64(9007199254740993)}, "", `{"n":9007199254740993}`},
		"long":                       {nil, object{"a": long, "b": 1}, "", fmt.Sprintf(`{"a":{"leftOut":%d},"b":1}`, len(long)+2)},
		"long within":                {nil, object{"o": object{"a": long, "b": 1}}, "", fmt.Sprintf(`{"o":{"a":{"leftOut":%d},"b":1}}`, len(long)+2)},
		"many short ones":            {nil, many, "", `{"leftOut":19891}`},
	} {
		was, is, err := AuditChange(c.before, c.after)
		if err != nil || string(was) != c.was || string(is) != c.is {
			t.Errorf("%s: %s and %s (%v), want %s and %s", name, was, is, err, c.was, c.is)
		}
	}
}

func TestLeadChange(t *testing.T) {
	t.Parallel()
	before := LeadFields{Name: "Ada", MobilePhone: []string{}, CustomFields: map[string]any{"plan": "gold", "stays": 1, "goes": true}}
	after := LeadFields{Name: "Eve", CustomFields: map[string]any{"plan": "silver", "stays": 1}}
	for _, c := range []struct {
		before, after *LeadFields
		want          string
	}{
		{&before, &after, "[customFields.goes customFields.plan name]"},
		{nil, &after, "[customFields.plan customFields.stays name]"},
		{&after, &after, "[]"},
	} {
		if got, err := LeadChange(c.before, c.after); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%v (%v), want %s", got, err, c.want)
		}
	}
}
