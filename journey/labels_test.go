package journey_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"waypost"
	"waypost/journey"
)

// What only people read has bounds, and is no part of what a journey runs by.
func TestLabels(t *testing.T) {
	t.Parallel()
	tags := make([]string, waypost.MaxTags+1)
	for i := range tags {
		tags[i] = fmt.Sprintf("%s%02d", strings.Repeat("é", waypost.MaxTag-2), i)
	}
	text := func(n int) string { return strings.Repeat("你", n) }
	definition := func(description, label, note string, tags []string) *journey.Definition {
		body, err := json.Marshal(map[string]any{
			"name": "x", "description": description, "tags": tags, "start": "a", "nodes": []any{map[string]any{"id": "a", "type": "exit", "label": label, "note": note}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, string(body))
	}
	for _, test := range []struct {
		d    *journey.Definition
		want string
	}{
		{definition(text(journey.MaxDescription), text(journey.MaxLabel), text(journey.MaxNote), tags[1:]), ""},
		{definition(text(journey.MaxDescription+1), "", "", nil), "TooLong description: has at most 2000 characters\n"},
		{definition("", text(journey.MaxLabel+1), "", nil), "TooLong nodes[0].label: has at most 100 characters\n"},
		{definition("", "", text(journey.MaxNote+1), nil), "TooLong nodes[0].note: has at most 2000 characters\n"},
		{definition("", "", "", tags), "TooLong tags: a journey has at most 20 tags, not 21\n"},
	} {
		if got := list(test.d.Check(nil, nil)); got != test.want {
			t.Errorf("problems %q, want %q", got, test.want)
		}
	}

	all := parse(t, string(read(t, "testdata/valid_labels.json")))
	if !strings.Contains(string(all.Canonical()), `"tags":["spring","新客户","VIP","vip"]`) {
		t.Errorf("canonical form %s", all.Canonical())
	}
	if n, _ := all.Node("hello"); n.Label != `Greeting, "first"` || n.Note != "Text:\r\nmarketing" {
		t.Errorf("hello is %+v", n)
	}
	if again := parse(t, string(all.Canonical())); again.Hash() != all.Hash() || !reflect.DeepEqual(again.Nodes(), all.Nodes()) {
		t.Errorf("canonical form %s", all.Canonical())
	}
	bare := parse(t, string(all.Bare()))
	for _, member := range []string{"description", "tags", "label", "note"} {
		if strings.Contains(string(all.Bare()), `"`+member+`"`) {
			t.Errorf("there is %s in %s", member, all.Bare())
		}
	}
	if string(bare.Bare()) != string(bare.Canonical()) || bare.Hash() == all.Hash() {
		t.Errorf("%s has the bare form %s", bare.Canonical(), bare.Bare())
	}
	var got []string
	for _, c := range journey.Diff(bare, all) {
		got = append(got, c.NodeID+"."+c.Member+" "+string(c.What))
	}
	want := []string{
		".description added", ".tags added", "hello.label added", "hello.note added", "check.label added", "arms.label added",
		"event.label added", "time.label added", "other.label added", "end.label added", "end.note added",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the difference is %q, want %q", got, want)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_everything.json")))
	before := string(d.Canonical())
	c, err := d.Copy("Another", map[string]string{"whk_1": "whk_9", "jrn_1": "Follow-up", "hello": "no id"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"name":"Everything"`, `"name":"Another"`, "whk_1", "whk_9", "jrn_1", "Follow-up").Replace(before)
	if got := string(c.Canonical()); got != want || string(d.Canonical()) != before || c.Name() != "Another" {
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
	if problems := c.Check(nil, nil); len(problems) > 0 {
		t.Errorf("Check: %v", problems)
	}
	if _, err := d.Copy(strings.Repeat("x", journey.MaxDefinition), nil); err == nil {
		t.Error("a copy has any size")
	}
}
