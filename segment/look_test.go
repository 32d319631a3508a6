package segment_test

import (
	"strconv"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
	"waypost/segment"
)

// When time makes the condition of a waitFor true is told ahead, also through segments that name
// others, in a dry run too; what needs another look before is told as such.
func TestNextLook(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	whens := map[string]string{
		"seg_06jvh5r0g1s0q2k3m4n5p6q1r8": `events("v").count() > 0 && events("v", duration("72h")).count() == 0`,
		"seg_06jvh5r0g1s0q2k3m4n5p6q2r8": `inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q1r8") && lead.name == "Ada"`,
		"seg_06jvh5r0g1s0q2k3m4n5p6q3r8": `lead.name == "Bob"`,
	}
	rules := map[string]waypost.SegmentRule{}
	for id := range whens {
		s, err := segment.Compile(id, whens)
		if err != nil {
			t.Fatal(err)
		}
		rules[id] = s
	}
	lead := waypost.Lead{LeadsID: 1, LeadFields: waypost.LeadFields{Name: "Ada", CustomFields: map[string]any{"timezone": "Asia/Shanghai"}}}
	seen := now.Add(-time.Hour)
	for _, test := range []struct {
		when    string
		rules   map[string]waypost.SegmentRule
		until   time.Duration
		want    time.Time // zero: never
		matches bool      // then
	}{
		{`events("v", duration("72h")).count() == 0`, nil, 96 * time.Hour, seen.Add(72 * time.Hour), true},
		{`events("v", duration("72h")).count() == 0`, nil, 71 * time.Hour, time.Time{}, false},
		{`events("v", duration("72h")).count() == 0 && lead.name == "Bob"`, nil, 96 * time.Hour, time.Time{}, false},
		{`lead.name == "Bob"`, nil, 96 * time.Hour, time.Time{}, false},
		{`today >= date("2026-03-03")`, nil, 96 * time.Hour, time.Date(2026, 3, 2, 16, 0, 0, 0, time.UTC), true},
		{`now >= timestamp("2026-03-01T13:30:20Z")`, nil, 96 * time.Hour, now.Add(91 * time.Minute), true},
		{`now >= timestamp("2026-03-03T13:30:20Z")`, nil, 96 * time.Hour, now.Add(6 * time.Hour), false},
		{`inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q1r8")`, rules, 30 * time.Minute, time.Time{}, false},
		{`inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q3r8")`, rules, 96 * time.Hour, now.Add(time.Hour), false},
	} {
		d, problems := journey.Parse([]byte(`{"name":"n","start":"w","nodes":[{"id":"w","type":"waitFor","when":` + strconv.Quote(test.when) + `,"timeout":"P30D"}]}`))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		record := &waypost.LeadRecord{Events: map[string][]waypost.RecordedEvent{"v": {{At: seen}}}, Segments: map[string]bool{}}
		f := journey.Facts{Lead: lead, Record: record, Segments: test.rules, Now: now}
		if got := d.NextLook("w", f, now.Add(test.until)); !got.Equal(test.want) {
			t.Errorf("%s: look at %s, want %s", test.when, got, test.want)
		}
		if f.Now = test.want; test.matches {
			if yes, why := d.Holds("w", f); !yes {
				t.Errorf("%s: not true then: %s", test.when, why)
			}
		}
	}
	// Shortly before, through the segments; not, and nested.
	near := seen.Add(71*time.Hour + 30*time.Minute)
	for when, want := range map[string]time.Time{
		`inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q1r8")`:                                                seen.Add(72 * time.Hour),
		`inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q2r8")`:                                                seen.Add(72 * time.Hour),
		`!inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q1r8")`:                                               near.Add(time.Hour), // it is true already: nothing is to come
		`inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q2r8") && lead.name == "Bob"`:                          near.Add(time.Hour),
		`inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q3r8") || inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q2r8")`: seen.Add(72 * time.Hour),
	} {
		d, _ := journey.Parse([]byte(`{"name":"n","start":"w","nodes":[{"id":"w","type":"waitFor","when":` + strconv.Quote(when) + `,"timeout":"P30D"}]}`))
		record := &waypost.LeadRecord{Events: map[string][]waypost.RecordedEvent{"v": {{At: seen}}}, Segments: map[string]bool{}}
		f := journey.Facts{Lead: lead, Record: record, Segments: rules, Now: near}
		got := d.NextLook("w", f, near.Add(96*time.Hour))
		if when[0] != '!' && !got.Equal(want) {
			t.Errorf("%s: look at %s, want %s", when, got, want)
		}
		// A dry run sees the same moment, from the lead's entry on.
		run, err := journey.Simulate(t.Context(), d, journey.SimulateOptions{Facts: f, Start: near})
		if err != nil {
			t.Fatal(err)
		}
		matched := run.Path[0].Result == "matched"
		if hits := want.Equal(seen.Add(72*time.Hour)) || when[0] == '!'; matched != hits || matched && when[0] != '!' && !run.Path[0].Left.Equal(want) {
			t.Errorf("%s: the dry run %s at %s", when, run.Path[0].Result, run.Path[0].Left)
		}
	}
}
