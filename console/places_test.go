package console

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"waypost"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ target, en, zh string }{
		{"", "", ""},
		{"entry[0]", "Entry 1", "进入方式 1"},
		{"entry[1].when", "Entry 2: Only if", "进入方式 2：仅当"},
		{"entry[0].leadChanged[2]", "Entry 1: Field 3", "进入方式 1：字段 3"},
		{"exitOn[1]", "Exit 2", "退出条件 2"},
		{"goal.within", "Goal: Within", "目标：时间范围"},
		{"quietHours.from", "Quiet hours: From", "免打扰时段：从"},
		{"cases[0].when", "Condition 1", "条件 1"},
		{"cases[0].next", "Condition 1: Then", "条件 1：然后"},
		{"arms[1].weight", "Arm B: Weight", "分组 B：权重"},
		{"params.a.b", "Parameters: a.b", "参数：a.b"},
		{"params.name", "Parameters: name", "参数：name"},
		{"newer.name", "newer.name", "newer.name"},
	} {
		if en, zh := placeInWords("en", tt.target), placeInWords("zh", tt.target); en != tt.en || zh != tt.zh {
			t.Errorf("%s: %q, %q, want %q, %q", tt.target, en, zh, tt.en, tt.zh)
		}
	}
}

// TestPlaceNames holds the names of places against the members that a definition has.
func TestPlaceNames(t *testing.T) {
	t.Parallel()
	if en, zh := slices.Sorted(maps.Keys(placesIn["en"])), slices.Sorted(maps.Keys(placesIn["zh"])); !slices.Equal(en, zh) {
		t.Errorf("the languages have other places: %v, %v", en, zh)
	}
	for of, all := range membersOf(t) {
		for _, member := range all {
			_, nested := placesIn["en"][of+"."+member]
			_, known := placesIn["en"][member]
			if !nested && !known {
				_, nested = placesIn["en"][of+"[]."+member]
			}
			if !nested && !known {
				t.Errorf("places.json has no %s of %s", member, of)
			}
		}
	}
}

// A problem is said in words, and leads to its step or to the settings of the journey.
func TestStepProblems(t *testing.T) {
	t.Parallel()
	d := definition{Nodes: []node{{ID: "a"}, {ID: "check", Label: "Which one?"}}}
	var got []string
	for _, p := range d.stepProblems("en", "/journeys/jrn_1", []waypost.Detail{{Target: "nodes[1].cases[0].when"}, {Target: "goal.within"}, {Target: "nodes[7].for"}}) {
		got = append(got, p.Path+" "+p.Step+" "+p.Target)
	}
	want := []string{"/journeys/jrn_1/edit?node=check Which one? Condition 1", "/journeys/jrn_1/edit?settings=1  Goal: Within", "/journeys/jrn_1/edit?settings=1  Step 8: How long"}
	if !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
